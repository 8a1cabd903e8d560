package leadership

import (
	"context"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// election is a Lease that the test gives to one of two operators.
type election struct {
	*testing.T
	kube *fake.Clientset
	now  time.Time
}

func newElection(t *testing.T) *election {
	t.Helper()
	return &election{t, fake.NewClientset(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "limits", Name: "op"}}), time.Now()}
}

func (e *election) candidate(identity string) *Leadership {
	return &Leadership{
		identity: identity, leases: e.kube.CoordinationV1(), lease: metav1.ObjectMeta{Namespace: "limits", Name: "op"}, clock: func() time.Time { return e.now },
	}
}

func (e *election) elect(identity string) {
	e.Helper()
	leases := e.kube.CoordinationV1().Leases("limits")
	lease, err := leases.Get(e.Context(), "op", metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	lease.Spec.HolderIdentity = new(identity)
	if _, err := leases.Update(e.Context(), lease, metav1.UpdateOptions{}); err != nil {
		e.Fatal(err)
	}
}

func TestConfirm_FailsForAnOperatorThatAnotherHasReplaced(t *testing.T) {
	e := newElection(t)
	a, b := e.candidate("a"), e.candidate("b")
	e.elect("a")
	if err := a.Confirm(t.Context()); err != nil {
		t.Error(err)
	}
	e.elect("b")
	if err := a.Confirm(t.Context()); err == nil || !strings.Contains(err.Error(), "Lease limits/op has another holder") {
		t.Errorf("the previous leader: %v", err)
	}
	if err := b.Confirm(t.Context()); err != nil {
		t.Error(err)
	}
	if err := (*Leadership)(nil).Confirm(t.Context()); err != nil {
		t.Errorf("without election: %v", err)
	}
}

// Every method that writes must be fenced: an operator that was paused while another was elected writes nothing, of whatever kind.
func TestClient_WritesNothingAfterAPauseInWhichAnotherWasElected(t *testing.T) {
	object := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "limits", Name: "some"}}
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{}`))
	apply := func() *corev1ac.ConfigMapApplyConfiguration { return corev1ac.ConfigMap("some", "limits") }
	for name, write := range map[string]func(ctx context.Context, c client.Client) error{
		"create": func(ctx context.Context, c client.Client) error { return c.Create(ctx, object()) },
		"update": func(ctx context.Context, c client.Client) error { return c.Update(ctx, object()) },
		"patch":  func(ctx context.Context, c client.Client) error { return c.Patch(ctx, object(), patch) },
		"apply":  func(ctx context.Context, c client.Client) error { return c.Apply(ctx, apply()) },
		"delete": func(ctx context.Context, c client.Client) error { return c.Delete(ctx, object()) },
		"delete all": func(ctx context.Context, c client.Client) error {
			return c.DeleteAllOf(ctx, object(), client.InNamespace("limits"))
		},
		"status":     func(ctx context.Context, c client.Client) error { return c.Status().Update(ctx, object()) },
		"status of":  func(ctx context.Context, c client.Client) error { return c.Status().Patch(ctx, object(), patch) },
		"its status": func(ctx context.Context, c client.Client) error { return c.Status().Apply(ctx, apply()) },
		"subresource": func(ctx context.Context, c client.Client) error {
			return c.SubResource("x").Create(ctx, object(), object())
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newElection(t)
			a := e.candidate("a")
			e.elect("a")
			c := a.Client(fakeclient.NewClientBuilder().WithObjects(object()).Build())
			if err := c.Update(t.Context(), object()); err != nil {
				t.Fatal(err)
			}
			e.elect("b")
			e.now = e.now.Add(ConfirmedFor) // the pause
			err := write(t.Context(), c)
			if err == nil || !strings.Contains(err.Error(), "not the leader any more") {
				t.Errorf("error %v", err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(object()), object()); err != nil {
				t.Errorf("reading: %v", err)
			}
		})
	}
}

func TestConfirmRecent_ReadsTheLeaseOnlyWhenTheConfirmationIsOld(t *testing.T) {
	e := newElection(t)
	a := e.candidate("a")
	e.elect("a")
	reads := func() (n int) {
		for _, action := range e.kube.Actions() {
			if action.GetVerb() == "get" {
				n++
			}
		}
		return n
	}
	before := reads()
	for _, step := range []struct {
		after time.Duration
		reads int
	}{{0, 1}, {ConfirmedFor - time.Second, 1}, {time.Second, 2}, {-time.Hour, 3}} { // the last one: the clock was set back
		e.now = e.now.Add(step.after)
		if err := a.ConfirmRecent(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := reads() - before; got != step.reads {
			t.Errorf("after %v: %d reads, want %d", step.after, got, step.reads)
		}
	}
}
