package engine_test

import (
	"testing"

	"github.com/weir-dev/weir/limiter/engine"
)

func TestCheckAll_CallsTheStoreOnlyForWhatItDoesNotKnow(t *testing.T) {
	o := newCachingEngine(t, rule("shop/a", 1))
	elsewhere := *request(1, tenant("acme"))
	elsewhere.Request.Domain = "unknown"
	both := func(a, b string) []engine.Check {
		return []engine.Check{*request(1, tenant(a)), *request(1, tenant(b))}
	}
	for _, step := range []struct {
		name    string
		checks  []engine.Check
		called  bool
		allowed bool
		source  engine.Source
	}{
		{"the first requests", both("acme", "globex"), true, true, engine.SourceMemory},
		{"a denial", both("acme", "globex"), true, false, engine.SourceMemory},
		{"the known denials", both("acme", "globex"), false, false, engine.SourceCache},
		{"the known denial of one of two", both("acme", "initech"), false, false, engine.SourceCache},
		{"other tenants", both("initech", "hooli"), true, true, engine.SourceMemory},
		{"no policy", []engine.Check{elsewhere, elsewhere}, false, true, ""},
	} {
		before := o.store.calls()
		answers, err := o.CheckAll(t.Context(), step.checks)
		if err != nil || len(answers) != len(step.checks) {
			t.Fatalf("%s: %+v, %v", step.name, answers, err)
		}
		if called := o.store.calls() != before; called != step.called || answers[0].Allowed != step.allowed {
			t.Errorf("%s: allowed %v, store called: %v; want %v, %v", step.name, answers[0].Allowed, called, step.allowed, step.called)
		}
		if step.source != "" && answers[0].Source != step.source {
			t.Errorf("%s: source %s, want %s", step.name, answers[0].Source, step.source)
		}
	}
}
