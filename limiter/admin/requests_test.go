package admin_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/admin/adminapi"
	"github.com/weir-dev/weir/limiter/bypass"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

func TestBypassRequest_AcceptsItsBoundsAndNoMore(t *testing.T) {
	text := func(n int) string { return strings.Repeat("x", n) }
	for field, test := range map[string]struct {
		change func(r *adminapi.BypassRequest, over int)
	}{
		"name":       {func(r *adminapi.BypassRequest, over int) { r.Name = text(64 + over) }},
		"reason":     {func(r *adminapi.BypassRequest, over int) { r.Reason = text(1000 + over) }},
		"identifier": {func(r *adminapi.BypassRequest, over int) { r.Identifier = text(4096 + over) }},
		"seconds":    {func(r *adminapi.BypassRequest, over int) { r.Seconds = int64(1 - over) }},
	} {
		for over, isBad := range []bool{false, true} {
			b := &admin.Bypasses{Engine: newEngine(t, memstore.New(epoch), rule("shop/a")), List: bypass.NewList(epoch), Clock: epoch, Log: slog.New(slog.DiscardHandler)}
			r := &adminapi.BypassRequest{Policy: "shop/a", Identifier: "acme", Seconds: 60, Reason: "INC-1"}
			test.change(r, over)
			if _, bad := b.Create(admin.WithCaller(t.Context(), "tester"), r); (bad != nil) != isBad || bad != nil && (bad.Field != field || bad.Status != 400) {
				t.Errorf("%s, %d over its bound: %+v", field, over, bad)
			}
		}
	}
}

func TestBypasses_CreateANameAndTheCurrentSecond(t *testing.T) {
	now := epoch().Add(1500 * time.Millisecond)
	clock := func() time.Time { return now.In(time.FixedZone("east", 3600)) }
	b := &admin.Bypasses{Engine: newEngine(t, memstore.New(epoch), rule("shop/a")), List: bypass.NewList(clock), Clock: clock, Log: slog.New(slog.DiscardHandler)}
	ctx := admin.WithCaller(t.Context(), "tester")
	r := &adminapi.BypassRequest{Policy: "shop/a", Identifier: "acme", Seconds: 60, Reason: "INC-1"}
	got, bad := b.Create(ctx, r)
	if want := epoch().Add(time.Second); bad != nil || !regexp.MustCompile(`^bypass-[a-z2-7]{10}$`).MatchString(got.Name) || got.CreatedAt != want || got.ExpiresAt != want.Add(time.Minute) {
		t.Errorf("%+v %+v", got, bad)
	}
	earlier := epoch().Add(-10 * time.Second)
	r.CreatedAt = &earlier
	if got, bad := b.Create(ctx, r); bad != nil || got.CreatedAt != earlier || got.ExpiresAt != epoch().Add(50*time.Second) {
		t.Errorf("with a time of its own: %+v %+v", got, bad)
	}
}

func TestBypasses_RejectARate(t *testing.T) {
	r := rule("shop/a:1d")
	r.Rate = "1d"
	b := &admin.Bypasses{Engine: newEngine(t, memstore.New(epoch), r), List: bypass.NewList(epoch), Clock: epoch, Log: slog.New(slog.DiscardHandler)}
	const want = `"shop/a:1d" is one rate of a policy, and a block is for all of its rates: use policy "shop/a"`
	_, bad := b.Create(t.Context(), &adminapi.BypassRequest{Policy: "shop/a:1d", Blocks: true, Identifier: "acme", Seconds: 60, Reason: "INC-1"})
	if bad == nil || bad.Field != "policy" || bad.Detail != want {
		t.Errorf("%+v, want %s", bad, want)
	}
}

func TestBypasses_RejectWhatIsNoAddress(t *testing.T) {
	r := rule("shop/ip")
	r.Identifier = rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id", Address: true}
	var log bytes.Buffer
	b := &admin.Bypasses{Engine: newEngine(t, memstore.New(epoch), r), List: bypass.NewList(epoch), Clock: epoch, Log: slog.New(slog.NewTextHandler(&log, nil))}
	request := &adminapi.BypassRequest{Policy: "shop/ip", Identifier: "acme", Seconds: 60, Reason: "INC-1"}
	if _, bad := b.Create(t.Context(), request); bad == nil || bad.Field != "identifier" || bad.Detail != `identifier "acme" is no address, and policy shop/ip counts by address` {
		t.Errorf("%+v", bad)
	}
	request.Identifier = "2001:DB8:0::1"
	if got, bad := b.Create(admin.WithCaller(t.Context(), "tester"), request); bad != nil || got.Identifier != "2001:db8::/64" {
		t.Errorf("%+v %+v", got, bad)
	}
}

func TestResetRequest_AcceptsItsBoundsAndNoMore(t *testing.T) {
	for field, change := range map[string]func(r *adminapi.ResetRequest, over int){
		"reason": func(r *adminapi.ResetRequest, over int) { r.Reason = strings.Repeat("x", 1000+over) },
		"id":     func(r *adminapi.ResetRequest, over int) { r.ID = strings.Repeat("x", 64+over) },
	} {
		for over, isBad := range []bool{false, true} {
			l := newCounters(t, memstore.New(epoch), rule("shop/a"))
			r := &adminapi.ResetRequest{Policy: "shop/a", Identifier: "acme", Reason: "INC-1"}
			change(r, over)
			if _, bad := l.Reset(t.Context(), r); (bad != nil) != isBad || bad != nil && (bad.Field != field || bad.Status != 400) {
				t.Errorf("%s, %d over its bound: %+v", field, over, bad)
			}
		}
	}
}

// changes are the requests that change something.
func changes() map[string]string {
	return map[string]string{
		"/admin/v1/counters/reset": `{"policy":"shop/a","identifier":"acme","reason":"INC-1"}`,
		"/admin/v1/bypasses":       `{"policy":"shop/a","identifier":"acme","seconds":60,"reason":"INC-1","name":"one"}`,
		"/admin/v1/bypasses/end":   `{"policy":"shop/a","name":"one"}`,
	}
}

func TestHandler_ChangesNothingForUnknownCallers(t *testing.T) {
	e := newEndpoint(t)
	for path, body := range changes() {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
		if w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") != "Bearer" || !strings.Contains(w.Body.String(), "the caller is not authenticated") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if e.log.Len() > 0 {
		t.Errorf("log: %s", &e.log)
	}
}

func TestHandler_ReportsBodiesThatCannotBeRead(t *testing.T) {
	e := newEndpoint(t)
	paths := []string{"PUT /admin/v1/log-level", "POST /admin/v1/explain"}
	for path := range changes() {
		paths = append(paths, "POST "+path)
	}
	for _, line := range paths {
		method, path, _ := strings.Cut(line, " ")
		for status, body := range map[int]io.Reader{
			http.StatusRequestEntityTooLarge: strings.NewReader(strings.Repeat(" ", 8<<20+1)), http.StatusBadRequest: iotest.ErrReader(errors.New("reset")),
		} {
			r := httptest.NewRequestWithContext(admin.WithCaller(t.Context(), "tester"), method, path, body)
			w := httptest.NewRecorder()
			e.ServeHTTP(w, r)
			if w.Code != status || !strings.Contains(w.Body.String(), `"field":"body"`) || strings.Count(w.Body.String(), `"status"`) != 1 {
				t.Errorf("%s: %d %s", line, w.Code, w.Body)
			}
		}
	}
}

func TestHandler_AcceptsTheLargestBody(t *testing.T) {
	body := `{"level":"debug"}`
	if w := call(t, newEndpoint(t), http.MethodPut, "/admin/v1/log-level", body+strings.Repeat(" ", 8<<20-len(body))); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestHandler_AnswersWithoutRules(t *testing.T) {
	e := engine.New(memstore.New(epoch), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	log := slog.New(slog.DiscardHandler)
	h := admin.NewHandler(admin.Options{
		Explainer: &admin.Explainer{Engine: e}, Counters: &admin.Counters{Engine: e, Log: log}, Bypasses: &admin.Bypasses{Engine: e, List: bypass.NewList(epoch), Clock: epoch, Log: log},
	})
	for path, body := range changes() {
		if w := call(t, h, http.MethodPost, path, body); path != "/admin/v1/bypasses/end" && (w.Code != 503 || !strings.Contains(w.Body.String(), "no rules are loaded yet")) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for _, path := range []string{"/admin/v1/rules", "/admin/v1/counters?policy=shop/a"} {
		if w := call(t, h, http.MethodGet, path, ""); w.Code != 503 || !strings.Contains(w.Body.String(), "no rules are loaded yet") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := call(t, h, http.MethodDelete, "/admin/v1/rules?x=1", ""); w.Code != 404 || !strings.Contains(w.Body.String(), `\"DELETE\" \"/admin/v1/rules\" does not exist`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestHandler_NamesTheTypesOfItsAnswers(t *testing.T) {
	c := newCounting(t)
	if w := call(t, c, http.MethodGet, "/admin/v1/rules", ""); w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%v", w.Header())
	}
	ctx, cancel := context.WithCancel(admin.WithCaller(t.Context(), "tester"))
	cancel()
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/admin/v1/denials", http.NoBody))
	if w.Header().Get("Content-Type") != "application/x-ndjson" || w.Body.String() != "{}\n" {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
}

// A policy that comes first in the list must not hide the counters of others.
func TestCounters_OfAllPoliciesIncludeThoseAfterACompactOne(t *testing.T) {
	compact := longRule("shop/a", limiter.FixedWindow)
	compact.Compact, compact.PerEndpoint = true, true
	l := newCounters(t, memstore.New(time.Now), compact, longRule("shop/b", limiter.FixedWindow))
	l.spend(t, 1, "acme", "/")
	if got := l.all(t, admin.CounterQuery{Identifier: "acme"}); !slices.Equal(got, []string{"shop/b acme 1/2 false"}) {
		t.Errorf("%q", got)
	}
}

func TestPeerContext_NamesTheUserOfAUnixSocket(t *testing.T) {
	for network, want := range map[string]string{"unix": `^uid \d+, pid \d+$`, "tcp": `^$`} {
		address := "127.0.0.1:0"
		if network == "unix" {
			address = filepath.Join(t.TempDir(), "s")
		}
		var config net.ListenConfig
		listener, err := config.Listen(t.Context(), network, address)
		if err != nil {
			t.Fatal(err)
		}
		var dialer net.Dialer
		client, err := dialer.DialContext(t.Context(), network, listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		served, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if got := admin.Caller(admin.PeerContext(t.Context(), served)); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%s: caller %q", network, got)
		}
		for _, c := range []io.Closer{served, client, listener} {
			_ = c.Close()
		}
	}
}

func TestMergeTops_AddsEachKindOfDecision(t *testing.T) {
	of := func(n int64) admin.Top {
		return admin.Top{Policies: []admin.PolicyDecisions{{Policy: "shop/a", Allowed: n, Denied: 2 * n, Uncharged: 3 * n, Unlimited: 4 * n}}}
	}
	if got, want := admin.MergeTops(1, of(1), of(10)).Policies, of(11).Policies; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// The series of a policy that is created again begin at 0.
func TestMergeTops_LeavesOutNegativeCounts(t *testing.T) {
	for i := range 4 {
		counts := [4]int64{-5, -5, -5, -5}
		counts[i] = 7
		p := admin.PolicyDecisions{Policy: "shop/a", Allowed: counts[0], Denied: counts[1], Uncharged: counts[2], Unlimited: counts[3]}
		want := admin.PolicyDecisions{Policy: "shop/a", Allowed: max(0, counts[0]), Denied: max(0, counts[1]), Uncharged: max(0, counts[2]), Unlimited: max(0, counts[3])}
		if got := admin.MergeTops(1, admin.Top{Policies: []admin.PolicyDecisions{p}}).Policies; !slices.Equal(got, []admin.PolicyDecisions{want}) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

func TestMergeTops_SortsPolicies(t *testing.T) {
	list := []admin.PolicyDecisions{
		{Policy: "e", Denied: 1}, {Policy: "c", Denied: 2, Allowed: 1}, {Policy: "b", Denied: 2, Allowed: 2}, {Policy: "d", Denied: 2, Allowed: 1}, {Policy: "a", Denied: 3},
	}
	var names []string
	for _, p := range admin.MergeTops(1, admin.Top{Policies: list}).Policies {
		names = append(names, p.Policy)
	}
	if want := []string{"a", "b", "c", "d", "e"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// repeating lists each key twice, as SCAN can, with a key of another program.
type repeating struct{ store }

func (s repeating) Scan(ctx context.Context, keys limiter.KeyRange, cursor string, n int) ([]string, string, error) {
	found, next, err := s.store.Scan(ctx, keys, cursor, n)
	return append(append(found, "weir:other"), found...), next, err
}

func TestCounters_ListEachKeyOnce(t *testing.T) {
	l := newCounters(t, repeating{memstore.New(time.Now)}, longRule("shop/a", limiter.FixedWindow))
	l.spend(t, 1, "acme", "/")
	if got := l.all(t, admin.CounterQuery{Policy: "shop/a"}); !slices.Equal(got, []string{"shop/a acme 1/2 false"}) {
		t.Errorf("%q", got)
	}
}

func TestCounters_OfAnIdentifierWithoutLimitAreNotOver(t *testing.T) {
	r := longRule("shop/a", limiter.FixedWindow)
	l := newCounters(t, memstore.New(time.Now), r)
	l.spend(t, 3, "acme", "/")
	r.Tiers = []rules.Tier{{Name: "staff", When: rules.When{Identifiers: []string{"acme"}}, Unlimited: true}}
	x, err := matching.NewIndex(rules.Set{Rules: []rules.Rule{r}}, "sha256:2", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	l.Engine.Swap(x)
	list, bad := l.List(t.Context(), admin.CounterQuery{Policy: "shop/a", Identifier: "acme"})
	if bad != nil || len(list.Counters) != 1 || list.Counters[0].Over || list.Counters[0].Limit != 3 || list.Counters[0].Used != 3 || list.Counters[0].Tier != "staff" {
		t.Errorf("%+v %+v", list, bad)
	}
}

// A customer with a plan that a header names is not over its limit, and a customer without it is. The identifier does not show which one it is.
func TestCounters_StateEachTierThatIsPossible(t *testing.T) {
	r := longRule("shop/a", limiter.FixedWindow)
	r.Tiers = []rules.Tier{
		{Name: "gold", When: rules.When{Identifiers: []string{"acme"}}, Units: 10},
		{Name: "paid", When: rules.When{Header: &rules.HeaderMatch{Type: rules.HeaderPresent, Name: "x-plan"}}, Units: 50},
		{Name: "staff", When: rules.When{Groups: []string{"staff"}}, Unlimited: true},
	}
	l := newCounters(t, memstore.New(time.Now), r)
	l.spend(t, 4, "acme", "/")
	l.spend(t, 3, "globex", "/")
	l.spend(t, 1, "initech", "/")
	list, bad := l.List(t.Context(), admin.CounterQuery{Policy: "shop/a", Identifier: "acme", Over: false})
	if bad != nil || len(list.Counters) != 1 || list.Counters[0].Tier != "gold" || list.Counters[0].Limit != 10 || list.Counters[0].Remaining != 6 ||
		list.Counters[0].Over || list.Counters[0].Tiers != nil {
		t.Errorf("acme: %+v %+v", list, bad)
	}
	list, bad = l.List(t.Context(), admin.CounterQuery{Policy: "shop/a", Over: true}) // only globex can be over
	want := []admin.CounterTier{
		{Tier: "paid", Limit: 50, Remaining: 47}, {Tier: "staff", Unlimited: true}, {Limit: 3, Over: true},
	}
	if bad != nil || len(list.Counters) != 1 || list.Counters[0].Identifier != "globex" || list.Counters[0].Over || list.Counters[0].Tier != "" ||
		!slices.Equal(list.Counters[0].Tiers, want) {
		t.Errorf("over: %+v %+v, want globex with %+v", list, bad, want)
	}
}

// A limit of 0 has no counter. What was spent before an edit remains for the tiers that count.
func TestCounters_OfALimitOf0(t *testing.T) {
	for _, algorithm := range limiter.Algorithms() {
		r := longRule("shop/a", algorithm)
		l := newCounters(t, memstore.New(time.Now), r)
		l.spend(t, 1, "acme", "/")
		swap := func(r rules.Rule) []admin.Counter {
			x, err := matching.NewIndex(rules.Set{Rules: []rules.Rule{r}}, "sha256:2", "weir:")
			if err != nil {
				t.Fatal(err)
			}
			l.Engine.Swap(x)
			list, bad := l.List(t.Context(), admin.CounterQuery{Policy: "shop/a", Identifier: "acme"})
			if bad != nil {
				t.Fatal(bad)
			}
			return list.Counters
		}
		r.Units, r.Burst = 0, 0
		if list := swap(r); len(list) != 0 {
			t.Errorf("%s: %+v", algorithm, list)
		}
		r.Tiers = []rules.Tier{{Name: "plan", When: rules.When{Groups: []string{"plan"}}, Units: 9}}
		list := swap(r)
		if len(list) != 1 || list[0].Used != 1 || list[0].Over != algorithm.Traits().Queues || len(list[0].Tiers) != 2 {
			t.Fatalf("%s: %+v", algorithm, list)
		}
		if own := list[0].Tiers[1]; own != (admin.CounterTier{Over: true}) || list[0].Tiers[0].Limit != 9 {
			t.Errorf("%s: tiers %+v", algorithm, list[0].Tiers)
		}
	}
}

// A bucket drains at the rate of its limit: under a larger one, it would be empty too early.
func TestCounters_OfABucketAreThoseOfItsOwnTier(t *testing.T) {
	for _, algorithm := range []limiter.Algorithm{limiter.TokenBucket, limiter.LeakyBucket} {
		r, now := longRule("shop/a", algorithm), epoch()
		r.Tiers = []rules.Tier{{Name: "plan", When: rules.When{Header: &rules.HeaderMatch{Type: rules.HeaderPresent, Name: "x-plan"}}, Units: 50, Burst: 40}}
		l := newCounters(t, memstore.New(func() time.Time { return now }), r)
		l.spend(t, 3, "acme", "/")
		now = now.Add(time.Duration(r.WindowSeconds) * time.Second / 3)
		list, bad := l.List(t.Context(), admin.CounterQuery{Policy: "shop/a", Identifier: "acme"})
		if bad != nil || len(list.Counters) != 1 || list.Counters[0].Used != 2 {
			t.Fatalf("%s: %+v, %+v", algorithm, list, bad)
		}
		plan, own := list.Counters[0].Tiers[0], list.Counters[0].Tiers[1]
		if plan.Tier != "plan" || plan.Remaining < 40 || own.Tier != "" || own.Remaining != 1 || own.Over {
			t.Errorf("%s: %+v", algorithm, list.Counters[0])
		}
	}
}

func TestDenials_AreSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounting(t)
		ctx, cancel := context.WithCancel(admin.WithCaller(t.Context(), "tester"))
		w := httptest.NewRecorder()
		go c.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/admin/v1/denials?policy=shop/tenant", http.NoBody))
		synctest.Wait()
		c.check(t, 3, "acme")
		time.Sleep(25 * time.Second)
		cancel()
		synctest.Wait()
		if lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n"); len(lines) != 4 || strings.Count(w.Body.String(), `"denial"`) != 1 || lines[3] != "{}" {
			t.Errorf("want the first line, a denial, and one line each ten seconds:\n%s", w.Body)
		}
	})
}

func TestHandler_AnswersWithTheNewLogLevel(t *testing.T) {
	if w := call(t, newEndpoint(t), http.MethodPut, "/admin/v1/log-level", `{"level":"warn"}`); w.Body.String() != "{\"level\":\"WARN\"}\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
