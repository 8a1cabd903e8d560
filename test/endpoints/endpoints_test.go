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
	// carries is the minimum number of rows that the endpoint can express.
	carries int
	// cannot returns which part of a row the endpoint cannot express, empty if it can express the row.
	cannot func(*row) string
	// open opens the endpoint to l, until the test ends.
	open func(t *testing.T, l *oneLimiter) asker
}

// asker sends one request and returns the response.
type asker func(t *testing.T, r *row) told

// told is the response of an endpoint.
type told struct {
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
		{"the engine", 310, cannotEngine, openEngine},
		{"POST /v1/check", 300, cannotCheck, openCheck},
		{"/v1/auth with the headers of Traefik and Caddy", 280, cannotAuth, openAuth(asTraefik)},
		{"/v1/auth with the headers of nginx", 280, cannotAuth, openAuth(asNginx)},
		{"ext_authz", 290, cannotExtAuthz, openExtAuthz},
		{"RLS", 22, cannotRateLimit, openRateLimit},
		{"middleware", 310, cannotMiddleware, openMiddleware},
		{"middleware with a Remote", 310, cannotMiddleware, openRemote},
		{"grpclimit", 35, cannotCall, openCalls},
		{"grpclimit with a Remote", 35, cannotCall, openRemoteCalls},
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
		t.Errorf("%d rows, want %d", len(rows), fewestRows)
	}
	everyPolicyIsMet(t, set, rows)
	secrets := secretsOf(rows)
	want := make([]decided, len(rows))
	through := make([]int, len(rows))
	for at, d := range endpoints() {
		t.Run(d.name, func(t *testing.T) {
			l := newLimiter(t, set)
			ask, behind := d.open(t, l), openEngine(t, l)
			carried := 0
			for i, r := range rows {
				if why := d.cannot(r); why != "" {
					behind(t, r)
					l.store.take()
					continue
				}
				if why := r.apart[d.name]; why != "" {
					staysApart(t, d, l, r, ask, &want[i])
					behind(t, r)
					l.store.take()
					continue
				}
				carried++
				through[i]++
				got := decided{told: ask(t, r), charges: l.store.take()}
				if at == 0 {
					want[i] = got
					asTheTableSays(t, r, &got)
				}
				asTheEngine(t, r, &got, &want[i])
				tellsNoSecret(t, r, &got, secrets)
			}
			t.Logf("carried %d of %d rows", carried, len(rows))
			if carried < d.carries {
				t.Errorf("carried %d rows, want %d at least", carried, d.carries)
			}
		})
	}
	for i, r := range rows {
		for name := range r.apart {
			if !slices.ContainsFunc(endpoints(), func(d endpoint) bool { return d.name == name && d.cannot(r) == "" }) {
				t.Errorf("line %d: %s: no endpoint %s that carries it", r.line, r.sentence, name)
			}
		}
		if through[i] < fewestEndpoints {
			t.Errorf("line %d: %s: went through %d endpoints, want %d", r.line, r.sentence, through[i], fewestEndpoints)
		}
	}
}

// decided is the result of one row at one endpoint.
type decided struct {
	told    told
	charges []charge
}

// staysApart checks that an endpoint still reads r as a different request. It does not change the counters.
func staysApart(t *testing.T, d endpoint, l *oneLimiter, r *row, ask asker, want *decided) {
	t.Helper()
	l.store.looking = true
	ask(t, r)
	l.store.looking = false
	charged := func(charges []charge) (keys []string) {
		for _, c := range charges {
			keys = append(keys, c.Key)
		}
		return keys
	}
	if slices.Equal(charged(l.store.take()), charged(want.charges)) {
		t.Errorf("line %d: %s: %s now reads it as all other endpoints do: remove the line %q from the table", r.line, r.sentence, d.name, "apart "+d.name)
	}
}

// asTheTableSays compares the engine's answer with the row.
func asTheTableSays(t *testing.T, r *row, got *decided) {
	t.Helper()
	if diff := cmp.Diff(r.want, got.told.outcomes, byPolicy, cmpopts.IgnoreUnexported(outcome{}), cmpopts.IgnoreFields(outcome{}, "Cost"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("line %d: %s (-want +got):\n%s", r.line, r.sentence, diff)
	}
	if got.told.allowed != r.allowed() {
		t.Errorf("line %d: %s: allowed: %v", r.line, r.sentence, got.told.allowed)
	}
	if len(got.charges) != len(r.want) {
		t.Errorf("line %d: %s: %d charges, want %d", r.line, r.sentence, len(got.charges), len(r.want))
		return
	}
	for _, w := range r.want {
		at := slices.IndexFunc(got.charges, func(c charge) bool { return strings.Contains(c.Key, "}:"+w.Policy+":") })
		if at < 0 {
			t.Errorf("line %d: %s: no charge of %s", r.line, r.sentence, w.Policy)
			continue
		}
		c := got.charges[at]
		if c.Cost != w.Cost {
			t.Errorf("line %d: %s: %s costs %d, want %d", r.line, r.sentence, w.Policy, c.Cost, w.Cost)
		}
		if strings.Contains(c.Key, ":{-}:") != w.missing {
			t.Errorf("line %d: %s: key %s, missing %v", r.line, r.sentence, c.Key, w.missing)
		}
	}
}

var byPolicy = cmpopts.SortSlices(func(a, b outcome) bool { return a.Policy < b.Policy })

// asTheEngine compares the charges and the response of an endpoint with those of the engine.
func asTheEngine(t *testing.T, r *row, got, want *decided) {
	t.Helper()
	if diff := cmp.Diff(want.charges, got.charges); diff != "" {
		t.Errorf("line %d: %s: charges (-engine +endpoint):\n%s", r.line, r.sentence, diff)
		return
	}
	if got.told.allowed != want.told.allowed {
		t.Errorf("line %d: %s: told allowed: %v, want %v", r.line, r.sentence, got.told.allowed, want.told.allowed)
	}
	if diff := cmp.Diff(want.told.fields, limitFields(got.told.fields)); diff != "" {
		t.Errorf("line %d: %s: fields (-engine +endpoint):\n%s", r.line, r.sentence, diff)
	}
	if got.told.outcomes == nil {
		return
	}
	ignored := []string{"Cost"}
	if got.told.anonymous {
		ignored = append(ignored, "Identifier", "Remaining", "Limit", "Waits")
	}
	options := cmp.Options{byPolicy, cmpopts.IgnoreUnexported(outcome{}), cmpopts.IgnoreFields(outcome{}, ignored...), cmpopts.EquateEmpty()}
	if diff := cmp.Diff(want.told.outcomes, got.told.outcomes, options); diff != "" {
		t.Errorf("line %d: %s: told (-engine +endpoint):\n%s", r.line, r.sentence, diff)
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

// everyPolicyIsMet checks that the table has a row for each policy, and for each tier with a name.
func everyPolicyIsMet(t *testing.T, set rules.Set, rows []*row) {
	t.Helper()
	met := map[string]bool{}
	for _, r := range rows {
		for _, w := range r.want {
			met[w.Policy], met[w.Policy+" "+w.Tier] = true, true
		}
	}
	for _, rule := range set.Rules {
		if !met[rule.Policy] {
			t.Errorf("no row meets %s", rule.Policy)
		}
		for _, tier := range rule.Tiers {
			if !tier.Unlimited && !met[rule.Policy+" "+tier.Name] {
				t.Errorf("no row is of the tier %s of %s", tier.Name, rule.Policy)
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

func tellsNoSecret(t *testing.T, r *row, got *decided, secrets []string) {
	t.Helper()
	for _, secret := range secrets {
		if strings.Contains(got.told.text, secret) {
			t.Errorf("line %d: %s: told %q:\n%s", r.line, r.sentence, secret, got.told.text)
		}
		for _, c := range got.charges {
			if strings.Contains(c.Key, secret) {
				t.Errorf("line %d: %s: key %q", r.line, r.sentence, c.Key)
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

func cannotEngine(*row) string { return "" }

func openEngine(_ *testing.T, l *oneLimiter) asker {
	return func(t *testing.T, r *row) told {
		t.Helper()
		c := check(t, r)
		a, err := l.engine.Check(t.Context(), &c)
		if err != nil {
			t.Fatalf("line %d: %v", r.line, err)
		}
		return told{allowed: a.Allowed, fields: fieldsOf(t, &a), outcomes: outcomesOf(&a)}
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
