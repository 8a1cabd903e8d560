package leadership

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Client returns a client that writes only while this operator is the leader.
func (l *Leadership) Client(c client.Client) client.Client {
	if l == nil {
		return c
	}
	return fenced{c, l}
}

// fenced confirms the leadership before each write.
type fenced struct {
	client.Client

	leader *Leadership
}

func (f fenced) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	if err := f.leader.ConfirmRecent(ctx); err != nil {
		return err
	}
	return f.Client.Create(ctx, o, options...)
}

func (f fenced) Delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	if err := f.leader.ConfirmRecent(ctx); err != nil {
		return err
	}
	return f.Client.Delete(ctx, o, options...)
}

func (f fenced) DeleteAllOf(ctx context.Context, o client.Object, options ...client.DeleteAllOfOption) error {
	if err := f.leader.ConfirmRecent(ctx); err != nil {
		return err
	}
	return f.Client.DeleteAllOf(ctx, o, options...)
}

func (f fenced) Update(ctx context.Context, o client.Object, options ...client.UpdateOption) error {
	if err := f.leader.ConfirmRecent(ctx); err != nil {
		return err
	}
	return f.Client.Update(ctx, o, options...)
}

func (f fenced) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.PatchOption) error {
	if err := f.leader.ConfirmRecent(ctx); err != nil {
		return err
	}
	return f.Client.Patch(ctx, o, patch, options...)
}

func (f fenced) Apply(ctx context.Context, o runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	if err := f.leader.ConfirmRecent(ctx); err != nil {
		return err
	}
	return f.Client.Apply(ctx, o, options...)
}

func (f fenced) Status() client.SubResourceWriter { return f.SubResource("status") }

func (f fenced) SubResource(name string) client.SubResourceClient {
	return fencedSubResource{f.Client.SubResource(name), f.leader}
}

// fencedSubResource confirms the leadership before each write of a subresource.
type fencedSubResource struct {
	client.SubResourceClient

	leader *Leadership
}

func (f fencedSubResource) Create(ctx context.Context, o, sub client.Object, options ...client.SubResourceCreateOption) error {
	if err := f.leader.ConfirmRecent(ctx); err != nil {
		return err
	}
	return f.SubResourceClient.Create(ctx, o, sub, options...)
}

func (f fencedSubResource) Update(ctx context.Context, o client.Object, options ...client.SubResourceUpdateOption) error {
	if err := f.leader.ConfirmRecent(ctx); err != nil {
		return err
	}
	return f.SubResourceClient.Update(ctx, o, options...)
}

func (f fencedSubResource) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	if err := f.leader.ConfirmRecent(ctx); err != nil {
		return err
	}
	return f.SubResourceClient.Patch(ctx, o, patch, options...)
}

func (f fencedSubResource) Apply(ctx context.Context, o runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
	if err := f.leader.ConfirmRecent(ctx); err != nil {
		return err
	}
	return f.SubResourceClient.Apply(ctx, o, options...)
}
