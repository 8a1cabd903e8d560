package engine_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
)

// An unreadable identifier is often the client's choice. Clients that send one must not use up the units of requests without one.
func TestCheck_CountsUnreadableIdentifiersSeparately(t *testing.T) {
	byAddress := rule("shop/a", 1)
	byAddress.Identifier.Address = true
	e, registry := newEngine(t, byAddress)
	check := func(value string, override *engine.Override) engine.Answer {
		c := request(1, map[string]string{byAddress.Identifier.Name: value})
		c.Override = override
		answer, err := e.Check(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	other := &engine.Override{Units: 1, Window: time.Minute}
	for _, step := range []struct {
		value, identifier string
		override          *engine.Override
		allowed           bool
	}{
		{"unknown", "?", nil, true},
		{"hidden", "?", nil, false}, // counted together
		{"", "-", nil, true},
		{"", "-", nil, false},
		{"203.0.113.7", "203.0.113.7", nil, true},
		{"unknown", "?", other, true},
		{"unknown", "?", other, false},
		{"", "-", other, true},
	} {
		answer := check(step.value, step.override)
		if answer.Allowed != step.allowed || answer.Results[0].Identifier != step.identifier {
			t.Errorf("%q: allowed %v under %q, want %v under %q", step.value, answer.Allowed, answer.Results[0].Identifier, step.allowed, step.identifier)
		}
	}
	want := `
# HELP weir_missing_identifier_total Requests that matched a policy without an identifier. The reason is missing (counted under the identifier "-") or unreadable (counted under "?"), for example a text that is no address.
# TYPE weir_missing_identifier_total counter
weir_missing_identifier_total{axis="Tenant",policy="shop/a",reason="missing"} 3
weir_missing_identifier_total{axis="Tenant",policy="shop/a",reason="unreadable"} 4
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "weir_missing_identifier_total"); err != nil {
		t.Error(err)
	}
}

// One client without an identifier must not use up the units of the others.
func TestCheck_CountsClientsWithoutAnIdentifierByTheirAddress(t *testing.T) {
	r := rule("shop/a", 1)
	r.Fallbacks = []rules.Identifier{{From: rules.FromClientIP}}
	e, _ := newEngine(t, r)
	for _, step := range []struct {
		tenant, address, want string
	}{
		{"", "203.0.113.7", "shop/a address:203.0.113.7 true 0"},
		{"", "203.0.113.7", "shop/a address:203.0.113.7 false 0"},
		{"", "203.0.113.8", "shop/a address:203.0.113.8 true 0"},
		{"203.0.113.9", "203.0.113.7", "shop/a 203.0.113.9 true 0"}, // not the counter of the client with this address
		{"", "203.0.113.9", "shop/a address:203.0.113.9 true 0"},
		{"", "", "shop/a - true 0"},
	} {
		c := request(1, map[string]string{"tenant": step.tenant})
		if step.address != "" {
			c.Request.ClientIP = netip.MustParseAddr(step.address)
		}
		answer, err := e.Check(t.Context(), c)
		if err != nil || lines(answer)[0] != step.want {
			t.Errorf("%q at %q: %v, %v; want %s", step.tenant, step.address, lines(answer), err, step.want)
		}
	}
}

func TestCheck_DeniesRequestsWithoutAnIdentifier(t *testing.T) {
	denies, other := rule("shop/a", 100), rule("shop/b", 100)
	denies.OnMissing, denies.OnStoreFailure = rules.DenyMissing, rules.AllowOnFailure
	denies.Algorithm, denies.Debt = limiter.FixedWindow, true
	denies.Identifier.Address = true
	e, _ := newEngine(t, denies, other)
	check := func(tenant string, cost int64) engine.Answer {
		answer, err := e.Check(t.Context(), request(cost, map[string]string{"tenant": tenant}))
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	for _, tenant := range []string{"", "acme"} { // the second one cannot be read as an address
		for _, cost := range []int64{0, 1} {
			got := check(tenant, cost)
			if r := got.Results[0]; got.Allowed || r.Rule.Policy != "shop/a" || r.RetryAfter != limiter.Never || r.Missing != "header tenant" || r.Remaining != 0 {
				t.Errorf("tenant %q at cost %d: %+v", tenant, cost, r)
			}
		}
	}
	if err := e.Refund(t.Context(), []engine.Check{*request(1, nil)}); err != nil {
		t.Error(err)
	}
	if got := check("203.0.113.7", 1); !got.Allowed || got.Results[0].Missing != "" || got.Results[0].Remaining != 99 {
		t.Errorf("with an identifier: %v", lines(got))
	}
	peek := request(1, map[string]string{"tenant": "acme"})
	peek.Peek = true
	got, err := e.Check(t.Context(), peek)
	if other := slices.IndexFunc(got.Results, func(r engine.Result) bool { return r.Rule.Policy == "shop/b" }); err != nil || other < 0 || got.Results[other].Remaining != 100 {
		t.Errorf("the other policy has counted a request that is denied: %v, %v", lines(got), err)
	}
}

func TestCheck_AShadowPolicyReportsWhatItWouldDeny(t *testing.T) {
	r := shadow(rule("shop/a", 100))
	r.OnMissing = rules.DenyMissing
	e, _ := newEngine(t, r)
	answer, err := e.Check(t.Context(), request(1, nil))
	if err != nil || !answer.Allowed || answer.Results[0].Allowed {
		t.Errorf("%+v, %v: want an allowed request, and a denial in the results", answer, err)
	}
}
