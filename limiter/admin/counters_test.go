package admin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/admin/adminapi"
	"github.com/weir-dev/weir/limiter/bypass"
	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	chain "github.com/weir-dev/weir/limiter/store"
	"github.com/weir-dev/weir/test/fixture"
)

// store is one of the two stores.
type store interface {
	limiter.Store
	admin.Scanner
}

// onEachStore runs test with counters in memory and in Redis.
func onEachStore(t *testing.T, test func(t *testing.T, s store)) {
	t.Run("memory", func(t *testing.T) { test(t, memstore.New(time.Now)) })
	t.Run("Redis", func(t *testing.T) {
		options, err := redisclient.ParseURL(fixture.Redis(t).URL())
		if err != nil {
			t.Fatal(err)
		}
		options.Timeout = 10 * time.Second
		client, err := redisclient.New(options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		test(t, redisstore.NewStore(client, 10*time.Second))
	})
}

type limiterWithCounters struct {
	*admin.Counters

	log bytes.Buffer
	key *limiter.HashKey
}

func newCounters(t *testing.T, s store, list ...rules.Rule) *limiterWithCounters {
	t.Helper()
	l := &limiterWithCounters{key: limiter.RandomHashKey()}
	set := rules.Set{Rules: list, HashKey: l.key.ID()}
	x, err := matching.NewIndex(set, "sha256:1", "weir:", matching.WithHashKey(l.key))
	if err != nil {
		t.Fatal(err)
	}
	e := layeredEngine(s, chain.Layers{Denials: denials.NewCache(100, time.Now)})
	e.Swap(x)
	l.Counters = &admin.Counters{Engine: e, Scanner: s, Log: slog.New(slog.NewTextHandler(&l.log, nil))}
	return l
}

// spend sends n requests of a tenant and returns how many are allowed.
func (l *limiterWithCounters) spend(t *testing.T, n int, tenant, path string) (allowed int) {
	t.Helper()
	for range n {
		headers := map[string]string{"x-tenant-id": tenant}
		if tenant == "" {
			headers = nil
		}
		a, err := l.Engine.Check(t.Context(), &engine.Check{Cost: 1, Request: rules.Request{Domain: "shop", Path: path, Headers: headers}})
		if err != nil {
			t.Fatal(err)
		}
		if a.Allowed {
			allowed++
		}
	}
	return allowed
}

// all lists all pages.
func (l *limiterWithCounters) all(t *testing.T, q admin.CounterQuery) (lines []string) {
	t.Helper()
	for {
		page, bad := l.List(t.Context(), q)
		if bad != nil {
			t.Fatalf("%+v", bad)
		}
		for _, c := range page.Counters {
			lines = append(lines, fmt.Sprintf("%s %s%s %d/%d %v", c.Policy, c.Identifier, c.Endpoint, c.Used, c.Remaining, c.Over))
		}
		if q.Continue = page.Continue; q.Continue == "" {
			slices.Sort(lines)
			return lines
		}
	}
}

func longRule(policy string, algorithm limiter.Algorithm) rules.Rule {
	r := rule(policy)
	r.Algorithm, r.Units, r.WindowSeconds = algorithm, 3, 86400*20
	if algorithm == limiter.LeakyBucket {
		r.Burst = 2 // and the unit that leaves the queue
	}
	return r
}

func TestCounters_AllAlgorithms(t *testing.T) {
	onEachStore(t, func(t *testing.T, s store) {
		for _, algorithm := range limiter.Algorithms() {
			policy := "shop/" + strings.ToLower(string(algorithm))
			l := newCounters(t, s, longRule(policy, algorithm))
			l.spend(t, 4, "acme", "/")
			l.spend(t, 1, "other", "/")
			want := []string{policy + " acme 3/0 true", policy + " other 1/2 false"}
			if got := l.all(t, admin.CounterQuery{Policy: policy}); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", algorithm, got, want)
			}
			if got := l.all(t, admin.CounterQuery{Policy: policy, Over: true}); !slices.Equal(got, want[:1]) {
				t.Errorf("%s over: %q", algorithm, got)
			}
			for _, dryRun := range []bool{true, false} {
				result, bad := l.Reset(t.Context(), &adminapi.ResetRequest{Policy: policy, Identifier: "acme", Reason: "test", DryRun: dryRun})
				if bad != nil || len(result.Counters) != 1 || result.Counters[0].Used != 3 {
					t.Fatalf("%s: %+v %+v", algorithm, result, bad)
				}
				if allowed := l.spend(t, 4, "acme", "/"); allowed != map[bool]int{true: 0, false: 3}[dryRun] {
					t.Errorf("%s: %d requests after a reset, dry run %v", algorithm, allowed, dryRun)
				}
			}
		}
	})
}

func TestCounters_FindIdentifiersAndEndpoints(t *testing.T) {
	onEachStore(t, func(t *testing.T, s store) {
		perPath, tiered := longRule("shop/a-paths", limiter.FixedWindow), longRule("shop/b-tiers", limiter.FixedWindow)
		perPath.PerEndpoint = true
		tiered.Tiers = []rules.Tier{
			{Name: "gold", When: rules.When{Identifiers: []string{"acme"}}, Units: 10},
			{Name: "plan", When: rules.When{Header: &rules.HeaderMatch{Type: rules.HeaderPresent, Name: "x-plan"}}, Units: 50},
		}
		l := newCounters(t, s, perPath, tiered)
		l.spend(t, 1, "acme", "/x:1")
		l.spend(t, 1, "acme", "/y")
		l.spend(t, 1, "ac[me", "/y")
		l.spend(t, 1, "b*", "/y")
		l.spend(t, 1, "", "/y")
		for _, test := range []struct {
			q    admin.CounterQuery
			want []string
		}{
			{admin.CounterQuery{Identifier: "acme"}, []string{"shop/a-paths acme/x:1 1/2 false", "shop/a-paths acme/y 1/2 false", "shop/b-tiers acme 2/8 false"}},
			{admin.CounterQuery{Identifier: "acme", Policy: "shop/b-tiers"}, []string{"shop/b-tiers acme 2/8 false"}},
			{admin.CounterQuery{Identifier: "-", Policy: "shop/b-tiers"}, []string{"shop/b-tiers - 1/49 false"}},
			{admin.CounterQuery{Identifier: "unseen"}, nil},
			{admin.CounterQuery{Prefix: "ac", Policy: "shop/b-tiers"}, []string{"shop/b-tiers ac[me 1/49 false", "shop/b-tiers acme 2/8 false"}},
			{admin.CounterQuery{Prefix: "b*", Policy: "shop/b-tiers"}, []string{"shop/b-tiers b* 1/49 false"}},
			{admin.CounterQuery{Prefix: "*", Policy: "shop/b-tiers"}, nil},
		} {
			if got := l.all(t, test.q); !slices.Equal(got, test.want) {
				t.Errorf("%+v: %q, want %q", test.q, got, test.want)
			}
		}
		result, bad := l.Reset(t.Context(), &adminapi.ResetRequest{AllPolicies: true, Identifier: "acme", Reason: "test"})
		if bad != nil || len(result.Counters) != 3 || len(l.all(t, admin.CounterQuery{Identifier: "acme"})) != 0 {
			t.Errorf("%+v %+v", result, bad)
		}
		if got := l.all(t, admin.CounterQuery{Policy: "shop/b-tiers"}); len(got) != 3 {
			t.Errorf("a reset of one identifier leaves %q", got)
		}
	})
}

func TestCounters_PagesListEachCounter(t *testing.T) {
	onEachStore(t, func(t *testing.T, s store) {
		l := newCounters(t, s, longRule("shop/a", limiter.FixedWindow))
		const n = 3000
		for i := range n {
			l.spend(t, 1, fmt.Sprintf("t%d", i), "/")
		}
		pages, seen, q := 0, map[string]bool{}, admin.CounterQuery{Policy: "shop/a", Limit: 1}
		for {
			page, bad := l.List(t.Context(), q)
			if bad != nil {
				t.Fatalf("%+v", bad)
			}
			for _, c := range page.Counters {
				seen[c.Identifier] = true
			}
			pages++
			if q.Continue = page.Continue; q.Continue == "" {
				break
			}
		}
		if len(seen) != n || pages < 2 {
			t.Errorf("%d of %d counters on %d pages", len(seen), n, pages)
		}
	})
}

func TestCounters_KeepSecretsHashed(t *testing.T) {
	r := longRule("shop/key", limiter.FixedWindow)
	r.Identifier.Secret = true
	l := newCounters(t, memstore.New(time.Now), r)
	l.spend(t, 1, "s3cret", "/")
	hash := l.key.Hash("s3cret")
	for _, given := range []string{"s3cret", "hash:" + hash} {
		if got := l.all(t, admin.CounterQuery{Identifier: given}); !slices.Equal(got, []string{"shop/key " + hash + " 1/2 false"}) {
			t.Errorf("%s: %q", given, got)
		}
		if list, _ := l.List(t.Context(), admin.CounterQuery{Identifier: given}); len(list.Counters) != 1 || !list.Counters[0].Hashed {
			t.Errorf("%s: %+v, want a hashed identifier", given, list)
		}
	}
	if _, bad := l.Reset(t.Context(), &adminapi.ResetRequest{AllPolicies: true, Identifier: "s3cret", Reason: "x"}); bad != nil {
		t.Fatal(bad)
	}
	if log := l.log.String(); strings.Contains(log, "s3cret") || !strings.Contains(log, hash) {
		t.Errorf("log: %s", log)
	}
}

// Their names are not in Redis.
func TestCounters_CompactCountersAreFoundByIdentifierOnly(t *testing.T) {
	onEachStore(t, func(t *testing.T, s store) {
		compact := longRule("shop/compact", limiter.FixedWindow)
		compact.Compact = true
		l := newCounters(t, s, compact)
		l.spend(t, 2, "acme", "/")
		list, bad := l.List(t.Context(), admin.CounterQuery{Policy: "shop/compact", Identifier: "acme"})
		if bad != nil || len(list.Counters) != 1 || list.Counters[0].Used != 2 {
			t.Errorf("counters of acme: %+v, %+v; want 2 units used", list, bad)
		}
		if list, bad := l.List(t.Context(), admin.CounterQuery{Policy: "shop/compact"}); bad == nil || !strings.Contains(bad.Detail, "name an identifier") {
			t.Errorf("without an identifier: %+v, %+v; want a problem", list, bad)
		}
	})
}

// keyNames records the names of the keys that the store is called with.
type keyNames struct {
	store

	names strings.Builder
}

func (k *keyNames) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	for i := range charges {
		k.names.WriteString(charges[i].Key + "\n")
	}
	return k.store.Peek(ctx, charges)
}

func (k *keyNames) Reset(ctx context.Context, keys []string, id string) error {
	k.names.WriteString(strings.Join(keys, "\n"))
	return k.store.Reset(ctx, keys, id)
}

func (k *keyNames) Scan(ctx context.Context, keys limiter.KeyRange, cursor string, n int) ([]string, string, error) {
	k.names.WriteString(keys.Prefix)
	return k.store.Scan(ctx, keys, cursor, n)
}

func TestCounters_SendNoAPIKeyToTheStore(t *testing.T) {
	secret, plain, perPath := longRule("shop/m-key", limiter.FixedWindow), longRule("shop/a", limiter.FixedWindow), longRule("shop/paths", limiter.FixedWindow)
	secret.Identifier.Secret, perPath.PerEndpoint = true, true
	names := &keyNames{store: memstore.New(time.Now)}
	l := newCounters(t, names, plain, secret, perPath)
	for _, key := range []string{"s3cret", strings.Repeat("ab", 16)} { // one looks like a hash
		list, bad := l.List(t.Context(), admin.CounterQuery{Identifier: key})
		result, badReset := l.Reset(t.Context(), &adminapi.ResetRequest{AllPolicies: true, Identifier: key, Reason: "x"})
		if bad != nil || badReset != nil {
			t.Fatal(bad, badReset)
		}
		if got := names.names.String() + l.log.String(); strings.Contains(got, key) || !strings.Contains(got, l.key.Hash(key)) {
			t.Errorf("key names and log: %s", got)
		}
		if want := []string{"shop/a", "shop/paths"}; !slices.Equal(list.Skipped, want) || !slices.Equal(result.Skipped, want) {
			t.Errorf("left out %q and %q, want %q", list.Skipped, result.Skipped, want)
		}
	}
	l.spend(t, 1, "acme", "/")
	if got := l.all(t, admin.CounterQuery{Identifier: "acme", Policy: "shop/a"}); !slices.Equal(got, []string{"shop/a acme 1/2 false"}) {
		t.Errorf("a named policy: %q", got)
	}
}

func TestCounters_ResetWhatIsListed(t *testing.T) {
	l := newCounters(t, memstore.New(time.Now), longRule("shop/a", limiter.FixedWindow))
	for _, length := range []int{600, 2000} {
		l.spend(t, 1, strings.Repeat("x", length), "/")
		list, bad := l.List(t.Context(), admin.CounterQuery{Policy: "shop/a"})
		if bad != nil || len(list.Counters) != 1 {
			t.Fatalf("%+v %+v", list, bad)
		}
		result, bad := l.Reset(t.Context(), &adminapi.ResetRequest{Policy: "shop/a", Identifier: list.Counters[0].Identifier, Reason: "x"})
		if bad != nil || len(result.Counters) != 1 {
			t.Errorf("%s: %+v %+v", list.Counters[0].Identifier, result, bad)
		}
	}
}

func TestCounters_FindAddressesInAnySpelling(t *testing.T) {
	r := longRule("shop/ip", limiter.FixedWindow)
	r.Identifier = rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id", Address: true}
	client := longRule("shop/ip-client", limiter.FixedWindow)
	client.Identifier = rules.Identifier{From: rules.FromClientIP}
	l := newCounters(t, memstore.New(time.Now), r, client)
	l.spend(t, 1, "2001:db8::7", "/")
	for _, given := range []string{"2001:DB8:0::1", "2001:db8::/64"} {
		if got := l.all(t, admin.CounterQuery{Identifier: given}); !slices.Equal(got, []string{"shop/ip 2001:db8::/64 1/2 false"}) {
			t.Errorf("%s: %q", given, got)
		}
	}
	if got := l.all(t, admin.CounterQuery{Identifier: "acme"}); got != nil {
		t.Errorf("what is no address has the counters %q", got)
	}
	l.spend(t, 1, "10.9.0.0/24", "/") // a masked address
	if got := l.all(t, admin.CounterQuery{Policy: "shop/ip", Identifier: "10.9.0.0/24"}); !slices.Equal(got, []string{"shop/ip 10.9.0.0/24 1/2 false"}) {
		t.Errorf("a masked address: %q", got)
	}
	// A network has the counters of many clients.
	const network = "10.0.0.0/8"
	_, list := l.List(t.Context(), admin.CounterQuery{Policy: "shop/ip-client", Identifier: network})
	_, reset := l.Reset(t.Context(), &adminapi.ResetRequest{Policy: "shop/ip-client", Identifier: network, Reason: "x"})
	bypasses := admin.Bypasses{Engine: l.Engine, List: bypass.NewList(time.Now), Clock: time.Now, Log: l.Log}
	_, created := bypasses.Create(t.Context(), &adminapi.BypassRequest{Policy: "shop/ip-client", Identifier: network, Seconds: 60, Reason: "x"})
	for what, bad := range map[string]*reply.Problem{"list": list, "reset": reset, "bypass": created} {
		if bad == nil || bad.Status != http.StatusBadRequest || bad.Field != "identifier" || !strings.HasPrefix(bad.Detail, `identifier "10.0.0.0/8" is not one client`) {
			t.Errorf("%s: %+v", what, bad)
		}
	}
	if _, bad := l.Reset(t.Context(), &adminapi.ResetRequest{AllPolicies: true, Identifier: network, Reason: "x"}); bad != nil {
		t.Errorf("%+v", bad)
	}
	if got := l.all(t, admin.CounterQuery{Identifier: "2001:db8::7"}); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

// A user who writes the name as that of a namespaced policy, or without a scope, learns the name of the cluster policy.
func TestCounters_SuggestTheNameOfAClusterPolicy(t *testing.T) {
	store := memstore.New(epoch)
	ofCluster := rule("_cluster/a")
	ofCluster.Domain, ofCluster.AllDomains = "", true
	counters := &admin.Counters{Engine: newEngine(t, store, ofCluster, rule("cluster/b")), Scanner: store}
	const form = "the form is namespace/name, or _cluster/name for a ClusterRateLimitPolicy"
	for policy, want := range map[string]string{
		"cluster/a": "did you mean the ClusterRateLimitPolicy _cluster/a?", "a": "did you mean the ClusterRateLimitPolicy _cluster/a?",
		"_cluster/b": form, "b": form, "cluster/c": form,
	} {
		_, bad := counters.List(t.Context(), admin.CounterQuery{Policy: policy, Identifier: "x"})
		if bad == nil || !strings.HasSuffix(bad.Detail, "is not enforced by this limiter; "+want) {
			t.Errorf("%s: %+v, want %s", policy, bad, want)
		}
	}
	for _, policy := range []string{"_cluster/a", "cluster/b"} {
		if _, bad := counters.List(t.Context(), admin.CounterQuery{Policy: policy, Identifier: "x"}); bad != nil {
			t.Errorf("%s: %+v", policy, bad)
		}
	}
}

func TestHandler_ReadsAndResetsCounters(t *testing.T) {
	e := newEndpoint(t)
	for _, test := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{http.MethodGet, "/admin/v1/counters?policy=shop/a", "", 200, `{"counters":[]}`},
		{http.MethodGet, "/admin/v1/counters", "", 400, `"field":"policy"`},
		{http.MethodGet, "/admin/v1/counters?policy=shop/none", "", 404, "is not enforced by this limiter"},
		{http.MethodGet, "/admin/v1/counters?policy=shop/a&limit=many", "", 400, "limit must be from 1 to 1000"},
		{http.MethodGet, "/admin/v1/counters?policy=shop/a&limit=1001", "", 400, "limit must be from 1 to 1000"},
		{http.MethodGet, "/admin/v1/counters?policy=shop/a&identifier=a&prefix=a", "", 400, "exclude each other"},
		{http.MethodGet, "/admin/v1/counters?policy=shop/a&continue=x", "", 503, "invalid cursor"},
		{http.MethodPost, "/admin/v1/counters/reset", `{"policy":"shop/a","identifier":"acme"}`, 400, `"field":"reason"`},
		{http.MethodPost, "/admin/v1/counters/reset", `{"policy":"shop/a","identifier":"acme","reason":" "}`, 400, `"field":"reason"`},
		{http.MethodPost, "/admin/v1/counters/reset", `{"identifier":"acme","reason":"x"}`, 400, `"field":"policy"`},
		{http.MethodPost, "/admin/v1/counters/reset", `{"policy":"shop/a","allPolicies":true,"identifier":"acme","reason":"x"}`, 400, `"field":"policy"`},
		{http.MethodPost, "/admin/v1/counters/reset", `{"policy":"shop/a","reason":"x"}`, 400, `"field":"identifier"`},
		{http.MethodPost, "/admin/v1/counters/reset", `{"policy":"shop/a","identifier":"acme","reason":"x","dryrum":true}`, 400, "dryrum"},
		{http.MethodPost, "/admin/v1/counters/reset", `{"policy":"shop/a","identifier":"acme","reason":"x"} .`, 400, "must end after the JSON value"},
		{http.MethodPost, "/admin/v1/counters/reset", `{"policy":"shop/a","identifier":"acme","reason":"x"}{}`, 400, "must end after the JSON value"},
		{http.MethodPost, "/admin/v1/counters/reset", `{"policy":"shop/a","identifier":"acme","reason":"INC-1"}`, 200, `{"counters":[],"identifier":"acme"}`},
	} {
		w := call(t, e, test.method, test.path, test.body)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("%s %s %s: %d %s", test.method, test.path, test.body, w.Code, w.Body)
		}
	}
	if log := e.log.String(); strings.Count(log, "counter reset") != 1 || !strings.Contains(log, "caller=tester reason=INC-1") {
		t.Errorf("log: %s", log)
	}
}

// unsearchable is a store of which the counters cannot be listed, as those of a Redis that is unavailable.
type unsearchable struct {
	store

	scans int
}

func (u *unsearchable) Scan(context.Context, limiter.KeyRange, string, int) ([]string, string, error) {
	u.scans++
	return nil, "", errors.New("scan counters: connection refused")
}

func TestCounters_ReadAndResetTheOthersWhenEndpointsCannotBeSearched(t *testing.T) {
	first, second := longRule("shop/b-paths", limiter.FixedWindow), longRule("shop/c-paths", limiter.FixedWindow)
	first.PerEndpoint, second.PerEndpoint = true, true
	s := &unsearchable{store: memstore.New(time.Now)}
	l := newCounters(t, s, longRule("shop/a", limiter.FixedWindow), first, second, longRule("shop/d", limiter.FixedWindow))
	l.spend(t, 1, "acme", "/")
	want := &admin.Unsearched{Policies: []string{"shop/b-paths", "shop/c-paths"}, Reason: "scan counters: connection refused"}
	list, bad := l.List(t.Context(), admin.CounterQuery{Identifier: "acme"})
	if bad != nil || len(list.Counters) != 2 || list.Counters[1].Policy != "shop/d" || !reflect.DeepEqual(list.Unsearched, want) || s.scans != 1 {
		t.Errorf("%+v, %+v, %d scans; want two counters, and one scan in vain", list, bad, s.scans)
	}
	result, bad := l.Reset(t.Context(), &adminapi.ResetRequest{AllPolicies: true, Identifier: "acme", Reason: "x"})
	if bad != nil || len(result.Counters) != 2 || !reflect.DeepEqual(result.Unsearched, want) {
		t.Errorf("%+v, %+v; want two counters", result, bad)
	}
	if list, _ := l.List(t.Context(), admin.CounterQuery{Identifier: "acme"}); len(list.Counters) != 0 {
		t.Errorf("after the reset: %+v", list)
	}
	if list, bad := l.List(t.Context(), admin.CounterQuery{Identifier: "acme", Policy: "shop/b-paths"}); bad == nil || !strings.Contains(bad.Detail, "connection refused") {
		t.Errorf("a named policy: %+v, %+v; want the error", list, bad)
	}
	if result, bad := l.Reset(t.Context(), &adminapi.ResetRequest{Policy: "shop/b-paths", Identifier: "acme", Reason: "x"}); bad == nil {
		t.Errorf("reset of a named policy: %+v; want the error", result)
	}
}

// A policy with two rates has two counters for each identifier.
func TestCounters_OfAPolicyWithSeveralRates(t *testing.T) {
	onEachStore(t, func(t *testing.T, s store) {
		day, minute := longRule("shop/a:1d", limiter.SlidingWindowCounter), longRule("shop/a:1m", limiter.SlidingWindowCounter)
		day.Rate, minute.Rate, day.WindowSeconds, minute.WindowSeconds = "1d", "1m", 86400, 60
		l := newCounters(t, s, day, minute)
		l.spend(t, 2, "acme", "/")
		for _, test := range []struct {
			q    admin.CounterQuery
			want []string
		}{
			{admin.CounterQuery{Policy: "shop/a:1d"}, []string{"shop/a:1d acme 2/1 false"}},
			{admin.CounterQuery{Policy: "shop/a", Identifier: "acme"}, []string{"shop/a:1d acme 2/1 false", "shop/a:1m acme 2/1 false"}},
		} {
			if got := l.all(t, test.q); !slices.Equal(got, test.want) {
				t.Errorf("%+v: %q, want %q", test.q, got, test.want)
			}
		}
		_, bad := l.List(t.Context(), admin.CounterQuery{Policy: "shop/a"})
		if bad == nil || bad.Status != http.StatusBadRequest || bad.Detail != `policy "shop/a" has several rates: name one of them: shop/a:1d, shop/a:1m` {
			t.Errorf("without an identifier: %+v", bad)
		}
		result, bad := l.Reset(t.Context(), &adminapi.ResetRequest{Policy: "shop/a:1m", Identifier: "acme", Reason: "test"})
		if bad != nil || len(result.Counters) != 1 {
			t.Errorf("reset of one rate: %+v, %+v", result, bad)
		}
		l.spend(t, 1, "acme", "/")
		result, bad = l.Reset(t.Context(), &adminapi.ResetRequest{Policy: "shop/a", Identifier: "acme", Reason: "test"})
		if bad != nil || len(result.Counters) != 2 || result.Counters[0].Used != 3 || result.Counters[1].Used != 1 {
			t.Errorf("reset of the policy: %+v, %+v", result, bad)
		}
	})
}

// wholeShareStore decides as a replica does while Redis is unavailable, on whole shares only.
type wholeShareStore struct{ *memstore.Store }

func (s wholeShareStore) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	decisions, err := s.Store.Peek(ctx, charges)
	for i := range decisions {
		decisions[i].Origin = limiter.OriginLocal
		if !charges[i].WholeShare {
			decisions[i].Remaining = 0
		}
	}
	return decisions, err
}

func TestCounters_ReadTheWholeLocalShare(t *testing.T) {
	r := longRule("shop/a", limiter.FixedWindow)
	r.LocalShare = rules.WholeShare
	l := newCounters(t, wholeShareStore{memstore.New(time.Now)}, r)
	l.Portion = func(c limiter.Charge) admin.Portion {
		if !c.WholeShare {
			return admin.Portion{}
		}
		return admin.Portion{Units: c.Limit.Units(), Capacity: c.Limit.Capacity()}
	}
	l.spend(t, 2, "acme", "/")
	if got := l.all(t, admin.CounterQuery{Policy: "shop/a"}); !slices.Equal(got, []string{"shop/a acme 2/1 false"}) {
		t.Errorf("%q, want 2 units of the limit of 3", got)
	}
}
