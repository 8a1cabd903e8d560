package ruleset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/budget"
)

// ruleSetOf returns a rule set with the revision of each policy's rule.
func ruleSetOf(revisions map[string]string) *selection.RuleSet {
	set := &selection.RuleSet{Rules: map[string]selection.Rule{}}
	for policy, revision := range revisions {
		set.Rules[policy] = selection.Rule{Policy: policy, Revision: revision}
	}
	return set
}

func TestMetrics_DescribeTheRuleSetOfEachLimiter(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	edge, staging := types.NamespacedName{Namespace: "weir", Name: "edge"}, types.NamespacedName{Namespace: "weir", Name: "staging"}
	set := ruleSetOf(map[string]string{"shop/a": "1", "shop/b": "1"})
	set.Used = budget.Usage{Bytes: 300, Rules: 2, Expressions: 1}
	set.Budget.Total = budget.Usage{Bytes: 1200, Rules: 4, Expressions: 4} // no limit of regular expressions
	set.Problems = map[selection.Key][]compile.Problem{
		{Name: "x"}: {{Reason: "Invalid"}, {Reason: "Invalid"}}, {Name: "y"}: {{Reason: "OverBudget"}},
	}
	m.observeRuleSet(edge, nil, nil, set, time.Unix(0, 0))
	m.observeRuleSet(staging, nil, nil, ruleSetOf(map[string]string{"shop/a": "1"}), time.Unix(0, 0))
	expect := func(what, want string) {
		t.Helper()
		if diff := cmp.Diff(strings.Fields(want), series(t, registry)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	expect("two Limiters", `
		weir_policy_budget_used_ratio/weir/edge/bytes=0.25
		weir_policy_budget_used_ratio/weir/edge/expressions=0.25
		weir_policy_budget_used_ratio/weir/edge/rules=0.5
		weir_policy_problems/weir/edge/Invalid=2
		weir_policy_problems/weir/edge/OverBudget=1
		weir_rules_policies/weir/edge=2
		weir_rules_policies/weir/staging=1`)
	set.Problems = nil
	m.observeRuleSet(edge, edits{}, set, set, time.Unix(0, 0))
	m.remove(staging)
	expect("a Limiter without problems", `
		weir_policy_budget_used_ratio/weir/edge/bytes=0.25
		weir_policy_budget_used_ratio/weir/edge/expressions=0.25
		weir_policy_budget_used_ratio/weir/edge/rules=0.5
		weir_rules_policies/weir/edge=2`)
	set.Problems = map[selection.Key][]compile.Problem{{Name: "x"}: {{Reason: "Invalid"}}}
	m.observeRuleSet(edge, edits{}, set, set, time.Unix(0, 0))
	m.remove(edge)
	expect("no Limiter", "")
	if _, err := newMetrics(registry); err == nil || !strings.HasPrefix(err.Error(), "register metrics of rule sets: ") {
		t.Errorf("registers twice: %v", err)
	}
}

// series returns the gauges and the sums and numbers of the histograms that have samples, sorted: name/value of a label/…=value.
func series(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			parts := []string{family.GetName()}
			for _, label := range metric.GetLabel() {
				parts = append(parts, label.GetValue())
			}
			name := strings.Join(parts, "/")
			if h := metric.GetHistogram(); h == nil {
				lines = append(lines, fmt.Sprintf("%s=%v", name, metric.GetGauge().GetValue()))
			} else if h.GetSampleCount() > 0 {
				lines = append(lines, fmt.Sprintf("%s=%v/%d", name, h.GetSampleSum(), h.GetSampleCount()))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// An edit counts once, when all replicas enforce it; not if it is superseded or deleted before.
func TestMetrics_MeasureThePropagationOfEdits(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Unix(1_800_000_000, 0)
	name := types.NamespacedName{Namespace: "weir", Name: "edge"}
	first := ruleSetOf(map[string]string{"a": "1", "b": "1", "c": "1", "kept": "1"})
	pending := m.observeRuleSet(name, edits{"a": {"0", start}}, nil, first, start)
	if len(pending) != 0 {
		t.Errorf("edits when the operator starts: %v", pending)
	}
	second := ruleSetOf(map[string]string{"a": "2", "b": "2", "c": "2", "kept": "1", "new": "1"})
	pending = m.observeRuleSet(name, pending, first, second, start.Add(time.Second))
	third := ruleSetOf(map[string]string{"a": "2", "b": "3", "kept": "1", "new": "1"})
	pending = m.observeRuleSet(name, pending, second, third, start.Add(2*time.Second))
	want := edits{"a": {"2", start.Add(time.Second)}, "b": {"3", start.Add(2 * time.Second)}, "new": {"1", start.Add(time.Second)}}
	if len(pending) != len(want) || pending["a"] != want["a"] || pending["b"] != want["b"] || pending["new"] != want["new"] {
		t.Errorf("edits %v, want %v", pending, want)
	}
	m.remove(name)
	delivery := publish.Delivery{Replicas: []publish.ServingReplica{{Rules: map[string]string{"a": "2", "b": "2", "kept": "1"}}}}
	for range 2 {
		m.observeDelivery(pending, third, delivery, start.Add(4*time.Second))
	}
	if _, left := pending["a"]; left || len(pending) != 2 {
		t.Errorf("edits %v, want b and new", pending)
	}
	if diff := cmp.Diff([]string{"weir_propagation_seconds=3/1"}, series(t, registry)); diff != "" {
		t.Errorf("propagation (-want +got):\n%s", diff)
	}
}

func TestPublishing_CollectsACallThatEndsInTime(t *testing.T) {
	ended := func(p *publishing) *int {
		cancels := 0
		p.call = &publishCall{done: make(chan publish.Delivery, 1), cancel: func() { cancels++ }}
		return &cancels
	}
	for name, collect := range map[string]func(*publishing) bool{
		"collect": func(p *publishing) bool { return p.collect(0) },
		"finish":  func(p *publishing) bool { p.finish(); return true },
		"cancel":  func(p *publishing) bool { p.cancel(); return true },
	} {
		for range 20 { // the timer and the call may both be ready
			var p publishing
			cancels := ended(&p)
			p.call.done <- publish.Delivery{AtLeast: 3}
			if !collect(&p) || p.latest.AtLeast != 3 || p.call != nil || *cancels == 0 {
				t.Fatalf("%s: %+v after %d cancels, want the delivery", name, p, *cancels)
			}
		}
	}
	var p publishing
	cancels := ended(&p)
	p.latest.AtLeast = 1
	if p.collect(0) || p.call == nil || p.latest.AtLeast != 1 || *cancels != 0 {
		t.Errorf("%+v after %d cancels, want that the call continues", p, *cancels)
	}
	p = publishing{}
	p.finish()
	p.cancel() // without a call they do nothing
}
