package selection

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/internal/stored"
)

// clusterPolicy returns a policy that applies to all namespaces.
func clusterPolicy(name string, generation, limit int64) v1alpha1.ClusterRateLimitPolicy {
	p := v1alpha1.ClusterRateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("cluster-" + name), Generation: generation}}
	p.Spec.RateLimitPolicySpec = policy(name, generation, limit).Spec
	return p
}

func namespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("namespace-" + name), Labels: labels, Annotations: map[string]string{"team": name}}}
}

// cluster returns a client of a cluster with these objects.
func cluster(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func gather(t *testing.T, c client.Reader) Inputs {
	t.Helper()
	in, err := Gather(t.Context(), Reader{Reader: c}, false)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestGather_OmitsPoliciesThatAreBeingDeleted(t *testing.T) {
	daily, leaving := policy("daily", 1, 10), policy("leaving", 1, 10)
	floor, goes := clusterPolicy("floor", 1, 10), clusterPolicy("goes", 1, 10)
	leaving.Finalizers, goes.Finalizers = []string{"example.com/x"}, []string{"example.com/x"}
	c := cluster(t, &daily, &leaving, &floor, &goes, namespace("shop", map[string]string{"tier": "gold"}))
	for _, o := range []client.Object{&leaving, &goes} {
		if err := c.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	in := gather(t, c)
	var names []string
	for _, p := range List(in.Policies) {
		names = append(names, p.Name)
	}
	if want := []string{"_cluster/floor", "shop/daily"}; !slices.Equal(names, want) {
		t.Errorf("policies %q, want %q", names, want)
	}
	want := []compile.Namespace{{Name: "shop", Labels: map[string]string{"tier": "gold"}, Annotations: map[string]string{"team": "shop"}}}
	if diff := cmp.Diff(want, in.Namespaces); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
}

func TestGather_HashesEveryChangeOfANamespace(t *testing.T) {
	c := cluster(t, namespace("shop", nil), namespace("bank", nil))
	hashes := map[uint64]string{gather(t, c).NamespacesHash: "the beginning"}
	unique := func(after string) {
		t.Helper()
		hash := gather(t, c).NamespacesHash
		if before, known := hashes[hash]; known {
			t.Errorf("the hash after %s is that of %s", after, before)
		}
		hashes[hash] = after
	}
	if hash := gather(t, c).NamespacesHash; hashes[hash] == "" {
		t.Error("the hash of the same namespaces has changed")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Create(t.Context(), namespace("new", nil)))
	unique("a namespace was created")
	must(c.Patch(t.Context(), namespace("shop", nil), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"tier":"gold"}}}`))))
	unique("a namespace was changed")
	must(c.Delete(t.Context(), namespace("bank", nil)))
	unique("a namespace was deleted")
}

// reversed lists namespaces in the opposite order, as a cache may.
type reversed struct{ client.Reader }

func (r reversed) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := r.Reader.List(ctx, list, options...)
	if namespaces, ok := list.(*metav1.PartialObjectMetadataList); ok {
		slices.Reverse(namespaces.Items)
	}
	return err
}

func TestGather_HashDoesNotDependOnTheOrder(t *testing.T) {
	c := cluster(t, namespace("shop", nil), namespace("bank", nil))
	if a, b := gather(t, c), gather(t, reversed{c}); a.NamespacesHash != b.NamespacesHash || a.Namespaces[0].Name == b.Namespaces[0].Name {
		t.Errorf("hashes %d and %d, of %v and %v", a.NamespacesHash, b.NamespacesHash, a.Namespaces, b.Namespaces)
	}
}

func TestGather_FailsIfAListCannotBeRead(t *testing.T) {
	refused := errors.New("refused")
	for i := range 3 {
		calls := 0
		c := interceptor.NewClient(cluster(t), interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if calls++; calls == i+1 {
				return refused
			}
			return c.List(ctx, list, options...)
		}})
		if _, err := Gather(t.Context(), Reader{Reader: c}, false); !errors.Is(err, refused) {
			t.Errorf("list %d: %v, want its error", i, err)
		}
	}
}

func TestGenerations_ReturnsTheSameMapUntilAPolicyChanges(t *testing.T) {
	listed := func(daily, floor int64) stored.Policies {
		return both([]v1alpha1.RateLimitPolicy{policy("daily", daily, 10)}, clusterPolicy("floor", floor, 10))
	}
	first := listed(1, 1)
	before := Generations(stored.Policies{}, first, nil)
	if diff := cmp.Diff(map[types.UID]int64{"daily": 1, "cluster-floor": 1}, before); diff != "" {
		t.Errorf("generations (-want +got):\n%s", diff)
	}
	if !isSameMap(Generations(first, listed(1, 1), before), before) {
		t.Error("another map was returned although nothing differs")
	}
	for name, test := range map[string]struct {
		after stored.Policies
		want  map[types.UID]int64
	}{
		"a RateLimitPolicy":        {listed(2, 1), map[types.UID]int64{"daily": 2, "cluster-floor": 1}},
		"a ClusterRateLimitPolicy": {listed(1, 2), map[types.UID]int64{"daily": 1, "cluster-floor": 2}},
		"one is deleted":           {stored.Policies{Namespaced: first.Namespaced}, map[types.UID]int64{"daily": 1}},
		"all are deleted":          {stored.Policies{}, map[types.UID]int64{}},
	} {
		if diff := cmp.Diff(test.want, Generations(first, test.after, before)); diff != "" {
			t.Errorf("after a change, %s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(map[types.UID]int64{"daily": 1, "cluster-floor": 1}, before); diff != "" {
		t.Errorf("the generations before have changed (-want +got):\n%s", diff)
	}
	if none := Generations(stored.Policies{}, stored.Policies{}, nil); none == nil || len(none) != 0 {
		t.Errorf("without policies: %v, want an empty map", none)
	}
}

// gatewayReader returns the same objects at each call.
type gatewayReader struct {
	gateways *gateway.Objects
	err      error
	calls    int
}

func (r *gatewayReader) Read(context.Context) (*gateway.Objects, uint64, error) {
	r.calls++
	return r.gateways, 5, r.err
}

func TestGather_ReadsTargetsOnlyIfAPolicyHasTargets(t *testing.T) {
	down := errors.New("down")
	daily, checkout, floor := policy("daily", 1, 10), policy("checkout", 1, 10), clusterPolicy("floor", 1, 10)
	checkout.Spec.TargetRefs = []v1alpha1.TargetReference{{Kind: "HTTPRoute", Name: "checkout"}}
	floor.Spec.TargetRefs = []v1alpha1.TargetReference{{Kind: "Gateway", Name: "public"}}
	for name, test := range map[string]struct {
		objects []client.Object
		err     error
		calls   int
	}{
		"without targets":       {[]client.Object{&daily}, down, 0},
		"a policy with targets": {[]client.Object{&daily, &checkout}, nil, 1},
		"a cluster policy":      {[]client.Object{&daily, &floor}, nil, 1},
		"they are not known":    {[]client.Object{&daily, &checkout}, down, 1},
	} {
		r := &gatewayReader{gateways: &gateway.Objects{}, err: test.err}
		in, err := Gather(t.Context(), Reader{Reader: cluster(t, test.objects...), Gateways: r}, false)
		if r.calls != test.calls {
			t.Errorf("%s: %d calls, want %d", name, r.calls, test.calls)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// Objects that cannot be read concern only the policies with targets. An error of Gather would stop the others too.
		unreadable := test.err != nil && test.calls > 0
		if read := test.calls > 0 && !unreadable; read != (in.Gateways == r.gateways) || read != (in.GatewaysHash == 5) {
			t.Errorf("%s: gateways %v, hash %d", name, in.Gateways, in.GatewaysHash)
		}
		if unreadable && (in.GatewaysHash == 0 || !errors.Is(in.Gateways.Unreadable, down) || len(in.Namespaced) == 0) {
			t.Errorf("%s: gateways %+v, hash %d, %d policies", name, in.Gateways, in.GatewaysHash, len(in.Namespaced))
		}
	}
}

func TestCompile_DependsOnGatewaysOnlyIfAPolicyHasTargets(t *testing.T) {
	attached := policy("checkout", 1, 10)
	attached.Spec.TargetRefs = []v1alpha1.TargetReference{{Group: v1alpha1.GatewayGroup, Kind: "HTTPRoute", Name: "checkout"}}
	gone := policies(attached)
	gone.Gateways = &gateway.Objects{}
	for name, test := range map[string]struct {
		policies stored.Policies
		same     bool
	}{
		"without targets": {policies(policy("daily", 1, 10)), true}, "with a target": {policies(attached), false}, "with a missing target": {gone, false},
	} {
		first := compiler.Compile(nil, limiterAt(1), test.policies, Hashes{GatewaysHash: 1})
		if compiler.Compile(first, limiterAt(1), test.policies, Hashes{GatewaysHash: 1}) != first {
			t.Errorf("%s: compiled again without a change", name)
		}
		if same := compiler.Compile(first, limiterAt(1), test.policies, Hashes{GatewaysHash: 2}) == first; same != test.same {
			t.Errorf("%s: the same rule set after a change of the gateways: %v", name, same)
		}
	}
}

func TestCompile_ReturnsTheTargetsAndHowTheyAreMatched(t *testing.T) {
	attached := policy("checkout", 1, 10)
	attached.Spec.TargetRefs = []v1alpha1.TargetReference{{Group: v1alpha1.GatewayGroup, Kind: "HTTPRoute", Name: "checkout"}}
	set := compiler.Compile(nil, limiterAt(1), policies(policy("daily", 1, 10), attached), Hashes{})
	if got := set.Targets[Key{Name: "shop/checkout"}]; len(got) != 1 || got[0].Reason != "Accepted" || len(set.Targets) != 1 {
		t.Errorf("targets %+v", set.Targets)
	}
	if a, b := set.Rules["shop/checkout"].Effective.MatchedBy, set.Rules["shop/daily"].Effective.MatchedBy; a != "RouteName" || b != "" {
		t.Errorf("matched by %q with targets, by %q without", a, b)
	}
}

func TestUnselected_CompilesAgainWhenATargetChanges(t *testing.T) {
	attached := policy("checkout", 1, 10)
	attached.Spec.TargetRefs = []v1alpha1.TargetReference{{Group: v1alpha1.GatewayGroup, Kind: "HTTPRoute", Name: "checkout"}}
	in := Inputs{Policies: policies(attached), Hashes: Hashes{GatewaysHash: 1}}
	in.Gateways = &gateway.Objects{}
	key := Key{Name: "shop/checkout"}
	var u Unselected
	u.Compile(in, nil)
	if p := u.Problems(key); len(p) != 1 || p[0].Reason != "TargetNotFound" || u.Targets(key)[0].Reason != "TargetNotFound" {
		t.Errorf("problems %v, targets %v", p, u.Targets(key))
	}
	in.Gateways, in.GatewaysHash = &gateway.Objects{Routes: []gateway.Route{{Kind: "HTTPRoute", Namespace: "shop", Name: "checkout"}}}, 2
	u.Compile(in, nil)
	if p := u.Problems(key); len(p) != 0 || u.Targets(key)[0].Reason != "Accepted" {
		t.Errorf("problems %v, targets %v", p, u.Targets(key))
	}
}
