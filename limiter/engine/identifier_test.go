package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/limiter/engine"
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
