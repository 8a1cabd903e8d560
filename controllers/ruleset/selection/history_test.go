package selection

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// After each step of a random history, the result and the rule set of a Memo that has seen the whole history are those of an empty Memo.
func TestMemo_IsTheSameAsCompilingFromNothing(t *testing.T) {
	seeds, steps, reached := 4, 300, map[string]int{}
	if os.Getenv("WEIR_SOAK") != "" {
		seeds, steps = 200, 2000
	}
	for seed := range seeds {
		if step, difference := runHistory(uint64(seed), steps, reached, nil); difference != "" {
			t.Fatalf("seed %d, step %d (-from nothing +from the steps before):\n%s", seed, step, difference)
		}
	}
	for _, kind := range []string{
		v1alpha1.ReasonInvalid, v1alpha1.ReasonConflicted, v1alpha1.ReasonOverBudget, v1alpha1.ReasonTargetNotFound, v1alpha1.ReasonRefNotPermitted,
		v1alpha1.ReasonNamespacePolicy, v1alpha1.ReasonStricterPolicy, v1alpha1.ReasonNoRoutes, v1alpha1.ReasonNoNamespaces, v1alpha1.ReasonNoMatch,
		"kept", "outdated", "by age", "table", "namespaces", "hash key", "counters conflict",
	} {
		if reached[kind] < 10 {
			t.Errorf("the histories reach %q in %d steps, want more", kind, reached[kind])
		}
	}
}

// add counts the step for everything that a result has.
func add(reached map[string]int, r *compile.Result) {
	has := map[string]bool{
		"by age": len(r.Set.ByAge) > 0, "table": r.Set.RouteTable != nil, "namespaces": len(r.Set.Namespaces) > 0, "hash key": r.Set.HashKey != "", "kept": len(r.Kept) > 0,
	}
	for _, p := range r.Problems {
		has[p.Reason] = true
		has["counters conflict"] = has["counters conflict"] || p.Field == "spec.counterName"
	}
	for _, o := range r.Overrides {
		has[o.Reason] = true
	}
	for _, u := range r.Unmatched {
		has[u.Reason] = true
	}
	for _, k := range r.Kept {
		has["outdated"] = has["outdated"] || k.Outdated
	}
	for kind, is := range has {
		if is && reached != nil {
			reached[kind]++
		}
	}
}

// The histories of the other test reach each thing that a result depends on: if a Memo does not get to know that one has changed, they differ.
func TestMemo_HistoriesFindAStaleVersion(t *testing.T) {
	for name, hide := range map[string]func(*stored.Policies){
		"the generation of a policy": func(p *stored.Policies) {
			for i := range p.Namespaced {
				p.Namespaced[i].Generation = 1
			}
		},
		"the generation of a cluster policy": func(p *stored.Policies) {
			for i := range p.Cluster {
				p.Cluster[i].Generation = 1
			}
		},
		"the UID of a policy": func(p *stored.Policies) {
			for i := range p.Namespaced {
				p.Namespaced[i].UID = types.UID(stored.Name(p.Namespaced[i]))
			}
		},
		"the routes and Gateways": func(p *stored.Policies) {
			if p.Gateways != nil && p.Gateways.Unreadable == nil {
				p.Gateways.Version = 1
			}
		},
		"the namespaces": func(p *stored.Policies) { p.NamespacesVersion = 1 },
	} {
		found := false
		for seed := uint64(0); seed < 6 && !found; seed++ {
			_, difference := runHistory(seed, 300, nil, hide)
			found = difference != ""
		}
		if !found {
			t.Errorf("the histories do not differ if a change of %s is not visible", name)
		}
	}
}

// A Memo has no more policies than the last call, whatever it has had before.
func TestMemo_ForgetsPolicies(t *testing.T) {
	w := newWorld(1)
	var memo compile.Memo
	for range 400 {
		w.change()
		memo.Compile(w.inputs(nil), compile.DefaultIdentity(), stored.BudgetOf(&w.limiter.Spec))
	}
	w.namespaced, w.cluster = nil, nil
	memo.Compile(w.inputs(nil), compile.DefaultIdentity(), stored.BudgetOf(&w.limiter.Spec))
	if n := memo.Remembered(); n != 0 {
		t.Errorf("%d policies, names and claims are remembered of a history at whose end no policy exists", n)
	}
}

// runHistory changes a world that many times, and returns the step after which the rule sets differ, and how; empty if they do not.
// It counts in reached the steps in which a result has something; the argument hide changes what the Memo gets to see. Both may be nil.
func runHistory(seed uint64, steps int, reached map[string]int, hide func(*stored.Policies)) (step int, difference string) {
	w := newWorld(seed)
	c := Compiler{KeyPrefix: "weir:", HashKey: w.hashKey}
	compiler := c
	compiler.Memo, compiler.Encoder = new(Memo), new(rules.Encoder)
	var memo compile.Memo
	var before *RuleSet
	var last []*compile.Compiled
	var revisions []string
	for step := range steps {
		hadGateways := w.gateways != nil
		w.change()
		if w.random.IntN(50) == 0 || hadGateways != (w.gateways != nil) { // the operator restarts, perhaps with or without the Gateway API
			compiler.Memo, compiler.Encoder, memo, before = new(Memo), new(rules.Encoder), compile.Memo{}, nil
		}
		full, err := w.selected(before)
		if err != nil {
			return step, err.Error()
		}
		seen, _ := w.selected(before)
		if hide == nil && w.random.IntN(10) > 0 { // else as after a restart of a watch: all objects are others
			seen, _ = w.selectedOf(w.cached(), before)
		}
		if hide != nil {
			hide(&seen)
		}
		identity, budget := c.identity(w.limiter), stored.BudgetOf(&w.limiter.Spec)
		want, got := full.CompileWithin(identity, budget), seen.CompileAfter(&memo, identity, budget)
		if !reflect.DeepEqual(want, got) {
			return step, "result: " + cmp.Diff(want, got, cmpopts.EquateErrors())
		}
		for i, policy := range last {
			if rules.PolicyRevision(policy.Rules) != revisions[i] {
				return step, "the rules of " + policy.Policy + " in the result before have changed"
			}
		}
		last, revisions = got.Policies, nil
		for _, policy := range last {
			revisions = append(revisions, rules.PolicyRevision(policy.Rules))
		}
		add(reached, &want)
		wantData, wantRevision := rules.Encode(want.Set)
		if data, revision := rules.Encode(got.Set); revision != wantRevision || !bytes.Equal(data, wantData) {
			return step, fmt.Sprintf("the encoded rules have revision %s, want %s", revision, wantRevision)
		}
		hashes := Hashes{NamespacesHash: full.NamespacesVersion}
		if full.Gateways != nil {
			hashes.GatewaysHash = full.Gateways.Version
		}
		wantSet, gotSet := c.Compile(before, w.limiter, full, hashes), compiler.Compile(before, w.limiter, seen, hashes)
		if difference := differenceOf(wantSet, gotSet, before); hide == nil && difference != "" {
			return step, difference
		}
		if alone := c.Compile(nil, w.limiter, full, hashes); hide == nil && (alone.Revision != gotSet.Revision || !reflect.DeepEqual(alone.Problems, gotSet.Problems)) {
			return step, fmt.Sprintf("the rule set has revision %s and problems %v, and without the one before it has %s and %v", gotSet.Revision, gotSet.Problems, alone.Revision, alone.Problems)
		}
		before = gotSet
	}
	return steps, ""
}

// differenceOf returns how two rule sets, that follow the rule set before, differ.
func differenceOf(want, got, before *RuleSet) string {
	if before != nil {
		differences := func(s *RuleSet) map[any]bool {
			all := map[any]bool{}
			s.Differences(before, func(policy Key) { all[policy] = true }, func(object types.UID) { all[object] = true })
			return all
		}
		if diff := cmp.Diff(differences(want), differences(got)); diff != "" {
			return "differences from the rule set before: " + diff
		}
	}
	a, b := *want, *got
	a.rules, b.rules, a.changes, b.changes, a.selected, b.selected = nil, nil, rulesChanges{}, rulesChanges{}, selectionChanges{}, selectionChanges{} // only the Memo has them
	if reflect.DeepEqual(a, b) {
		return ""
	}
	return "rule set: " + cmp.Diff(a, b, cmp.AllowUnexported(RuleSet{}), cmpopts.IgnoreFields(RuleSet{}, "rules", "changes", "selected"))
}

// world is what a Limiter selects from.
type world struct {
	random     *rand.Rand
	hashKey    *limiter.HashKey
	limiter    *v1alpha1.Limiter
	namespaced []v1alpha1.RateLimitPolicy
	cluster    []v1alpha1.ClusterRateLimitPolicy
	namespaces map[string]compile.Namespace
	gateways   *gateway.Objects // nil if they are unknown
	version    uint64           // of the namespaces
	changes    uint64           // of the gateways
	uids       int
	cache      Listed
	versions   map[string]any // of the objects in the cache, by name
}

func newWorld(seed uint64) *world {
	key, err := limiter.NewHashKey(bytes.Repeat([]byte("k"), 32))
	if err != nil {
		panic(err)
	}
	w := &world{
		random: rand.New(rand.NewPCG(seed, 1)), hashKey: key, limiter: limiterAt(1), namespaces: map[string]compile.Namespace{}, version: 1, changes: 1,
		gateways: &gateway.Objects{Version: 1}, versions: map[string]any{},
	}
	for range 120 {
		w.changePolicy()
	}
	for range 10 {
		w.changeCluster()
	}
	return w
}

func oneOf[T any](w *world, list ...T) T { return list[w.random.IntN(len(list))] }

// selected returns the policies that the Limiter selects, in a random order, as Gather would read them.
func (w *world) selected(before *RuleSet) (stored.Policies, error) {
	all := stored.Policies{Namespaced: stored.Pointers(slices.Clone(w.namespaced)), Cluster: stored.Pointers(slices.Clone(w.cluster))}
	w.random.Shuffle(len(all.Namespaced), func(i, j int) { all.Namespaced[i], all.Namespaced[j] = all.Namespaced[j], all.Namespaced[i] })
	w.random.Shuffle(len(all.Cluster), func(i, j int) { all.Cluster[i], all.Cluster[j] = all.Cluster[j], all.Cluster[i] })
	return w.selectedOf(all, before)
}

// cached returns the policies as a cache has them: one that has not changed is the same object as before.
func (w *world) cached() stored.Policies {
	exist := map[string]bool{}
	for i := range w.namespaced {
		p := w.namespaced[i]
		key := p.Namespace + "/" + p.Name
		if exist[key] = true; !reflect.DeepEqual(w.versions[key], p) {
			w.versions[key] = p
			w.cache.Set(&p)
		}
	}
	for i := range w.cluster {
		p := w.cluster[i]
		if exist[p.Name] = true; !reflect.DeepEqual(w.versions[p.Name], p) {
			w.versions[p.Name] = p
			w.cache.Set(&p)
		}
	}
	for key, object := range w.versions {
		if exist[key] {
			continue
		}
		delete(w.versions, key)
		switch p := object.(type) {
		case v1alpha1.RateLimitPolicy:
			w.cache.Remove(&p)
		case v1alpha1.ClusterRateLimitPolicy:
			w.cache.Remove(&p)
		}
	}
	all, err := w.cache.ListPolicies(context.Background())
	if err != nil {
		panic(err)
	}
	return all
}

// selectedOf returns those of the policies that the Limiter selects.
func (w *world) selectedOf(all stored.Policies, before *RuleSet) (stored.Policies, error) {
	all.NamespacesVersion = w.version
	for _, n := range w.namespaces {
		all.Namespaces = append(all.Namespaces, n)
	}
	if w.gateways != nil {
		g := *w.gateways
		g.Routes, g.Gateways, g.Grants = slices.Clone(g.Routes), slices.Clone(g.Gateways), slices.Clone(g.Grants)
		if g.Unreadable != nil && before != nil && before.Limiter.UID == w.limiter.UID { // as addPrevious does
			var err error
			if g.Previous, err = decoded(before); err != nil {
				return all, err
			}
		}
		all.Gateways = &g
	}
	selected, err := all.SelectedBy(&w.limiter.Spec)
	selected.RouteMatching = w.limiter.Spec.RouteMatching.Gateways
	return selected, err
}

func (w *world) inputs(before *RuleSet) compile.Inputs {
	selected, _ := w.selected(before)
	return selected.Inputs()
}

// change makes one random change, or a few.
func (w *world) change() {
	for range 1 + w.random.IntN(2) {
		switch n := w.random.IntN(100); {
		case n < 45:
			w.changePolicy()
		case n < 55:
			w.changeCluster()
		case n < 67:
			w.version++
			w.changeNamespace()
		case n < 88:
			w.changeGateways()
		default:
			w.limiter = w.limiter.DeepCopy()
			w.limiter.Generation++
			w.changeLimiter()
		}
	}
}

// specs are the parts of a policy that the history combines with a limit.
var specs = []string{
	`{axis: Tenant, limit: 10, window: 1m}`,
	`{axis: Tenant, limit: 10, window: 1m, algorithm: FixedWindow, match: {http: {paths: [{value: /v1}]}}}`,
	`{axis: IP, limit: 10, window: 1h, match: {http: {cidrs: [10.0.0.0/8], exceptCIDRs: [10.0.0.0/8]}}}`,
	`{axis: APIKey, limit: 10, window: 1m, tiers: [{name: gold, limit: 20, when: {identifiers: [secret-of-acme]}}]}`,
	`{axis: User, rates: [{limit: 10, window: 1s}, {limit: 100, window: 1d}]}`,
	`{axis: Tenant, rates: [{limit: 10, window: 1m}, {limit: 100, window: 1h, algorithm: TokenBucket}], tiers: [{name: a, unlimited: true, when: {groups: [x]}}]}`,
	`{axis: Tenant, limit: 10, window: 1m, counterName: shared}`,
	`{axis: Tenant, limit: 10, window: 1m, counterName: a}`,
	`{axis: Tenant, limit: 10, window: 1m, replaces: [a]}`,
	`{axis: Tenant, limit: 10, window: 1m, replaces: [b, c]}`,
	`{axis: Tenant, limit: 10, window: 1m, replaces: [a, b], match: {http: {paths: [{value: /}]}}}`,
	`{axis: Tenant, limit: 1000, window: 1m}`,
	`{axis: Planet, limit: 10, window: 1m}`,
	`{axis: Tenant, limit: 10, window: 1y, match: {http: {paths: [{type: RegularExpression, value: "("}]}}}`,
	`{axis: IP, limit: 10, window: 1m, match: {http: {expression: 'request.path.matches("a+")'}}}`,
	`{axis: Tenant, limit: 10, window: 1m, match: {kubernetes: {resources: [{apiGroups: [""], resources: [pods]}]}}}`,
	`{axis: User, limit: 10, window: 1m, match: {kubernetes: {resources: [{apiGroups: [""], resources: [pods]}], namespaceSelector: {matchLabels: {plan: free}}}}}`,
	`{axis: Namespace, limit: 10, window: 1m, match: {kubernetes: {resources: [{apiGroups: [apps], resources: ["*"]}], namespaceSelector: {matchExpressions: [{key: team, operator: DoesNotExist}]}}}, tiers: [{name: web, limit: 30, when: {namespaceSelector: {matchLabels: {team: web}}}}]}`,
	`{axis: Tenant, limit: 10, window: 1m, match: {kubernetes: {resources: [{apiGroups: [""], resources: [pods]}], namespaces: [shop, bank]}}}`,
	`{axis: IP, limit: 10, window: 1m, targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: one}]}`,
	`{axis: User, limit: 10, window: 1m, targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: two}]}`,
	`{axis: User, limit: 10, window: 1h, targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: one}]}`,
	`{axis: IP, limit: 10, window: 1m, targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: one, sectionName: pay}, {group: gateway.networking.k8s.io, kind: HTTPRoute, name: two}]}`,
	`{axis: IP, limit: 10, window: 1m, targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: public, namespace: shop}]}`,
	`{axis: Tenant, limit: 10, window: 1m, targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: public, namespace: shop, sectionName: http}]}`,
	`{axis: IP, limit: 10, window: 1m, targetRefs: [{group: gateway.networking.k8s.io, kind: GRPCRoute, name: one}]}`,
	`{axis: IP, limit: 10, window: 1m, identifier: {header: X-Key}, storage: Compact}`,
	`{axis: Tenant, limit: 10, window: 1m, match: {http: {paths: [{type: RegularExpression, value: "/v[0-9]+"}], hosts: ["*.a.example"]}}}`,
	`{axis: Tenant, limit: 10, window: 1m, scope: Endpoint, match: {http: {paths: [{value: /v1}], methods: [GET]}}, cost: {header: X-Cost}}`,
	`{axis: Custom, limit: 10, window: 1m, identifier: {claim: realm.tenant, fallbacks: [{header: X-Who}], onMissing: Skip}, onStoreFailure: Deny}`,
	`{axis: Tenant, limit: 10, window: 1m, match: {descriptors: [{key: generic_key, value: login}]}}`,
	`{axis: User, limit: 10, window: 1m, algorithm: TokenBucket, burst: 5, tiers: [{name: a, limit: 5, when: {expression: 'request.method == "GET"'}}]}`,
}

// spec returns a spec with a random limit.
func (w *world) spec() v1alpha1.RateLimitPolicySpec {
	var spec v1alpha1.RateLimitPolicySpec
	if err := yaml.UnmarshalStrict([]byte(oneOf(w, specs[w.random.IntN(2)], oneOf(w, specs...), oneOf(w, specs...))), &spec); err != nil {
		panic(err)
	}
	if spec.Limit != nil && w.random.IntN(2) == 0 {
		*spec.Limit = 1 + w.random.Int64N(20)
	}
	if w.random.IntN(8) == 0 {
		spec.Enforcement = v1alpha1.EnforcementShadow
	}
	return spec
}

// metadata returns that of a new object. Some are as old as others.
func (w *world) metadata(namespace, name string) metav1.ObjectMeta {
	w.uids++
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(fmt.Sprintf("uid-%d", w.uids)), Generation: 1,
		CreationTimestamp: metav1.NewTime(time.Unix(w.random.Int64N(50), 0)), Labels: w.labels(),
	}
}

func (w *world) labels() map[string]string {
	return oneOf(w, nil, nil, map[string]string{"plan": "free"}, map[string]string{"plan": "paid", "team": "web"}, map[string]string{"team": "web"})
}

func (w *world) changePolicy() {
	index := -1
	if len(w.namespaced) > 0 {
		index = w.random.IntN(len(w.namespaced))
	}
	switch n := w.random.IntN(13); {
	case n == 12 && index >= 0: // the cluster was restored from a backup
		p := &w.namespaced[index]
		p.Generation, p.Spec = p.Generation-1-w.random.Int64N(3), w.spec()
	case index < 0 || n < 6 && len(w.namespaced) < 90:
		namespace, name := oneOf(w, "shop", "shop", "shop", "shop", "shop", "shop", "bank", "shop-eu"), fmt.Sprintf("p%d", w.random.IntN(100))
		if w.random.IntN(4) == 0 {
			name = oneOf(w, "a", "a-b", "b", "c")
		}
		if !slices.ContainsFunc(w.namespaced, func(p v1alpha1.RateLimitPolicy) bool { return p.Namespace == namespace && p.Name == name }) {
			w.namespaced = append(w.namespaced, v1alpha1.RateLimitPolicy{ObjectMeta: w.metadata(namespace, name), Spec: w.spec()})
		}
	case n < 9:
		p := &w.namespaced[index]
		p.Generation, p.Spec = p.Generation+1, w.spec()
	case n < 10: // another object with the same name
		p := &w.namespaced[index]
		created := p.CreationTimestamp
		if p.ObjectMeta, p.Spec = w.metadata(p.Namespace, p.Name), w.spec(); w.random.IntN(2) == 0 {
			p.CreationTimestamp = created // within a second
		}
	case w.random.IntN(2) == 0:
		w.namespaced[index].Labels = w.labels()
	default:
		w.namespaced = slices.Delete(w.namespaced, index, index+1)
	}
}

func (w *world) clusterSpec() v1alpha1.ClusterRateLimitPolicySpec {
	spec := v1alpha1.ClusterRateLimitPolicySpec{RateLimitPolicySpec: w.spec()}
	if spec.Replaces = nil; w.random.IntN(2) == 0 {
		spec.Match, spec.TargetRefs = nil, nil // comparable with more of the others
	}
	if len(spec.TargetRefs) == 0 {
		spec.Domains = oneOf(w, nil, nil, []v1alpha1.Domain{"shop"}, []v1alpha1.Domain{"bank", "shop-eu"})
	}
	spec.Precedence = oneOf(w, v1alpha1.PrecedenceDefault, v1alpha1.PrecedenceDefault, v1alpha1.PrecedenceOverride, "")
	return spec
}

func (w *world) changeCluster() {
	index := -1
	if len(w.cluster) > 0 {
		index = w.random.IntN(len(w.cluster))
	}
	switch n := w.random.IntN(10); {
	case index < 0 || n < 4:
		name := oneOf(w, "a", "b", "c", "d")
		if !slices.ContainsFunc(w.cluster, func(p v1alpha1.ClusterRateLimitPolicy) bool { return p.Name == name }) {
			w.cluster = append(w.cluster, v1alpha1.ClusterRateLimitPolicy{ObjectMeta: w.metadata("", name), Spec: w.clusterSpec()})
		}
	case n < 7:
		p := &w.cluster[index]
		p.Generation, p.Spec = p.Generation+oneOf[int64](w, 1, 1, 1, -1), w.clusterSpec() // -1: the cluster was restored from a backup
	case n < 8:
		w.cluster[index].ObjectMeta = w.metadata("", w.cluster[index].Name)
	default:
		w.cluster = slices.Delete(w.cluster, index, index+1)
	}
}

func (w *world) changeNamespace() {
	name := oneOf(w, "shop", "bank", "shop-eu", "idle")
	if _, exists := w.namespaces[name]; exists && w.random.IntN(4) == 0 {
		delete(w.namespaces, name)
		return
	}
	w.namespaces[name] = compile.Namespace{Name: name, Labels: w.labels(), Annotations: oneOf(w, nil, map[string]string{"tenant": "acme"})}
}

func (w *world) changeGateways() {
	w.changes++
	if w.gateways == nil || w.random.IntN(25) == 0 {
		w.gateways = oneOf(w, nil, &gateway.Objects{})
		if w.gateways == nil {
			return
		}
	}
	g := *w.gateways
	g.Version = w.changes
	if w.random.IntN(4) == 0 {
		g.Unreadable = nil
	}
	w.gateways = &g
	parents := func() (all []gateway.Parent) {
		if w.random.IntN(4) == 0 {
			return nil
		}
		for _, p := range []gateway.Parent{
			{Namespace: "shop", Gateway: "public"}, {Namespace: "shop", Gateway: "public", Listener: "http"}, {Namespace: "infra", Gateway: "public"},
		} {
			if w.random.IntN(2) == 0 {
				all = append(all, p)
			}
		}
		return all
	}
	switch w.random.IntN(11) {
	case 8, 9, 10: // another name
		if g.Routes = slices.Clone(g.Routes); len(g.Routes) > 0 {
			r := &g.Routes[w.random.IntN(len(g.Routes))]
			moved := *r
			if moved.Name = map[string]string{"one": "two", "two": "one"}[r.Name]; !slices.ContainsFunc(g.Routes, func(o gateway.Route) bool { return o.Key() == moved.Key() }) {
				*r = moved
			}
		}
	case 0, 1, 2, 3:
		r := gateway.Route{
			Kind: oneOf[v1alpha1.TargetKind](w, v1alpha1.TargetHTTPRoute, v1alpha1.TargetHTTPRoute, v1alpha1.TargetGRPCRoute), Namespace: oneOf(w, "shop", "shop", "shop", "bank", "shop-eu"),
			Name: oneOf(w, "one", "two"), Parents: parents(), Rules: oneOf(w, nil, []string{"pay"}), Created: time.Unix(w.random.Int64N(9), 0),
			Matches: []gateway.RouteMatch{{RouteMatch: rules.RouteMatch{Path: rules.PathMatch{Type: rules.PathPrefix, Value: oneOf(w, "/", "/v1")}}}},
		}
		g.Routes = slices.DeleteFunc(slices.Clone(g.Routes), func(o gateway.Route) bool { return o.Key() == r.Key() })
		if w.random.IntN(4) > 0 {
			g.Routes = append(g.Routes, r)
		}
	case 4, 5:
		namespace := oneOf(w, "shop", "infra")
		g.Gateways = slices.DeleteFunc(slices.Clone(g.Gateways), func(o gateway.Gateway) bool { return o.Namespace == namespace })
		if w.random.IntN(4) > 0 {
			g.Gateways = append(g.Gateways, gateway.Gateway{Namespace: namespace, Name: "public", Listeners: oneOf(w, nil,
				[]gateway.Listener{{Name: "http", HTTP: true, Port: 80}},
				[]gateway.Listener{{Name: "http", HTTP: true, Port: 80, Namespaces: &v1alpha1.LabelSelector{MatchLabels: map[string]string{"plan": "free"}}}})})
		}
	case 6:
		g.Grants = oneOf(w, nil, []gateway.Grant{{Namespace: "shop", From: "bank"}})
		g.Missing = oneOf(w, nil, nil, []v1alpha1.TargetKind{v1alpha1.TargetGRPCRoute})
	default:
		g.Unreadable = oneOf(w, nil, gateway.ErrGatewaysPending, errForbidden)
	}
}

var errForbidden = errors.New("forbidden")

func (w *world) changeLimiter() {
	spec := &w.limiter.Spec
	switch w.random.IntN(14) {
	case 11: // another Limiter with the same name
		w.uids++
		w.limiter.UID, w.limiter.Generation = types.UID(fmt.Sprintf("limiter-%d", w.uids)), 1
	case 12:
		spec.Identity.User.Header = oneOf[v1alpha1.HeaderName](w, "", "X-User")
		spec.Identity.APIKey.Header = oneOf[v1alpha1.HeaderName](w, "", "X-Secret")
	case 13:
		spec.PolicyBudget.Total.RegularExpressions = oneOf(w, nil, nil, new(int64(0)), new(int64(2)))
		spec.PolicyBudget.Total.Expressions = oneOf(w, nil, nil, new(int64(0)), new(int64(2)))
		spec.PolicyBudget.PerNamespace.Rules = oneOf(w, nil, nil, new(int64(3)), new(int64(30)))
	case 0:
		spec.Identity.Tenant.Header = oneOf[v1alpha1.HeaderName](w, "", "X-Org")
		spec.Identity.Credentials = oneOf(w, nil, []v1alpha1.CredentialName{"x-key"})
	case 1:
		spec.Identity.Tenant.NamespaceLabel = oneOf[v1alpha1.MetadataKey](w, "", "team")
		spec.Identity.Tenant.NamespaceAnnotation = oneOf[v1alpha1.MetadataKey](w, "", "tenant")
	case 2:
		spec.Identity.IP.IPv6PrefixLength = oneOf[int32](w, 0, 48)
	case 3:
		spec.PolicyBudget.Total.Rules = oneOf(w, nil, nil, nil, new(int64(6)), new(int64(40)))
		spec.PolicyBudget.PerNamespace.Bytes = oneOf(w, nil, nil, nil, new(int64(2000)))
	case 4:
		spec.PolicySelector = oneOf(w, nil, nil, nil, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "plan", Operator: metav1.LabelSelectorOpExists}}})
	case 5:
		spec.PolicyNamespaceSelector = oneOf(w, nil, nil, nil, &metav1.LabelSelector{MatchLabels: map[string]string{"plan": "free"}})
	case 6:
		spec.CounterGroup = oneOf(w, "", "g") // another hash key
	case 7, 8, 9:
		spec.RouteMatching.Gateways = oneOf(w, nil, []v1alpha1.GatewayReference{{Namespace: "infra", Name: "public"}}, []v1alpha1.GatewayReference{{Namespace: "shop", Name: "public"}})
	default:
		spec.KubernetesThrottle = &v1alpha1.KubernetesThrottle{
			Mode: oneOf(w, v1alpha1.ThrottleModeDisabled, "", ""), NamespacedPolicies: v1alpha1.NamespacedPoliciesSelected, NamespacedPolicySelector: &metav1.LabelSelector{},
		}
	}
}

// decoded returns the rules that a rule set publishes.
func decoded(set *RuleSet) (rules.Set, error) {
	data, err := set.Archive()
	if err != nil {
		return rules.Set{}, err
	}
	return rules.DecodeAs(data, set.Revision)
}
