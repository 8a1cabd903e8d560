package registration

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/stored"
)

const (
	forWrites   = true
	forRequests = false
)

// policyFor returns a policy that limits writes or requests.
func policyFor(writes bool, change func(*v1alpha1.RateLimitPolicy)) *v1alpha1.RateLimitPolicy {
	p := &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", UID: "1", Generation: 1}}
	p.Spec.Axis, p.Spec.Limit, p.Spec.Window = v1alpha1.AxisUser, new(int64(1)), "1h"
	if writes {
		p.Spec.Match = &v1alpha1.Match{Kubernetes: &v1alpha1.KubernetesMatch{Resources: []v1alpha1.KubernetesResources{{
			APIGroups: []v1alpha1.APIGroup{""}, Resources: []v1alpha1.ResourceName{"pods"},
		}}}}
	}
	if change != nil {
		change(p)
	}
	return p
}

func TestWritesChanged_PassesOnlyEventsThatCanChangeAWebhook(t *testing.T) {
	edit := func(p *v1alpha1.RateLimitPolicy) { p.Generation = 2 }
	for name, c := range map[string]struct {
		before, after *v1alpha1.RateLimitPolicy
		want          bool
	}{
		"an edit":                       {policyFor(forWrites, nil), policyFor(forWrites, edit), true},
		"a label":                       {policyFor(forWrites, nil), policyFor(forWrites, func(p *v1alpha1.RateLimitPolicy) { p.Labels = map[string]string{"a": "b"} }), true},
		"a status":                      {policyFor(forWrites, nil), policyFor(forWrites, func(p *v1alpha1.RateLimitPolicy) { p.ResourceVersion = "2" }), false},
		"another object":                {policyFor(forWrites, nil), policyFor(forWrites, func(p *v1alpha1.RateLimitPolicy) { p.UID = "2" }), true},
		"another object for requests":   {policyFor(forWrites, nil), policyFor(forRequests, func(p *v1alpha1.RateLimitPolicy) { p.UID = "2" }), true},
		"an edit to requests":           {policyFor(forWrites, nil), policyFor(forRequests, edit), true},
		"an edit to writes":             {policyFor(forRequests, nil), policyFor(forWrites, edit), true},
		"an edit of one for requests":   {policyFor(forRequests, nil), policyFor(forRequests, edit), false},
		"a label of one for requests":   {policyFor(forRequests, nil), policyFor(forRequests, func(p *v1alpha1.RateLimitPolicy) { p.Labels = map[string]string{"a": "b"} }), false},
		"the deletion begins":           {policyFor(forWrites, nil), policyFor(forWrites, func(p *v1alpha1.RateLimitPolicy) { p.Generation, p.DeletionTimestamp = 2, &metav1.Time{} }), true},
		"a new object for requests now": {policyFor(forRequests, nil), policyFor(forRequests, func(p *v1alpha1.RateLimitPolicy) { p.UID = "2" }), false},
	} {
		if got := writesChanged().Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after}); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
	cluster := func(writes bool) client.Object {
		p := policyFor(writes, nil)
		c := &v1alpha1.ClusterRateLimitPolicy{ObjectMeta: p.ObjectMeta}
		c.Spec.RateLimitPolicySpec = p.Spec
		return c
	}
	deleting := func(p *v1alpha1.RateLimitPolicy) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	for _, c := range []struct {
		object client.Object
		want   bool
	}{
		{policyFor(forWrites, nil), true},
		{policyFor(forRequests, nil), false},
		{cluster(forWrites), true},
		{cluster(forRequests), false},
		{policyFor(forWrites, deleting), true},
	} {
		if created, deleted := writesChanged().Create(event.CreateEvent{Object: c.object}), writesChanged().Delete(event.DeleteEvent{Object: c.object}); created != c.want || deleted != c.want {
			t.Errorf("a new %T: %t, a deleted one: %t, want %t", c.object, created, deleted, c.want)
		}
	}
}

// After each step of a random history, the webhooks are those of a memo that has not seen the steps before.
func TestThrottleRules_AreTheSameAsCompilingFromNothing(t *testing.T) {
	random, memo, policies, different := rand.New(rand.NewPCG(1, 1)), new(compile.Memo), map[string]*v1alpha1.RateLimitPolicy{}, map[string]bool{}
	limiter := &v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: "weir", Name: "default"}}
	limiter.Spec.KubernetesThrottle = &v1alpha1.KubernetesThrottle{}
	for step := range 300 {
		name := fmt.Sprintf("p%d", random.IntN(6))
		if before := policies[name]; before != nil && random.IntN(4) == 0 {
			delete(policies, name)
		} else {
			policies[name] = edited(random, before, name, step)
		}
		all := stored.Policies{Namespaced: slices.Collect(maps.Values(policies))}
		got := ThrottlingLimiter{Limiter: limiter, Rules: throttleRules(all, memo)}
		want := ThrottlingLimiter{Limiter: limiter, Rules: throttleRules(all, new(compile.Memo))}
		if diff := cmp.Diff(Render([]ThrottlingLimiter{want}), Render([]ThrottlingLimiter{got})); diff != "" {
			t.Fatalf("step %d (-from nothing +from the steps before):\n%s", step, diff)
		}
		different[fmt.Sprint(len(got.Rules), got.webhooks())] = true
	}
	if len(different) < 50 {
		t.Errorf("%d different webhooks, want more", len(different))
	}
}

// edited returns a policy for writes, in place of the one before, if there is one.
func edited(random *rand.Rand, before *v1alpha1.RateLimitPolicy, name string, step int) *v1alpha1.RateLimitPolicy {
	return policyFor(forWrites, func(p *v1alpha1.RateLimitPolicy) {
		p.Namespace, p.Name, p.UID = "team-"+name[1:], name, types.UID(strconv.Itoa(step))
		if before != nil && random.IntN(2) == 0 {
			p.UID, p.Generation = before.UID, before.Generation+1
		}
		resources := []v1alpha1.ResourceName{"pods", "*", "pods/*", "*/*", "services"}
		p.Spec.Match.Kubernetes.Resources[0].Resources = []v1alpha1.ResourceName{resources[random.IntN(len(resources))]}
		if random.IntN(8) == 0 {
			p.Spec.Window = "1 week" // invalid
		}
		if random.IntN(3) == 0 {
			p.Namespace, p.Spec.CounterName = "team", "p1"
		}
		p.CreationTimestamp = metav1.NewTime(time.Unix(random.Int64N(3), 0))
	})
}

// The policies of a Limiter that does not throttle any more are forgotten.
func TestReconcile_ForgetsLimiters(t *testing.T) {
	edit, r, kube := newEdits(t, 20, 10, 2)
	edit()
	if len(r.memos) != 1 {
		t.Fatalf("%d Limiters are remembered, want 1", len(r.memos))
	}
	var l v1alpha1.Limiter
	must(t, kube.Get(t.Context(), types.NamespacedName{Namespace: "weir", Name: "default"}, &l))
	l.Spec.KubernetesThrottle = nil
	must(t, kube.Update(t.Context(), &l))
	_, err := r.Reconcile(t.Context(), ctrl.Request{})
	must(t, err)
	if len(r.memos) != 0 {
		t.Errorf("%d Limiters are remembered, want 0", len(r.memos))
	}
}

// An edit of a policy for writes allocates as much as with fewer policies that limit requests. It compiles no other policy for writes: what it reports of
// each has a name.
func TestReconcile_AnEditCostsWhatItChanges(t *testing.T) {
	allocations := func(policies, writes int) float64 {
		edit, _, _ := newEdits(t, policies, writes, 10)
		edit()
		return testing.AllocsPerRun(5, edit)
	}
	if few, many := allocations(100, 10), allocations(1000, 10); many > few+100 {
		t.Errorf("an edit allocates %.0f times with 100 policies, and %.0f times with 1000", few, many)
	}
	if few, many := allocations(100, 100), allocations(1000, 1000); many > few+2*900 {
		t.Errorf("an edit allocates %.0f times with 100 policies for writes, and %.0f times with 1000", few, many)
	}
}
