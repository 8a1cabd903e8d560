package server

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/overload"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/tracing"
)

// counted returns the series of weir_requests_total that are not 0, sorted, and the number of all.
func counted(t *testing.T, registry *prometheus.Registry) (lines []string, series int) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "weir_requests_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			series++
			if n := m.GetCounter().GetValue(); n > 0 {
				lines = append(lines, fmt.Sprint(m.GetLabel()[1].GetValue(), " ", m.GetLabel()[0].GetValue(), " ", n)) // sorted by name: code, endpoint
			}
		}
	}
	slices.Sort(lines)
	return lines, series
}

// canceledStore is a store whose callers close their connections.
type canceledStore struct{ limiter.Store }

func (canceledStore) Spend(context.Context, []limiter.Charge) ([]limiter.Decision, error) {
	return nil, fmt.Errorf("spend: %w", context.Canceled)
}

func TestRequests_AreCountedByTheStatusOfTheResponse(t *testing.T) {
	without := engine.New(atNoon(), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry())) // has no rules
	denied := tenantRule("a", 3)
	denied.Cost = &rules.Cost{Value: 4}
	payment := denied
	payment.Denial = &rules.Denial{Status: http.StatusPaymentRequired}
	of := func(store limiter.Store, list ...rules.Rule) *engine.Engine { return newEngine(t, store, list...) }
	check := func(h http.Handler) { post(h, acme) }
	auth := func(h http.Handler) { call(h, forwardedOfAcme()) }
	asked := func(query string) func(http.Handler) {
		return func(h http.Handler) {
			r := forwardedOfAcme()
			r.URL.RawQuery = query
			call(h, r)
		}
	}
	for name, test := range map[string]struct {
		engine *engine.Engine
		ask    func(http.Handler)
		want   string
	}{
		"allowed at check":              {of(atNoon(), tenantRule("a", 3)), check, "check 200 1"},
		"allowed at auth":               {of(atNoon(), tenantRule("a", 3)), auth, "auth 200 1"},
		"denied at check":               {of(atNoon(), denied), check, "check 429 1"},
		"denied at auth":                {of(atNoon(), denied), auth, "auth 429 1"},
		"denied as the gateway asks":    {of(atNoon(), denied), asked("deny=403"), "auth 403 1"},
		"denied as the policy asks":     {of(atNoon(), payment), auth, "auth 402 1"},
		"no JSON":                       {of(atNoon()), func(h http.Handler) { post(h, "{") }, "check 400 1"},
		"GET":                           {of(atNoon()), func(h http.Handler) { call(h, httptest.NewRequest(http.MethodGet, "/v1/check", http.NoBody)) }, "check 405 1"},
		"an invalid parameter":          {of(atNoon()), asked("deny=500"), "auth 400 1"},
		"an invalid domain":             {of(atNoon()), func(h http.Handler) { call(h, authRequest("/v1/auth/"+strings.Repeat("a", 1000), nil)) }, "auth 400 1"},
		"no rules at check":             {without, check, "check 503 1"},
		"no rules at auth":              {without, auth, "auth 503 1"},
		"overload at check":             {of(overloadedStore{}, tenantRule("a", 3)), check, "check 503 1"},
		"overload at auth":              {of(overloadedStore{}, tenantRule("a", 3)), auth, "auth 503 1"},
		"a closed connection, at check": {of(canceledStore{}, tenantRule("a", 3)), check, "check 499 1"},
		"a closed connection, at auth":  {of(canceledStore{}, tenantRule("a", 3)), auth, "auth 499 1"},
		"another path":                  {of(atNoon()), func(h http.Handler) { call(h, authRequest("/v2", nil)) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewPedanticRegistry()
			test.ask(NewHandler(Options{Engine: test.engine, Style: reply.RateLimitHeaders, Metrics: NewMetrics(registry), Log: discard()}))
			if got, _ := counted(t, registry); strings.Join(got, ", ") != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func TestRequests_ShedByTheGateAreCounted(t *testing.T) {
	registry, gate := prometheus.NewPedanticRegistry(), overload.NewGate(1, discard())
	for gate.Enter() { // until it is full
	}
	h := NewHandler(Options{
		Engine: newEngine(t, atNoon(), tenantRule("a", 3)), Style: reply.RateLimitHeaders, Metrics: NewMetrics(registry), Log: discard(), Gate: gate,
	})
	post(h, acme)
	call(h, forwardedOfAcme())
	if got, _ := counted(t, registry); strings.Join(got, ", ") != "auth 503 1, check 503 1" {
		t.Errorf("%q", got)
	}
}

// Codes come from responses. Whatever they are, they make no series.
func TestRequests_HaveSeriesOfKnownCodesOnly(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m := NewMetrics(registry)
	overHTTP, overGRPC := m.HTTPRequests("check"), m.GRPCRequests("rls")
	if got, series := counted(t, registry); len(got) != 0 || series != 12+10 {
		t.Errorf("%d series, and %q before the first request, want 22 and none", series, got)
	}
	for status := -1; status < 1000; status++ {
		overHTTP.Count(status)
	}
	for code := range uint32(1000) {
		overGRPC.Count(code)
	}
	overGRPC.Count(1<<32 - 1)
	overGRPC.CountOverLimit()
	got, series := counted(t, registry)
	want := []string{
		"check 200 1", "check 400 1", "check 401 1", "check 402 1", "check 403 1", "check 404 1", "check 405 1", "check 411 1", "check 429 1",
		"check 499 1", "check 503 1", "check other 990",
		"rls CANCELLED 1", "rls DEADLINE_EXCEEDED 1", "rls INTERNAL 1", "rls INVALID_ARGUMENT 1", "rls OK 1", "rls OVER_LIMIT 1",
		"rls PERMISSION_DENIED 1", "rls RESOURCE_EXHAUSTED 1", "rls UNAVAILABLE 1", "rls other 993",
	}
	if series != len(want) || !slices.Equal(got, want) {
		t.Errorf("%d series\n%s\nwant %d\n%s", series, strings.Join(got, "\n"), len(want), strings.Join(want, "\n"))
	}
}

func TestRequests_CountWithoutAnAllocation(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	overHTTP, overGRPC := m.HTTPRequests("check"), m.GRPCRequests("rls")
	if n := testing.AllocsPerRun(100, func() {
		overHTTP.Count(http.StatusTooManyRequests)
		overHTTP.Count(0)
		overGRPC.Count(0)
		overGRPC.CountOverLimit()
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkHTTPRequests_Count(b *testing.B) {
	r := NewMetrics(prometheus.NewRegistry()).HTTPRequests("check")
	for b.Loop() {
		r.Count(http.StatusOK)
	}
}

func BenchmarkGRPCRequests_Count(b *testing.B) {
	r := NewMetrics(prometheus.NewRegistry()).GRPCRequests("rls")
	for b.Loop() {
		r.Count(0)
	}
}

// A caller that closes its connection is no failure of the limiter, in a trace as in the counts.
func TestRequests_ASpanHasTheCountedStatus(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer := tracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)), tracing.Options{SampleOneIn: 1, MaxPerSecond: 10})
	h := NewHandler(Options{
		Engine: newEngine(t, canceledStore{}, tenantRule("a", 3)), Style: reply.RateLimitHeaders, Metrics: NewMetrics(prometheus.NewRegistry()),
		Log: discard(), Tracer: tracer,
	})
	post(h, acme)
	call(h, forwardedOfAcme())
	statuses := 0
	for _, s := range recorder.Ended() {
		for _, a := range s.Attributes() {
			if a.Key != "http.response.status_code" {
				continue
			}
			if statuses++; a.Value.AsInt64() != 499 || s.Status().Code != codes.Unset {
				t.Errorf("%s: status %d, %v, want 499 and no error", s.Name(), a.Value.AsInt64(), s.Status())
			}
		}
	}
	if statuses != 2 {
		t.Errorf("%d spans with a status, want 2", statuses)
	}
}
