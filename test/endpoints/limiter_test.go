package endpoints_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/server/address"
)

// noon is the time of all requests: the clock does not advance.
func noon() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

// patience is the timeout of each wait.
const patience = 30 * time.Second

// trusted returns the proxies that all endpoints trust. The local address is for endpoints that the test calls over a socket.
func trusted() []string { return []string{"127.0.0.1", "10.0.0.0/8", "2001:db8:1::/48"} }

func trustedPrefixes() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:1::/48"),
	}
}

func trust(t *testing.T) *address.Trusted {
	t.Helper()
	networks, err := address.ParseNetworks(trusted())
	if err != nil {
		t.Fatal(err)
	}
	return address.NewTrusted(address.XForwardedFor, networks)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// readPolicies compiles testdata/policies as weir serve does.
func readPolicies(t *testing.T) rules.Set {
	t.Helper()
	schema, err := apischema.New()
	if err != nil {
		t.Fatal(err)
	}
	loader := policyfile.NewLoader(compile.DefaultIdentity().WithHashKey(testHashKey()), schema)
	result, err := loader.Load(nil, "testdata/policies")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range result.Problems {
		t.Error(p)
	}
	return result.Rules
}

// charge is a charge of a store and its decision.
type charge struct {
	Op                 string
	Key, Limit         string
	Burst, Cost        int64
	Shadow             bool
	Allowed            bool
	Remaining          int64
	Retry, Reset, Held time.Duration
}

// recorder is a store that records all charges.
type recorder struct {
	limiter.Store

	mu      sync.Mutex
	charges []charge
	// peekOnly makes Spend record charges without spending them.
	peekOnly bool
}

func (s *recorder) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	spend := s.Store.Spend
	if s.peekOnly {
		spend = s.Store.Peek
	}
	decisions, err := spend(ctx, charges)
	s.record("spend", charges, decisions)
	return decisions, err
}

func (s *recorder) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	decisions, err := s.Store.Peek(ctx, charges)
	s.record("peek", charges, decisions)
	return decisions, err
}

func (s *recorder) Refund(ctx context.Context, refunds []limiter.Refund) error {
	s.mu.Lock()
	for _, r := range refunds {
		s.charges = append(s.charges, charge{Op: "refund", Key: r.Key, Limit: r.Limit.String(), Cost: r.Cost})
	}
	s.mu.Unlock()
	return s.Store.Refund(ctx, refunds)
}

func (s *recorder) record(op string, charges []limiter.Charge, decisions []limiter.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range charges {
		d := decisions[i]
		s.charges = append(s.charges, charge{
			Op: op, Key: c.Key, Limit: c.Limit.String(), Burst: c.Limit.Burst(), Cost: c.Cost, Shadow: c.Shadow,
			Allowed: d.Allowed, Remaining: d.Remaining, Retry: d.RetryAfter, Reset: d.ResetAfter, Held: d.Delay,
		})
	}
}

// take returns the charges since the last call, sorted by key.
func (s *recorder) take() []charge {
	s.mu.Lock()
	defer s.mu.Unlock()
	charges := s.charges
	s.charges = nil
	slices.SortStableFunc(charges, func(a, b charge) int { return cmp.Compare(a.Key, b.Key) })
	return charges
}

// testLimiter is an engine with its own counters.
type testLimiter struct {
	engine   *engine.Engine
	store    *recorder
	observer *observer
}

func newLimiter(t *testing.T, set rules.Set) *testLimiter {
	t.Helper()
	index, err := matching.NewIndex(set, "sha256:1", "weir:", matching.WithHashKey(testHashKey()))
	if err != nil {
		t.Fatal(err)
	}
	store := &recorder{Store: memstore.New(noon)}
	seen := &observer{}
	e := engine.New(store, engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()), engine.ObserveDecisions(seen))
	e.Swap(index)
	return &testLimiter{e, store, seen}
}

// check returns the row as a check for the engine.
func check(t *testing.T, r *row) engine.Check {
	t.Helper()
	c := engine.Check{
		Request: rules.Request{
			Domain: r.domain, Method: r.method, ClientIP: r.client, Claims: claimsOf(t, r), Descriptors: r.descriptors,
			Headers: joinedHeaders(r), RepeatedHeaders: repeatedHeaders(r),
		},
		Cost: r.cost, Peek: r.peek,
	}
	if !r.isHTTP() {
		c.Request.NoHTTP = len(r.headers) == 0 && r.claims == ""
		return c
	}
	target := r.target
	if r.isAbsoluteURL() {
		u, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		target = u.RequestURI()
	}
	c.Request.Host = rules.NormalHost(r.host)
	c.Request.SetTarget(target)
	c.Request.SetQuery(target)
	return c
}

// joinedHeaders returns the headers of the row with the lines of each header joined, and names in lower case.
func joinedHeaders(r *row) map[string]string {
	h := http.Header{}
	for _, line := range r.headers {
		h.Add(line.name, line.value)
	}
	headers := map[string]string{}
	for name, values := range h {
		separator := ","
		if name == "Cookie" {
			separator = "; "
		}
		headers[strings.ToLower(name)] = strings.Join(values, separator)
	}
	return headers
}

// repeatedHeaders returns the names of the headers with several lines, except for cookies.
func repeatedHeaders(r *row) (repeated []string) {
	h := http.Header{}
	for _, line := range r.headers {
		h.Add(line.name, line.value)
	}
	for name, values := range h {
		if len(values) > 1 && name != "Cookie" {
			repeated = append(repeated, strings.ToLower(name))
		}
	}
	return repeated
}

func claimsOf(t *testing.T, r *row) map[string]any {
	t.Helper()
	if r.claims == "" {
		return nil
	}
	var claims map[string]any
	decoder := json.NewDecoder(bytes.NewReader([]byte(r.claims)))
	decoder.UseNumber()
	if err := decoder.Decode(&claims); err != nil {
		t.Fatalf("line %d: %v", r.line, err)
	}
	return claims
}

// testHashKey returns the key with which the tests of this package hash secrets.
func testHashKey() *limiter.HashKey {
	key, err := limiter.NewHashKey([]byte("a key of at least thirty-two bytes"))
	if err != nil {
		panic(err)
	}
	return key
}
