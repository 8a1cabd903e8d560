package migration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// values are drawn for the descriptors of requests and configurations. Wildcards match some of them.
func values() []string { return []string{"x", "xy", "xyz", "y", "x/y", "/"} }

// drawNodes draws one level of a configuration, with up to three levels below it.
func drawNodes(t *rapid.T, depth int) []*node {
	var list []*node
	for range rapid.IntRange(1, 4).Draw(t, "descriptors") {
		n := &node{
			key:   rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"),
			value: rapid.SampledFrom(append(values(), "", "", "x*", "*y", "x*z", "*")).Draw(t, "value"),
		}
		if slices.ContainsFunc(list, func(other *node) bool { return other.key == n.key && other.value == n.value }) {
			continue
		}
		if n.value == "x*" || n.value == "*" {
			n.shared = rapid.Bool().Draw(t, "share_threshold")
		}
		if rapid.IntRange(0, 3).Draw(t, "limited") > 0 {
			n.limit = &limit{requests: rapid.IntRange(0, 3).Draw(t, "requests"), unit: rapid.SampledFrom([]string{"second", "minute", "hour", "week", "month", "year"}).Draw(t, "unit")}
			n.limit.unlimited = rapid.IntRange(0, 7).Draw(t, "unlimited") == 0
			n.shadow = rapid.IntRange(0, 5).Draw(t, "shadow") == 0
		}
		if depth > 0 && rapid.Bool().Draw(t, "nested") {
			n.children = drawNodes(t, depth-1)
		}
		list = append(list, n)
	}
	return list
}

func drawDescriptor(t *rapid.T) []entry {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) entry {
		return entry{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"), rapid.SampledFrom(append(values(), "")).Draw(t, "value")}
	}), 1, 3).Draw(t, "descriptor")
}

// TestImport_DecidesLikeTheModelOfEnvoysService sends requests of one descriptor: the code and what remains are the same.
func TestImport_DecidesLikeTheModelOfEnvoysService(t *testing.T) {
	w, run := newWeir(t), 0
	rapid.Check(t, func(rt *rapid.T) {
		nodes := drawNodes(rt, 2)
		w.reset()
		run++
		config := yaml("shop", nodes)
		expectImported(rt, w.importFrom(rt, config, fmt.Sprint("run-", run, ":")))
		m := newModel(nodes)
		for range 40 {
			w.pass(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 200, 1000, 60_000}).Draw(rt, "ms")) * time.Millisecond)
			descriptor := drawDescriptor(rt)
			want, got := m.decide(w.time(), [][]entry{descriptor})[0], w.decide(rt, "shop", [][]entry{descriptor})
			status := got.GetStatuses()[0]
			if isOver(got.GetOverallCode()) != want.over || isOver(status.GetCode()) != want.over {
				rt.Fatalf("%v at %v: the model denies: %t, Weir answers %v with\n%s", descriptor, w.time(), want.over, got, config)
			}
			if l := want.matched; l != nil && !want.shadow && l.requests > 0 &&
				(int(status.GetCurrentLimit().GetRequestsPerUnit()) != l.requests || int(status.GetLimitRemaining()) != want.remaining) {
				rt.Fatalf("%v at %v: the model has %d of %d left, Weir answers %v with\n%s", descriptor, w.time(), want.remaining, l.requests, status, config)
			}
		}
	})
}

// TestImport_DeniesNothingThatEnvoysServiceAllows sends requests of several descriptors. Envoy's service charges every descriptor of a denied
// request. Weir charges nothing then, so it can allow more afterwards, and never less. Until the first denial the answers are the same.
func TestImport_DeniesNothingThatEnvoysServiceAllows(t *testing.T) {
	w, run := newWeir(t), 0
	rapid.Check(t, func(rt *rapid.T) {
		nodes := drawNodes(rt, 2)
		w.reset()
		run++
		config := yaml("shop", nodes)
		expectImported(rt, w.importFrom(rt, config, fmt.Sprint("run-", run, ":")))
		m, denied := newModel(nodes), false
		for range 20 {
			request := rapid.SliceOfN(rapid.Custom(drawDescriptor), 1, 4).Draw(rt, "request")
			want := slices.ContainsFunc(m.decide(w.time(), request), func(o outcome) bool { return o.over })
			got := w.decide(rt, "shop", request)
			if is := isOver(got.GetOverallCode()); is && !want || !denied && is != want {
				rt.Fatalf("%v: the model denies: %t, Weir answers %v with\n%s", request, want, got, config)
			}
			denied = denied || want
		}
	})
}

// TestImport_ReplacesIsReportedOrHasNoEffect draws configurations with replaces. If the import reports no limit that replaces another, the
// decisions are those of the model, in which limits replace others.
func TestImport_ReplacesIsReportedOrHasNoEffect(t *testing.T) {
	w, runs, compared := newWeir(t), 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		nodes := drawNodes(rt, 1)
		drawNames(rt, nodes)
		w.reset()
		runs++
		config := yaml("shop", nodes)
		result := w.importFrom(rt, config, fmt.Sprint("run-", runs, ":"))
		if result.Count(importer.NotImported) > 0 {
			return
		}
		compared++
		m, denied := newModel(nodes), false
		for range 20 {
			request := rapid.SliceOfN(rapid.Custom(drawDescriptor), 1, 4).Draw(rt, "request")
			want := slices.ContainsFunc(m.decide(w.time(), request), func(o outcome) bool { return o.over })
			got := w.decide(rt, "shop", request)
			if is := isOver(got.GetOverallCode()); is && !want || !denied && is != want {
				rt.Fatalf("%v: the model denies: %t, Weir answers %v with\n%s", request, want, got, config)
			}
			denied = denied || want
		}
	})
	if compared == 0 || compared == runs {
		t.Errorf("%d of %d configurations were compared, want some that are and some that are not", compared, runs)
	}
}

// TestRateLimit_ADefaultIsReplacedWithinOneDescriptor shows why no policy expresses replaces: a policy that matches one descriptor of a request
// replaces no default that matches another.
func TestRateLimit_ADefaultIsReplacedWithinOneDescriptor(t *testing.T) {
	spec := func(key string, limit int64, replaces ...v1alpha1.PolicyName) v1alpha1.RateLimitPolicySpec {
		name := v1alpha1.DescriptorKey(key)
		return v1alpha1.RateLimitPolicySpec{
			Axis: v1alpha1.AxisCustom, Identifier: &v1alpha1.Identifier{IdentifierSource: v1alpha1.IdentifierSource{Descriptor: &name}},
			Limit: &limit, Window: "1h", Algorithm: v1alpha1.FixedWindow, Replaces: replaces,
			Match: &v1alpha1.Match{Descriptors: []v1alpha1.DescriptorMatch{{Key: name}}},
		}
	}
	w := newWeir(t)
	for own, over := range map[string]bool{"b": false, "a": true} { // the descriptor that the policy matches
		compiled := stored.Policies{
			Namespaced: []*v1alpha1.RateLimitPolicy{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "own"}, Spec: spec(own, 9, "default")}},
			Cluster: []*v1alpha1.ClusterRateLimitPolicy{{
				ObjectMeta: metav1.ObjectMeta{Name: "default"},
				Spec:       v1alpha1.ClusterRateLimitPolicySpec{RateLimitPolicySpec: spec("b", 0), Precedence: v1alpha1.PrecedenceDefault},
			}},
		}.Compile(compile.DefaultIdentity())
		index, err := matching.NewIndex(compiled.Set, "sha256:1", own+":")
		if err != nil || len(compiled.Problems) > 0 {
			t.Fatal(err, compiled.Problems)
		}
		w.engine.Swap(index)
		if got := w.decide(t, "shop", [][]entry{{{"a", "x"}}, {{"b", "x"}}}); isOver(got.GetOverallCode()) != over {
			t.Errorf("a policy for %s replaces the default for b: %v, want over its limit: %t", own, got, over)
		}
	}
}

// drawNames draws names of limits, and which names they replace.
func drawNames(t *rapid.T, nodes []*node) {
	for _, n := range nodes {
		if l := n.limit; l != nil {
			l.name = rapid.SampledFrom([]string{"", "", "n", "m"}).Draw(t, "name")
			if name := rapid.SampledFrom([]string{"", "", "", "n", "m", "other"}).Draw(t, "replaces"); name != l.name && name != "" {
				l.replaces = []string{name}
			}
		}
		drawNames(t, n.children)
	}
}

func expectImported(t TB, result *importer.Result) {
	t.Helper()
	for _, f := range result.Findings {
		if f.Kind != importer.Note {
			t.Fatalf("%s", f)
		}
	}
}
