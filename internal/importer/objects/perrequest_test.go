package objects_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/internal/importer/objects"
	"github.com/weir-dev/weir/internal/policyfile"
)

// trafficPolicy returns a BackendTrafficPolicy for the routes a and b with n rules. Each has the selector, with %d in place of its number.
func trafficPolicy(n int, shared bool, selector string) string {
	var b strings.Builder
	b.WriteString(`apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
metadata: {name: many, namespace: shop}
spec:
  targetRefs: [{kind: HTTPRoute, name: a}, {kind: HTTPRoute, name: b}]
  rateLimit:
    global:
      rules:
`)
	for i := range n {
		text := selector
		if strings.Contains(text, "%d") {
			text = fmt.Sprintf(selector, i)
		}
		fmt.Fprintf(&b, "      - {clientSelectors: [%s], limit: {requests: %d, unit: Hour}, shared: %t}\n", text, i+1, shared)
	}
	return b.String()
}

func TestEnvoyGateway_ReportsMorePoliciesThanARequestIsChargedTo(t *testing.T) {
	const line33, all = 8 + 33, "difference: 32 or more earlier policies for HTTPRoute/%s can match the same request, and a request is charged to the oldest 32 of its " +
		"namespace only; combine rules, or let their conditions exclude each other"
	for name, test := range map[string]struct {
		content string
		want    []string
	}{
		"32 rules": {trafficPolicy(32, false, `{headers: [{name: x, type: Distinct}]}`), nil},
		"34 rules": {
			trafficPolicy(34, false, `{headers: [{name: x, type: Distinct}]}`), []string{
				fmt.Sprintf("a.yaml:%d: "+all, line33, "a"), fmt.Sprintf("a.yaml:%d: "+all, line33, "b"),
				fmt.Sprintf("a.yaml:%d: "+all, line33+1, "a"), fmt.Sprintf("a.yaml:%d: "+all, line33+1, "b"),
			},
		},
		"33 shared rules": {
			trafficPolicy(33, true, `{path: {type: PathPrefix, value: /%d}}`),
			[]string{fmt.Sprintf("a.yaml:%d: "+all, line33, "a"), fmt.Sprintf("a.yaml:%d: "+all, line33, "b")},
		},
		"values of one header": {trafficPolicy(40, false, `{headers: [{name: X, value: a}, {name: plan, value: p%d}]}`), nil},
		"exact paths":          {trafficPolicy(40, false, `{path: {type: Exact, value: /%d}}`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := findings(objects.EnvoyGateway, test.content); strings.Join(got, "\n") != strings.Join(test.want, "\n") {
				t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// The time for eight times the policies is at most 32 times as long, not 64 times. Each kind of policy excludes the others in another way.
func TestEnvoyGateway_TakesLinearTime(t *testing.T) {
	for _, selector := range []string{
		`{headers: [{name: plan, value: p%d}]}`,
		`{path: {type: Exact, value: /%d}}`,
		`{path: {type: Exact, value: /a}, headers: [{name: plan, value: p%d}]}`,
		`{headers: [{name: "plan%d", value: same}]}`,
	} {
		importOf := func(n int) time.Duration {
			content := trafficPolicy(n, true, selector)
			began := time.Now()
			objects.EnvoyGateway([]policyfile.File{{Name: "a.yaml", Content: []byte(content)}})
			return time.Since(began)
		}
		few, many := time.Duration(math.MaxInt64/32), time.Duration(math.MaxInt64)
		for range 4 { // other tests use the processor
			if few, many = min(few, importOf(1000)), min(many, importOf(8000)); many <= 32*few {
				break
			}
		}
		if many > 32*few {
			t.Errorf("%s: %v for 1000 policies, %v for 8000", selector, few, many)
		}
	}
}

// Conditions that do not exclude each other: a negated header, an expression, another spelling of a path, and methods in common.
func TestEnvoyGateway_CountsPoliciesThatCanMatchTheSameRequest(t *testing.T) {
	for _, selector := range []string{
		`{headers: [{name: plan, value: p%d, invert: true}]}`,
		`{headers: [{name: plan, value: p%d, type: RegularExpression}]}`,
		`{headers: [{name: "plan%d", value: same}]}`,
		`{path: {type: RegularExpression, value: "/%d"}}`,
		`{path: {type: Exact, value: /a}}`,
		`{methods: [{value: GET}, {value: PUT}]}`,
	} {
		if got := findings(objects.EnvoyGateway, trafficPolicy(33, true, selector)); len(got) != 2 {
			t.Errorf("%s: %q", selector, got)
		}
	}
	half := strings.Replace(trafficPolicy(33, true, `{methods: [{value: GET}]}`), "value: GET", "value: PUT", 10)
	if got := findings(objects.EnvoyGateway, half); len(got) != 0 {
		t.Errorf("methods: %q", got)
	}
}

func TestKuadrant_ReportsMorePoliciesThanARequestIsChargedTo(t *testing.T) {
	var b strings.Builder
	b.WriteString("apiVersion: kuadrant.io/v1\nkind: RateLimitPolicy\nmetadata: {name: many, namespace: shop}\nspec:\n" +
		"  targetRef: {group: gateway.networking.k8s.io, kind: HTTPRoute, name: a}\n  limits:\n")
	for i := range 33 {
		fmt.Fprintf(&b, "    l%d: {rates: [{limit: %d, window: 1m}]}\n", i, i+1)
	}
	differences := 0
	for _, f := range findings(objects.Kuadrant, b.String()) {
		if strings.Contains(f, "32 or more earlier policies for HTTPRoute/a") {
			differences++
			if !strings.HasPrefix(f, "a.yaml:39: difference: ") {
				t.Error(f)
			}
		}
	}
	if differences != 1 {
		t.Errorf("%d reports, want 1", differences)
	}
}
