package policy

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/test/fixture/policytest"
)

// After each step of a random history, an index that has seen the whole history returns the verdicts of a reference, which compiles all policies.
func TestIndex_ReturnsTheVerdictsOfCompilingEverything(t *testing.T) {
	seeds, steps, reached := 4, 300, map[string]int{}
	if os.Getenv("WEIR_SOAK") != "" {
		seeds, steps = 200, 2000
	}
	for seed := range seeds {
		if step, difference := runHistory(t, uint64(seed), steps, reached, nil); difference != "" {
			t.Fatalf("seed %d, step %d (-compiling everything +with the index):\n%s", seed, step, difference)
		}
	}
	for _, text := range []string{
		"not enforced yet: policy", "at least as strict", "no ClusterRateLimitPolicy with precedence: Default has the name", "which is stricter: it admits",
		"namespace shop needs", "all policies need", " rules, and", " expressions, and", "rejected", "invalid", "clean", "displaced",
	} {
		if reached[text] < 10 {
			t.Errorf("the histories reach %q in %d verdicts, want more", text, reached[text])
		}
	}
}

// The histories of the other test reach each thing that a verdict depends on: an index that does not get to know that one has changed returns others.
func TestIndex_HistoriesFindALostEvent(t *testing.T) {
	for name, hide := range map[string]func(before, after client.Object) bool{
		"an edit of a RateLimitPolicy": func(before, after client.Object) bool {
			_, isPolicy := after.(*v1alpha1.RateLimitPolicy)
			return isPolicy && before != nil && before.GetGeneration() != after.GetGeneration()
		},
		"an edit of a ClusterRateLimitPolicy": func(before, after client.Object) bool {
			_, isPolicy := after.(*v1alpha1.ClusterRateLimitPolicy)
			return isPolicy && before != nil && before.GetGeneration() != after.GetGeneration()
		},
		"the labels of a policy": func(before, after client.Object) bool {
			return before != nil && after != nil && before.GetUID() != "" && before.GetGeneration() == after.GetGeneration()
		},
		"the deletion of a policy": func(_, after client.Object) bool { return after == nil },
		"the labels of a namespace": func(before, after client.Object) bool {
			_, isNamespace := after.(*metav1.PartialObjectMetadata)
			return isNamespace && before != nil
		},
	} {
		found := false
		for seed := uint64(0); seed < 10 && !found; seed++ {
			_, difference := runHistory(t, seed, 250, nil, hide)
			found = difference != ""
		}
		if !found {
			t.Errorf("the verdicts do not differ if the index does not see %s", name)
		}
	}
}

// An index has no more than the cache, whatever it has had before.
func TestIndex_ForgetsWhatTheCacheDoesNotHave(t *testing.T) {
	w := newWorld(t, 1)
	x := w.cache.index()
	for range 400 {
		w.change()
		x.addBudgets(t.Context(), newEntry(w.anyPolicy("shop", "candidate"), x.identity), new(verdict))
	}
	again := w.cache.index()
	again.addBudgets(t.Context(), newEntry(w.anyPolicy("shop", "candidate"), x.identity), new(verdict))
	if got, want := sizes(x), sizes(again); !maps.Equal(got, want) {
		t.Errorf("after a history, an index has %v, and a new one %v", got, want)
	}
	for _, kind := range []client.Object{&v1alpha1.RateLimitPolicy{}, &v1alpha1.ClusterRateLimitPolicy{}, &metav1.PartialObjectMetadata{}} {
		for _, object := range w.cache.objects(kind) {
			w.cache.remove(object, w.random.IntN(2) == 0)
		}
	}
	w.cache.limiters = nil
	x.addBudgets(t.Context(), newEntry(w.anyPolicy("shop", "candidate"), x.identity), new(verdict))
	if len(x.scopes)+len(x.namespaces)+len(x.ledgers) > 0 || len(x.identities) != 1 {
		t.Errorf("%d namespaces with policies, %d namespaces, %d Limiters and %d identity tables are remembered of an empty cache",
			len(x.scopes), len(x.namespaces), len(x.ledgers), len(x.identities))
	}
}

func sizes(x *index) map[string]int {
	all := map[string]int{"namespaces": len(x.namespaces), "scopes": len(x.scopes)}
	for _, s := range x.scopes {
		all["policies"] += len(s.policies)
		all["counters"] += len(s.counters)
		all["places"] += s.stricter.Len()
		for _, e := range s.policies {
			all["usages"] += len(e.usages)
		}
	}
	for _, l := range x.ledgers {
		all["charges"] += len(l.charges) + len(l.ordered)
		all["shares"] += len(l.inNamespace)
		all["bytes"] += int(l.total.Bytes)
		for _, u := range l.inNamespace {
			all["bytes in namespaces"] += int(u.Bytes)
		}
	}
	return all
}

// runHistory changes a world that many times, and returns the step after which the verdicts differ, and how; empty if they do not. It counts in reached
// what the verdicts have. The index does not see a change if hide returns true: before is nil for a new object, and after for one that was deleted.
func runHistory(
	t *testing.T, seed uint64, steps int, reached map[string]int, hide func(before, after client.Object) bool,
) (step int, difference string) {
	t.Helper()
	w := newWorld(t, seed)
	w.cache.hide = hide
	x, r := w.cache.index(), reference{w.cache, compile.DefaultIdentity(), func() { count(reached, "displaced") }}
	for step := range steps {
		w.change()
		if hide == nil && w.random.IntN(60) == 0 { // the operator restarts
			x = w.cache.index()
		}
		for range 4 {
			candidate := w.candidate()
			one := newEntry(candidate, r.identity).alone
			var got, want, gotBudget, wantBudget verdict
			got, want = x.compile(t.Context(), candidate), r.compile(t.Context(), one, candidate.GetNamespace())
			x.addBudgets(t.Context(), newEntry(candidate, r.identity), &gotBudget)
			r.addBudgets(t.Context(), one, &wantBudget)
			if !reflect.DeepEqual(want, got) || !reflect.DeepEqual(wantBudget, gotBudget) {
				return step, cmp.Diff(fmt.Sprint(want, wantBudget), fmt.Sprint(got, gotBudget)) + fmt.Sprintf("of %s %v", nameOf(one), candidate)
			}
			countVerdict(reached, want)
		}
	}
	return steps, ""
}

// countVerdict counts the verdict for each text that it has.
func countVerdict(reached map[string]int, v verdict) {
	all := fmt.Sprint(v.warnings, v.problems)
	for _, text := range []string{
		"not enforced yet: policy", "at least as strict", "no ClusterRateLimitPolicy with precedence: Default has the name", "which is stricter: it admits",
		"namespace shop needs", "all policies need", " rules, and", " expressions, and",
	} {
		if strings.Contains(all, text) {
			count(reached, text)
		}
	}
	switch {
	case len(v.warnings)+len(v.problems) == 0:
		count(reached, "clean")
	case len(v.problems) == 1 && v.problems[0].Field == "spec":
		count(reached, "rejected")
	case len(v.problems) > 0:
		count(reached, "invalid")
	}
}

func count(reached map[string]int, text string) {
	if reached != nil {
		reached[text]++
	}
}

// world is a cluster that changes at random. It has few different values, so that policies often have something to do with each other.
type world struct {
	t       *testing.T
	random  *rand.Rand
	cache   *fakeCache
	created int
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 1)), cache: newFakeCache()}
	for _, name := range []string{"shop", "bank"} {
		w.cache.put(w.namespace(name))
	}
	for i := range 3 {
		w.cache.limiters = append(w.cache.limiters, v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: "weir", Name: fmt.Sprintf("l%d", i)}})
		w.changeLimiter(&w.cache.limiters[i])
	}
	return w
}

func oneOf[T any](w *world, values ...T) T { return values[w.random.IntN(len(values))] }

func (w *world) uid() types.UID {
	w.created++
	return types.UID(strconv.Itoa(w.created))
}

// change changes one object.
func (w *world) change() {
	switch w.random.IntN(16) {
	case 0:
		w.changeLimiter(&w.cache.limiters[w.random.IntN(len(w.cache.limiters))])
	case 1:
		if w.cache.put(w.namespace(oneOf(w, "shop", "bank"))); w.random.IntN(4) == 0 {
			w.cache.remove(w.namespace("bank"), false)
		}
	case 2, 3:
		objects := append(w.cache.objects(&v1alpha1.RateLimitPolicy{}), w.cache.objects(&v1alpha1.ClusterRateLimitPolicy{})...)
		if len(objects) > 0 {
			w.cache.remove(oneOf(w, objects...), w.random.IntN(2) == 0)
		}
	case 4, 5: // a change that is no edit of the spec
		if p := w.edited(); p != nil {
			p.SetGeneration(p.GetGeneration() - 1)
			p.SetLabels(w.labels())
			p.SetResourceVersion(strconv.Itoa(w.random.Int()))
			if before := w.cache.find(p); before != nil {
				w.setSpec(p, before)
				if w.random.IntN(4) == 0 {
					p.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1_900_000_000, 0)})
				}
			}
			w.cache.put(p)
		}
	default:
		if p := w.edited(); p != nil && w.random.IntN(2) == 0 {
			w.cache.put(p)
			return
		}
		w.cache.put(w.anyPolicy(oneOf(w, "shop", "shop", "bank", ""), oneOf(w, "a", "b", "c", "d", "e", "f")))
	}
}

func (*world) setSpec(p, of client.Object) {
	switch o := of.(type) {
	case *v1alpha1.RateLimitPolicy:
		if policy, isSame := p.(*v1alpha1.RateLimitPolicy); isSame {
			policy.Spec = o.Spec
		}
	case *v1alpha1.ClusterRateLimitPolicy:
		if policy, isSame := p.(*v1alpha1.ClusterRateLimitPolicy); isSame {
			policy.Spec = o.Spec
		}
	}
	p.SetDeletionTimestamp(of.GetDeletionTimestamp())
}

// candidate is a policy that a user writes: a new one, or an edit.
func (w *world) candidate() client.Object {
	if p := w.edited(); p != nil && w.random.IntN(2) == 0 {
		return p
	}
	p := w.anyPolicy(oneOf(w, "shop", "shop", "bank", ""), oneOf(w, "a", "c", "g", "h", ""))
	return p
}

// edited returns another spec of a stored policy; nil if there is no policy.
func (w *world) edited() client.Object {
	objects := append(w.cache.objects(&v1alpha1.RateLimitPolicy{}), w.cache.objects(&v1alpha1.ClusterRateLimitPolicy{})...)
	if len(objects) == 0 {
		return nil
	}
	before := oneOf(w, objects...)
	p := w.anyPolicy(before.GetNamespace(), before.GetName())
	p.SetUID(before.GetUID())
	p.SetGeneration(before.GetGeneration() + 1)
	p.SetCreationTimestamp(before.GetCreationTimestamp())
	if w.random.IntN(2) == 0 {
		p.SetLabels(before.GetLabels())
	}
	return p
}

func (w *world) labels() map[string]string {
	return oneOf(w, nil, map[string]string{"limiter": "one"}, map[string]string{"limiter": "two"})
}

func (w *world) namespace(name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: oneOf(w, nil, map[string]string{"team": "retail"})}}
}

func (w *world) changeLimiter(l *v1alpha1.Limiter) {
	l.Spec = v1alpha1.LimiterSpec{}
	if l.UID == "" || w.random.IntN(4) == 0 {
		l.UID = w.uid() // another Limiter can have the same generation
	} else {
		l.Generation++
	}
	few := func() *int64 { return oneOf(w, nil, new(int64(1)), new(int64(3)), new(int64(6))) }
	l.Spec.PolicyBudget.PerNamespace = v1alpha1.BudgetLimits{Rules: few(), Expressions: few(), Bytes: oneOf(w, nil, nil, new(int64(900)))}
	l.Spec.PolicyBudget.Total = v1alpha1.BudgetLimits{Rules: few(), Expressions: few(), Bytes: oneOf(w, nil, nil, new(int64(2500)))}
	l.Spec.PolicySelector = oneOf(w, nil, nil, &metav1.LabelSelector{MatchLabels: map[string]string{"limiter": "one"}})
	l.Spec.PolicyNamespaceSelector = oneOf(w, nil, nil, &metav1.LabelSelector{MatchLabels: map[string]string{"team": "retail"}})
	if w.random.IntN(12) == 0 {
		l.Spec.PolicySelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	}
	l.Spec.Identity.User.Header = oneOf[v1alpha1.HeaderName](w, "", "", "x-a-much-longer-name-of-a-header")
	if w.random.IntN(2) == 0 {
		l.Spec.KubernetesThrottle = &v1alpha1.KubernetesThrottle{NamespacedPolicies: oneOf(w, v1alpha1.NamespacedPoliciesSelected, "")}
		l.Spec.KubernetesThrottle.NamespacedPolicySelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "retail"}}
	}
}

// anyPolicy returns a new policy, a ClusterRateLimitPolicy without a namespace.
func (w *world) anyPolicy(namespace, name string) client.Object {
	spec := w.spec(namespace)
	p := policytest.Stored(w.t, name, spec)
	p.Namespace, p.UID, p.Generation, p.Labels = namespace, w.uid(), 1, w.labels()
	p.CreationTimestamp = metav1.NewTime(time.Unix(1_800_000_000+60*w.random.Int64N(8), 0))
	if w.random.IntN(20) == 0 {
		p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1_900_000_000, 0)}
	}
	if namespace != "" {
		return &p
	}
	c := &v1alpha1.ClusterRateLimitPolicy{ObjectMeta: p.ObjectMeta}
	c.Spec.RateLimitPolicySpec = p.Spec
	c.Spec.Precedence = oneOf(w, "", v1alpha1.PrecedenceDefault)
	return c
}

func (w *world) spec(namespace string) string {
	if w.random.IntN(12) == 0 {
		return invalidSpec
	}
	parts := []string{"axis: " + oneOf(w, "User", "User", "Tenant")}
	add := func(chance int, part string) {
		if w.random.IntN(chance) == 0 {
			parts = append(parts, part)
		}
	}
	if w.random.IntN(6) == 0 {
		parts = append(parts, fmt.Sprintf("rates: [{limit: %d, window: 1m}, {limit: %d, window: 1h}]", oneOf(w, 5, 10), oneOf(w, 50, 500)))
	} else {
		parts = append(parts, fmt.Sprintf("limit: %d, window: %s", oneOf(w, 0, 5, 10, 20), oneOf(w, "1m", "1m", "1h")))
		add(4, "algorithm: "+oneOf(w, "FixedWindow", "SlidingWindowLog"))
		add(8, "tiers: [{name: gold, when: {cidrs: [10.0.0.0/8]}, limit: 40}]")
	}
	add(5, "counterName: "+oneOf(w, "a", "b", "c"))
	add(8, "enforcement: Shadow")
	add(8, "onStoreFailure: Allow")
	if namespace != "" {
		add(4, "replaces: ["+oneOf(w, "a", "b", "a, c", "missing")+"]")
	}
	http := func(parts ...string) string { return "match: {http: {" + strings.Join(parts, ", ") + "}}" }
	path := func() string {
		return "paths: [" + oneOf(w, "{value: /v1}", "{value: /v1/}", "{value: /v1/x, type: Exact}", "{value: /}, {value: /v2}", "{value: '/v[0-9]', type: RegularExpression}") + "]"
	}
	host := func() string {
		return "hosts: ['" + oneOf(w, "a.example", "*.example", "b.a.example", "*.a.example") + "']"
	}
	switch w.random.IntN(12) {
	case 0, 1:
		parts = append(parts, http(path()))
	case 2:
		parts = append(parts, http(host()))
	case 3:
		parts = append(parts, http(path(), host()))
	case 4:
		parts = append(parts, http("methods: ["+oneOf(w, "GET", "GET, PUT")+"]"))
	case 5, 6:
		parts = append(parts, http("expression: '"+oneOf(w, `request.method == "GET"`, `request.path.matches("/v1")`)+"'", path()))
	case 7:
		parts = append(parts, "match: {descriptors: [{key: k"+oneOf(w, "", ", value: v")+"}]}")
	case 8:
		parts = append(parts, "targetRefs: [{kind: "+oneOf(w, "HTTPRoute", "Gateway")+", name: "+oneOf(w, "x", "y")+"}]")
	case 9:
		parts = append(parts, "match: {kubernetes: {resources: [{apiGroups: [''], resources: ["+oneOf(w, "pods", "'*'")+"]}]}}")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
