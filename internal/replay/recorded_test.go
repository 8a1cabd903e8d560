package replay

import (
	"testing"

	"github.com/weir-dev/weir/internal/accesslog"
	"github.com/weir-dev/weir/internal/accesslog/format"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
)

// The log has identifiers, not what they come from. A restored request has the same ones under all policies of the decision.
func TestRun_RestoresTheIdentifiersOfDecisions(t *testing.T) {
	from := func(source rules.IdentifierSource, name string) func(*rules.Rule) {
		return func(r *rules.Rule) { r.Identifier = rules.Identifier{From: source, Name: name} }
	}
	set := setOf(
		rule("claim", from(rules.FromClaim, "realm.tenant")), rule("claim2", from(rules.FromClaim, "realm.user")), rule("cookie", from(rules.FromCookie, "session")),
		rule("cookie2", from(rules.FromCookie, "plan")), rule("descriptor", from(rules.FromDescriptor, "key")), rule("header", from(rules.FromHeader, "x-tenant-id")),
		rule("ip"), rule("missing", from(rules.FromHeader, "x-none")), rule("network", func(r *rules.Rule) { r.Identifier.IPv6Prefix = 48 }),
		rule("query", from(rules.FromQuery, "key")), rule("tier", func(r *rules.Rule) {
			from(rules.FromHeader, "x-user-id")(r)
			r.Fallbacks = []rules.Identifier{{From: rules.FromHeader, Name: "x-device"}}
			r.Tiers = []rules.Tier{{Name: "paid", When: rules.When{Header: &rules.HeaderMatch{Type: rules.HeaderExact, Name: "x-plan", Value: "gold"}}, Units: 50}}
		}),
	)
	want := map[string]string{
		"shop/claim": "acme", "shop/claim2": "jane", "shop/cookie": "s1", "shop/cookie2": "p1", "shop/descriptor": "d1", "shop/header": "h1",
		"shop/ip": "2001:db8:1::/64", "shop/missing": "-", "shop/network": "2001:db8:1::/48", "shop/query": "q1", "shop/tier": "header:x-device:phone",
	}
	decision := &accesslog.Recorded{Endpoint: "check", Result: "allowed", Policy: "shop/claim", Identifier: "acme"}
	for policy, identifier := range want {
		if policy != "shop/claim" {
			decision.Others = append(decision.Others, format.RecordedPolicy{Policy: policy, Identifier: identifier, Tier: map[string]string{"shop/tier": "paid"}[policy]})
		}
	}
	r := record(0, 1)
	r.Request.ClientIP, r.Recorded = record(0, 0).Request.ClientIP, decision
	got := map[string]string{}
	replay, err := New(Options{Policies: set, Domain: "shop", Observe: func(_ *accesslog.Record, results []engine.Result, _ bool) {
		for _, result := range results {
			got[result.Rule.Policy] = result.Identifier
			if result.Rule.Policy == "shop/tier" && result.Tier != "paid" {
				t.Errorf("tier %q", result.Tier)
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := replay.Run(t.Context(), &list{records: []accesslog.Record{r}}); err != nil {
		t.Fatal(err)
	}
	for policy, identifier := range want {
		if got[policy] != identifier {
			t.Errorf("%s: %q, want %q", policy, got[policy], identifier)
		}
	}
}

// A limiter saw all headers: what it counted by a fallback did not have the first identifier.
func TestResult_NotesNoFallbackOfALimiter(t *testing.T) {
	set := setOf(rule("a", func(r *rules.Rule) {
		r.Axis, r.Identifier, r.Fallbacks = "Tenant", rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"}, []rules.Identifier{{From: rules.FromClientIP}}
	}))
	r := record(0, 1)
	r.Recorded = &accesslog.Recorded{Endpoint: "rls", Result: "allowed", Policy: "shop/a", Axis: "Tenant", Identifier: "address:192.0.2.1"}
	if found := run(t, Options{Policies: set}, r); found.Policies[0].FallbackIdentifier != 1 || len(found.Notes) != 0 {
		t.Errorf("%d, %q", found.Policies[0].FallbackIdentifier, found.Notes)
	}
}

// A policy that is not replayed has the source of another one on its axis.
func TestRun_RestoresTheIdentifierOfAnAxis(t *testing.T) {
	set := setOf(rule("new", func(r *rules.Rule) {
		r.Axis, r.Identifier = "Tenant", rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"}
	}))
	decided := func(result, identifier string, cost int64) accesslog.Record {
		r := record(0, 1)
		r.Recorded = &accesslog.Recorded{Endpoint: "rls", Result: result, Policy: "shop/gone", Axis: "Tenant", Identifier: identifier, Cost: cost}
		return r
	}
	p := run(t, Options{Policies: set}, decided("allowed", "a", 0), decided("uncharged", "a", 0), decided("denied", "b", 4), decided("denied", limiter.Missing, 0)).Policies[0]
	if p.Identifiers != 3 || p.MissingIdentifier != 1 || p.PeakUse.Identifier != "b" || p.PeakUse.Used != 4 || p.Denied != 0 {
		t.Errorf("%+v, peak %+v", p, p.PeakUse)
	}
	if want := int64(1); p.Use[0].Identifiers != 2 || p.Use[0].To != want { // an uncharged decision adds nothing
		t.Errorf("use %+v", p.Use)
	}
}
