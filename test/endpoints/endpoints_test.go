// Package endpoints tests all endpoints of a limiter with one table of requests: each endpoint must make the same decision. It also
// starts a real weir with all flags of its listeners.
package endpoints_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// endpoint is an endpoint of a limiter, or a Go package that calls the engine or an endpoint.
type endpoint struct {
	name string
	// minRows is the minimum number of rows that the endpoint can express.
	minRows int
	// unsupported returns the part of a row that the endpoint cannot express. It is empty if the endpoint can express the row.
	unsupported func(*row) string
	// open connects the endpoint to l until the test ends.
	open func(t *testing.T, l *testLimiter) sender
}

// sender sends one request and returns the result.
type sender func(t *testing.T, r *row) result

// result is the response of an endpoint to one row.
type result struct {
	allowed bool
	fields  http.Header // for the client
	// outcomes is nil for endpoints whose response has no outcomes.
	outcomes []outcome
	// anonymous is true if the outcomes have policies and tiers, without identifiers and remaining units.
	anonymous bool
	// text is the complete text of the response.
	text string
}

func endpoints() []endpoint {
	return []endpoint{
		{"the engine", 310, unsupportedByEngine, openEngine},
		{"POST /v1/check", 300, unsupportedByCheck, openCheck},
		{"/v1/auth with the headers of Traefik and Caddy", 280, unsupportedByAuth, openAuth(setTraefikHeaders)},
		{"/v1/auth with the headers of nginx", 280, unsupportedByAuth, openAuth(setNginxHeaders)},
		{"ext_authz", 290, unsupportedByExtAuthz, openExtAuthz},
		{"RLS", 22, unsupportedByRateLimit, openRateLimit},
		{"middleware", 310, unsupportedByMiddleware, openMiddleware},
		{"middleware with a Remote", 310, unsupportedByMiddleware, openRemote},
		{"grpclimit", 35, unsupportedByCall, openCalls},
		{"grpclimit with a Remote", 35, unsupportedByCall, openRemoteCalls},
	}
}

// fewestRows is the minimum size of the table. fewestEndpoints is the minimum number of endpoints that can express each row.
const fewestRows, fewestEndpoints = 310, 3

// TestEndpoints_DecideAlike sends each row of the table to each endpoint that can express it. Each endpoint has its own counters. All
// must charge the same counters with the same units and return the same result. A row that an endpoint cannot express is spent
// directly on its engine, so that its counters stay equal to the others.
func TestEndpoints_DecideAlike(t *testing.T) {
	set, rows := readPolicies(t), readRows(t)
	if len(rows) < fewestRows {
		t.Errorf("the table has %d rows, want at least %d", len(rows), fewestRows)
	}
	checkEveryPolicyHasARow(t, set, rows)
	secrets := secretsOf(rows)
	want := make([]observation, len(rows))
	endpointsOf := make([]int, len(rows)) // the number of endpoints that can express the row
	for at, e := range endpoints() {
		t.Run(e.name, func(t *testing.T) {
			l := newLimiter(t, set)
			send, sendToEngine := e.open(t, l), openEngine(t, l)
			sent := 0
			for i, r := range rows {
				if part := e.unsupported(r); part != "" {
					sendToEngine(t, r)
					l.store.take()
					continue
				}
				if reason := r.apart[e.name]; reason != "" {
					checkStillDiffers(t, e, l, r, send, &want[i])
					sendToEngine(t, r)
					l.store.take()
					continue
				}
				sent++
				endpointsOf[i]++
				got := observation{result: send(t, r), charges: l.store.take()}
				if at == 0 {
					want[i] = got
					compareWithRow(t, r, &got)
				}
				compareWithEngine(t, r, &got, &want[i])
				checkNoSecret(t, r, &got, secrets)
			}
			t.Logf("the endpoint can express %d of %d rows", sent, len(rows))
			if sent < e.minRows {
				t.Errorf("the endpoint can express %d rows, want at least %d", sent, e.minRows)
			}
			l.observer.expectName(t, e.name)
		})
	}
	for i, r := range rows {
		for name := range r.apart {
			if !slices.ContainsFunc(endpoints(), func(e endpoint) bool { return e.name == name && e.unsupported(r) == "" }) {
				t.Errorf("line %d: %s: apart names %s, which is not an endpoint that can express the row", r.line, r.sentence, name)
			}
		}
		if endpointsOf[i] < fewestEndpoints {
			t.Errorf("line %d: %s: %d endpoints can express the row, want at least %d", r.line, r.sentence, endpointsOf[i], fewestEndpoints)
		}
	}
}

// observation is the response and the charges of one row at one endpoint.
type observation struct {
	result  result
	charges []charge
}

// checkStillDiffers checks that an endpoint still reads r as a different request. It does not change the counters.
func checkStillDiffers(t *testing.T, e endpoint, l *testLimiter, r *row, send sender, want *observation) {
	t.Helper()
	l.store.peekOnly = true
	send(t, r)
	l.store.peekOnly = false
	charged := func(charges []charge) (keys []string) {
		for _, c := range charges {
			keys = append(keys, c.Key)
		}
		return keys
	}
	if slices.Equal(charged(l.store.take()), charged(want.charges)) {
		t.Errorf("line %d: %s: %s now reads it as all other endpoints do: remove the line %q from the table", r.line, r.sentence, e.name, "apart "+e.name)
	}
}

// compareWithRow compares the result of the engine with the expected outcome of the row.
func compareWithRow(t *testing.T, r *row, got *observation) {
	t.Helper()
	if diff := cmp.Diff(r.want, got.result.outcomes, byPolicy, cmpopts.IgnoreUnexported(outcome{}), cmpopts.IgnoreFields(outcome{}, "Cost"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("line %d: %s (-want +got):\n%s", r.line, r.sentence, diff)
	}
	if got.result.allowed != r.allowed() {
		t.Errorf("line %d: %s: allowed: %v, want %v", r.line, r.sentence, got.result.allowed, r.allowed())
	}
	// The policy denies with onMissing: Deny without a charge.
	counted := slices.DeleteFunc(slices.Clone(r.want), func(w outcome) bool { return strings.HasSuffix(w.Policy, "denies") && w.missing })
	if len(got.charges) != len(counted) {
		t.Errorf("line %d: %s: %d charges, want %d", r.line, r.sentence, len(got.charges), len(counted))
		return
	}
	for _, w := range counted {
		at := slices.IndexFunc(got.charges, func(c charge) bool { return strings.Contains(c.Key, "}:"+w.Policy+":") })
		if at < 0 {
			t.Errorf("line %d: %s: policy %s has no charge", r.line, r.sentence, w.Policy)
			continue
		}
		c := got.charges[at]
		if c.Cost != w.Cost {
			t.Errorf("line %d: %s: policy %s charges %d units, want %d", r.line, r.sentence, w.Policy, c.Cost, w.Cost)
		}
		if strings.Contains(c.Key, ":{-}:") != w.missing || strings.Contains(c.Key, ":{?}:") != w.unreadable {
			t.Errorf("line %d: %s: counter key %s, want the key of a missing identifier: %v, of an unreadable one: %v",
				r.line, r.sentence, c.Key, w.missing, w.unreadable)
		}
	}
}

var byPolicy = cmpopts.SortSlices(func(a, b outcome) bool { return a.Policy < b.Policy })

// compareWithEngine compares the charges and the response of an endpoint with those of the engine.
func compareWithEngine(t *testing.T, r *row, got, want *observation) {
	t.Helper()
	if diff := cmp.Diff(want.charges, got.charges); diff != "" {
		t.Errorf("line %d: %s: charges (-engine +endpoint):\n%s", r.line, r.sentence, diff)
		return
	}
	if got.result.allowed != want.result.allowed {
		t.Errorf("line %d: %s: allowed: %v, want %v", r.line, r.sentence, got.result.allowed, want.result.allowed)
	}
	if diff := cmp.Diff(want.result.fields, limitFields(got.result.fields)); diff != "" {
		t.Errorf("line %d: %s: fields (-engine +endpoint):\n%s", r.line, r.sentence, diff)
	}
	if got.result.outcomes == nil {
		return
	}
	ignored := []string{"Cost"}
	if got.result.anonymous {
		ignored = append(ignored, "Identifier", "Remaining", "Limit", "Waits")
	}
	options := cmp.Options{byPolicy, cmpopts.IgnoreUnexported(outcome{}), cmpopts.IgnoreFields(outcome{}, ignored...), cmpopts.EquateEmpty()}
	if diff := cmp.Diff(want.result.outcomes, got.result.outcomes, options); diff != "" {
		t.Errorf("line %d: %s: outcomes (-engine +endpoint):\n%s", r.line, r.sentence, diff)
	}
}

// limitFields returns the rate-limit fields of h, with names in lower case.
func limitFields(h http.Header) http.Header {
	fields := http.Header{}
	for name, values := range h {
		switch name := strings.ToLower(name); name {
		case "ratelimit", "ratelimit-policy", "retry-after":
			fields[name] = values
		}
	}
	return fields
}

// checkEveryPolicyHasARow checks that the table has a row for each policy, and for each tier with a name.
func checkEveryPolicyHasARow(t *testing.T, set rules.Set, rows []*row) {
	t.Helper()
	covered := map[string]bool{}
	for _, r := range rows {
		for _, w := range r.want {
			covered[w.Policy], covered[w.Policy+" "+w.Tier] = true, true
		}
	}
	for _, rule := range set.Rules {
		if !covered[rule.Policy] {
			t.Errorf("no row has an outcome of policy %s", rule.Policy)
		}
		for _, tier := range rule.Tiers {
			if !tier.Unlimited && !covered[rule.Policy+" "+tier.Name] {
				t.Errorf("no row has an outcome of tier %s of policy %s", tier.Name, rule.Policy)
			}
		}
	}
}

// secretsOf returns the API keys in the table. Each contains "secret".
func secretsOf(rows []*row) []string {
	secrets := map[string]bool{}
	for _, r := range rows {
		for _, text := range []string{r.target, strings.Join(r.headerLines("x-api-key"), " "), descriptorText(r)} {
			for _, word := range strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" ?&=/,", c) }) {
				if strings.Contains(word, "secret") {
					secrets[word] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(secrets))
}

func descriptorText(r *row) string {
	var words []string
	for _, d := range r.descriptors {
		for _, e := range d {
			words = append(words, e.Value)
		}
	}
	return strings.Join(words, " ")
}

// checkNoSecret checks that neither the response nor a counter key contains a secret.
func checkNoSecret(t *testing.T, r *row, got *observation, secrets []string) {
	t.Helper()
	for _, secret := range secrets {
		if strings.Contains(got.result.text, secret) {
			t.Errorf("line %d: %s: the response contains the secret %q:\n%s", r.line, r.sentence, secret, got.result.text)
		}
		for _, c := range got.charges {
			if strings.Contains(c.Key, secret) {
				t.Errorf("line %d: %s: the counter key %q contains a secret", r.line, r.sentence, c.Key)
			}
		}
	}
}

// outcomesOf returns the outcomes in an answer.
func outcomesOf(a *engine.Answer) []outcome {
	outcomes := []outcome{}
	for i := range a.Results {
		r := &a.Results[i]
		outcomes = append(outcomes, outcome{
			Policy: r.Rule.Policy, Identifier: r.Identifier, Tier: r.Tier, Shadow: r.Rule.Shadow, Allowed: r.Allowed,
			Waits: r.Delay > 0, Remaining: r.Remaining, Limit: r.Decision.Limit,
		})
	}
	return outcomes
}

func unsupportedByEngine(*row) string { return "" }

func openEngine(_ *testing.T, l *testLimiter) sender {
	return func(t *testing.T, r *row) result {
		t.Helper()
		c := check(t, r)
		a, err := l.engine.Check(t.Context(), &c)
		if err != nil {
			t.Fatalf("line %d: %v", r.line, err)
		}
		return result{allowed: a.Allowed, fields: fieldsOf(t, &a), outcomes: outcomesOf(&a)}
	}
}

// fieldsOf returns the rate-limit fields for an answer.
func fieldsOf(t *testing.T, a *engine.Answer) http.Header {
	t.Helper()
	h := http.Header{}
	if err := reply.RateLimitHeaders.SetHeaders(h, a, noon()); err != nil {
		t.Fatal(err)
	}
	return limitFields(h)
}
