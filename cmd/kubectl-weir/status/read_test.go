package status

import (
	"context"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// pagedReader returns RateLimitPolicies in two pages, and no other objects.
type pagedReader struct{ client.Reader }

func (pagedReader) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	policies, is := list.(*v1alpha1.RateLimitPolicyList)
	if !is {
		return nil
	}
	switch token := (&client.ListOptions{}).ApplyOptions(options).Continue; token {
	case "":
		policies.Items, policies.Continue = []v1alpha1.RateLimitPolicy{policy("a"), policy("b")}, "second"
	case "second":
		policies.Items = []v1alpha1.RateLimitPolicy{policy("c")}
	}
	return nil
}

func (pagedReader) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func TestRead_ReadsAllPages(t *testing.T) {
	o, err := Read(t.Context(), pagedReader{}, Scope{OperatorNamespace: "weir-system"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range o.Policies {
		names = append(names, o.Policies[i].Name)
	}
	if !slices.Equal(names, []string{"a", "b", "c"}) || len(o.Webhooks) > 0 || len(o.Unread) > 0 {
		t.Errorf("policies %q, %d webhooks, unread %v", names, len(o.Webhooks), o.Unread)
	}
}
