package admin_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/bound"
	"github.com/weir-dev/weir/limiter/bypass"
	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	chain "github.com/weir-dev/weir/limiter/store"
)

// reasons returns the reasons of all policies, with their outcomes.
func reasons(t *testing.T, e *engine.Engine, body string) (all []string) {
	t.Helper()
	x, bad := (&admin.Explainer{Engine: e}).Explain(t.Context(), []byte(body), true)
	if bad != nil {
		t.Fatalf("%+v", bad)
	}
	for _, p := range x.Policies {
		all = append(all, fmt.Sprintf("%s %s %s: %s", p.Policy, p.Outcome, p.Field, p.Reason))
	}
	return all
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

const ofAcme = `{"domain":"shop","path":"/","headers":{"x-tenant-id":"acme"}}`

func TestExplain_NamesTheWaitAndTheUnits(t *testing.T) {
	e := newEngine(t, memstore.New(epoch), rule("shop/a"), rule("shop/b"))
	check := &engine.Check{Cost: 2, Request: rules.Request{Domain: "shop", Path: "/", Headers: map[string]string{"x-tenant-id": "acme"}}}
	if _, err := e.Check(t.Context(), check); err != nil {
		t.Fatal(err)
	}
	expect(t, reasons(t, e, ofAcme), "shop/a Denies : 2 of 2 units used; retry after 1m0s; this policy decides", "shop/b Denies : 2 of 2 units used; retry after 1m0s")
	charge := explainCheck(t, e, ofAcme).Policies[0].Charge
	if *charge.Used != 2 || *charge.Remaining != 0 || *charge.RetryAfterMs != 60_000 || charge.ResetAfterMs != 60_000 || charge.DelayMs != 0 {
		t.Errorf("%+v", charge)
	}
	never := explainCheck(t, e, `{"domain":"shop","path":"/","headers":{"x-tenant-id":"acme"},"cost":3}`).Policies[0].Charge
	if never.RetryAfterMs != nil {
		t.Errorf("a cost above the limit: retry after %d ms", *never.RetryAfterMs)
	}
}

func TestRoundUp_KeepsMillisecondsBelowASecond(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{
		0: 0, 1: time.Millisecond, 999*time.Millisecond + 1: time.Second, time.Second: time.Second, time.Second + 1: 2 * time.Second, time.Minute: time.Minute,
	} {
		if got := admin.RoundUp(given); got != want {
			t.Errorf("%v: %v, want %v", given, got, want)
		}
	}
}

func TestExplain_NamesTheBypass(t *testing.T) {
	list := bypass.NewList(epoch)
	x, err := matching.NewIndex(rules.Set{Rules: []rules.Rule{rule("shop/a")}}, "sha256:1", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	e := engine.New(memstore.New(epoch), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()), engine.WithBypasses(list))
	e.Swap(x)
	_, err = list.Add(bypass.Bypass{
		Name: "b1", Policy: "shop/a", Identifier: "acme", Reason: "INC-1\n", CreatedBy: "jane", CreatedAt: epoch(), ExpiresAt: epoch().Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, reasons(t, e, ofAcme), `shop/a Bypassed : bypass b1 of "jane" until 2026-11-01T01:00:00Z: "INC-1\n"`)
	if charge := explainCheck(t, e, ofAcme).Policies[0].Charge; charge.Identifier != "acme" || charge.Limit != 0 || charge.Used != nil {
		t.Errorf("%+v", charge)
	}
}

func TestExplain_NamesWhatIsLeftOut(t *testing.T) {
	for scope, domain := range map[string]string{"its namespace": "shop", "the cluster": ""} {
		var list []rules.Rule
		for i := range 34 {
			r := rule(fmt.Sprintf("shop/p%02d", i))
			r.Domain, r.AllDomains = domain, domain == ""
			list = append(list, r)
		}
		got := reasons(t, newEngine(t, memstore.New(epoch), list...), ofAcme)
		want := " LeftOut : more than 32 policies of " + scope + " match, and older ones are counted first"
		if n := strings.Count(strings.Join(got, "\n"), want); n != 2 {
			t.Errorf("%d policies are left out: %q", n, got)
		}
	}
}

func TestExplain_NamesWhatIsUncertainOrShared(t *testing.T) {
	r := rule("shop/a")
	r.Match.Expression = `int(request.path) > 0` // fails with a path that is no number
	r.Units = 1
	counters := memstore.New(epoch)
	x, err := matching.NewIndex(rules.Set{Rules: []rules.Rule{r}}, "sha256:1", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	e := layeredEngine(counters, chain.Layers{
		Denials: denials.NewCache(10, epoch), Bound: bound.New(bound.Identifiers{Max: 100}, epoch),
	})
	e.Swap(x)
	expect(t, reasons(t, e, ofAcme), "shop/a Allows : 0 of 1 units used; this policy decides; a condition could not be evaluated, so it counts as met")
	for i := range 1000 {
		check := &engine.Check{Cost: 1, Request: rules.Request{Domain: "shop", Path: "/", Headers: map[string]string{"x-tenant-id": strconv.Itoa(i)}}}
		if _, err := e.Check(t.Context(), check); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, reasons(t, e, ofAcme), "shop/a Denies : 1 of 1 units used; retry after 1m0s; this policy decides; a condition could not be evaluated, so it counts as met; "+
		"identifiers over the bound share this counter")
}

func TestExplain_ReasonsOfOtherKindsOfRequests(t *testing.T) {
	list, plain := rule("shop/a"), rule("shop/b")
	list.Match.Descriptors, plain.Match.Methods = []rules.DescriptorMatch{{Key: "a", Value: "1"}}, []string{"PUT"}
	e := newEngine(t, memstore.New(epoch), list, plain)
	expect(t, reasons(t, e, `{"domain":"shop","descriptors":[[{"key":"b","value":"1"}]]}`),
		"shop/a NoMatch match.descriptors: no descriptor of the request has exactly the entries a=1",
		"shop/b NoMatch match: the request is a list of descriptors; the policy matches only HTTP requests and HTTP requests with descriptors")
	write := rule("_cluster/w")
	write.Domain, write.AllDomains, write.Identifier = "", true, rules.Identifier{From: rules.FromKubernetesUser}
	write.Match.Kubernetes = &rules.KubernetesMatch{Resources: []rules.KubernetesResources{
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Operations: []string{"CREATE"}},
	}}
	e = newEngine(t, memstore.New(epoch), write)
	for body, kind := range map[string]string{
		`{"domain":"shop","path":"/"}`:                                           "an HTTP request",
		`{"domain":"shop","path":"/","descriptors":[[{"key":"b","value":"1"}]]}`: "an HTTP request with descriptors",
	} {
		expect(t, reasons(t, e, body), "_cluster/w NoMatch match: the request is "+kind+"; the policy matches only writes to the Kubernetes API")
	}
}

// review explains a write under a policy.
func review(t *testing.T, write *rules.KubernetesRequest, change func(*rules.Rule)) admin.Policy {
	t.Helper()
	r := rule("_cluster/w")
	r.Domain, r.AllDomains, r.Identifier = "", true, rules.Identifier{From: rules.FromKubernetesUser}
	r.Match.Kubernetes = &rules.KubernetesMatch{Resources: []rules.KubernetesResources{
		{APIGroups: []string{"", "apps"}, Resources: []string{"pods", "deployments"}, Operations: []string{"CREATE"}},
	}}
	change(&r)
	e := &admin.Explainer{Engine: newEngine(t, memstore.New(epoch), r), ReadWrite: func([]byte) (rules.Request, bool, *reply.Problem) {
		return rules.Request{Domain: "shop", Kubernetes: write}, false, nil
	}}
	x, bad := e.Explain(t.Context(), []byte(`{"kind":"AdmissionReview"}`), true)
	if bad != nil {
		t.Fatalf("%+v", bad)
	}
	return x.Policies[0]
}

func TestExplain_ReasonsOfOtherWrites(t *testing.T) {
	for want, test := range map[string]struct {
		write  rules.KubernetesRequest
		change func(*rules.Rule)
	}{
		"match.kubernetes.resources: the write is UPDATE pods; the policy matches CREATE pods, CREATE deployments, CREATE pods.apps, CREATE deployments.apps": {
			rules.KubernetesRequest{Operation: "UPDATE", Resource: "pods", User: "alice"}, func(*rules.Rule) {},
		},
		"match: the request is a write to the Kubernetes API; the policy matches only HTTP requests": {
			rules.KubernetesRequest{Operation: "CREATE", Resource: "pods", User: "alice"},
			func(r *rules.Rule) {
				r.Match.Kubernetes, r.Match.Methods, r.Identifier = nil, []string{"GET"}, rules.Identifier{From: rules.FromHeader, Name: "a"}
			},
		},
		"match.kubernetes.expression: the expression is false for this request: " + `"request.operation == \"DELETE\""`: {
			rules.KubernetesRequest{Operation: "CREATE", Resource: "pods", User: "alice"},
			func(r *rules.Rule) { r.Match.Expression = `request.operation == "DELETE"` },
		},
		"identifier: the write has no service account to count by": {
			rules.KubernetesRequest{Operation: "CREATE", Resource: "pods", User: "alice"},
			func(r *rules.Rule) { r.Identifier.From = rules.FromServiceAccount },
		},
	} {
		p := review(t, &test.write, test.change)
		if got := p.Field + ": " + p.Reason; !strings.HasPrefix(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func TestExplain_SourcesOfIdentifiersOfWrites(t *testing.T) {
	for from, want := range map[rules.IdentifierSource]string{
		rules.FromKubernetesUser: "user", rules.FromKubernetesNamespace: "namespace of the object", rules.FromServiceAccount: "service account",
	} {
		p := review(t, &rules.KubernetesRequest{Operation: "CREATE", Resource: "pods", Namespace: "shop", User: "system:serviceaccount:shop:ci"},
			func(r *rules.Rule) { r.Identifier.From = from })
		if p.Charge == nil || p.Charge.From != want {
			t.Errorf("%s: %+v, want %s", from, p, want)
		}
	}
}

func TestExplain_NamesTheDomains(t *testing.T) {
	one, several := rule("blog/a"), rule("_cluster/a")
	one.Domain, several.Domain, several.Domains = "blog", "", []string{"blog", "forum"}
	gateway := rule("infra/a")
	gateway.Domains, gateway.Match.Routes = several.Domains, []rules.Route{{Namespace: "blog", Target: "HTTPRoute/a"}, {Namespace: "forum", Target: "HTTPRoute/a"}}
	expect(t, reasons(t, newEngine(t, memstore.New(epoch), several, one, gateway), ofAcme),
		`_cluster/a NoMatch domains: the request is in domain "shop"; the policy applies to blog, forum`,
		`blog/a NoMatch metadata.namespace: the request is in domain "shop"; the policy applies to blog`,
		`infra/a NoMatch targetRefs: the request is in domain "shop"; the policy applies to blog, forum`)
}

func TestExplain_NamesTheRoutesOfTheRequest(t *testing.T) {
	r := rule("shop/a")
	r.Match.Routes = []rules.Route{{Namespace: "shop", Target: "HTTPRoute/a"}, {Namespace: "blog", Target: "HTTPRoute/b"}}
	expect(t, reasons(t, newEngine(t, memstore.New(epoch), r), `{"domain":"shop","path":"/","descriptors":[[{"key":"target","value":"HTTPRoute/c"},{"key":"x","value":"y"}]]}`),
		`shop/a NoMatch targetRefs: the gateway names the routes HTTPRoute/c in entries with key target; the policy matches HTTPRoute/a in domain "shop"`)
}

// An expression can count any header as an API key.
func TestExplain_ShowsNoHeaderThatAnExpressionCanCount(t *testing.T) {
	for id, want := range map[rules.Identifier]string{
		{From: rules.FromExpression, Name: "request.host", Secret: true}: "is set; the policy matches another value", {From: rules.FromCookie, Name: "x-plan", Secret: true}: `is "free"`,
	} {
		r, key := rule("shop/a"), rule("shop/z-key")
		r.Match.Headers = []rules.HeaderMatch{{Type: rules.HeaderExact, Name: "x-plan", Value: "paid"}}
		key.Identifier = id
		x, bad := (&admin.Explainer{Engine: newSecretEngine(t, r, key)}).Explain(t.Context(), []byte(`{"domain":"shop","path":"/","headers":{"x-plan":"free"}}`), false)
		if bad != nil || !strings.HasPrefix(x.Policies[0].Reason, "header x-plan "+want) {
			t.Errorf("%+v: %+v %+v", id, x, bad)
		}
	}
}

func TestExplain_ShowsNoSecretValueThatThePolicyExcludes(t *testing.T) {
	r := rule("shop/a")
	r.Match.Headers = []rules.HeaderMatch{{Type: rules.HeaderExact, Name: "authorization", Value: "s3cret", Invert: true}}
	expect(t, reasons(t, newEngine(t, memstore.New(epoch), r), `{"domain":"shop","path":"/","headers":{"authorization":"s3cret"}}`),
		"shop/a NoMatch match.http.headers[0]: header authorization is set; the policy matches requests without this value")
}

func TestExplain_ShowsNoCredentialThatAPolicyComparesWith(t *testing.T) {
	entries, expression := rule("shop/a"), rule("shop/b")
	entries.Match.Descriptors = []rules.DescriptorMatch{
		{Key: "api_key", Value: "s3cret"}, {Key: "token", Pattern: "s3cret*"}, {Key: "session", Except: []string{"s3cret"}}, {Key: "plan", Value: "free"},
	}
	expression.Match.Expression = `request.headers[?"x-api-key"].orValue("") == "s3cret"`
	expect(t, reasons(t, newEngine(t, memstore.New(epoch), entries, expression), `{"domain":"shop","path":"/","headers":{"x-api-key":"s3cret2"},"descriptors":[[{"key":"a","value":"b"}]]}`),
		"shop/a NoMatch match.descriptors: no descriptor of the request has exactly the entries api_key=…, token=…, session, plan=free",
		"shop/b NoMatch match.http.expression: the expression, which is not shown because it names credentials, is false for this request")
}

func TestExplain_ShortensWhatTheClientSends(t *testing.T) {
	r := rule("shop/a")
	r.Match.Hosts = []string{"h1", "h2", "h3", "h4", "h5"}
	e := newEngine(t, memstore.New(epoch), r)
	for host, want := range map[string]string{
		strings.Repeat("a", 100):       strings.Repeat("a", 100),
		strings.Repeat("a", 101):       strings.Repeat("a", 100) + "…",
		strings.Repeat("a", 99) + "ää": strings.Repeat("a", 99) + "…",
	} {
		expect(t, reasons(t, e, `{"domain":"shop","path":"/","host":"`+host+`"}`),
			`shop/a NoMatch match.http.hosts: host is "`+want+`"; the policy matches h1, h2, h3, h4, h5`)
	}
}

// A replica's share of the limit counts while Redis is unavailable.
func TestExplain_CountsTheLocalShare(t *testing.T) {
	e := newEngine(t, localStore{memstore.New(epoch)}, rule("shop/a"))
	for name, test := range map[string]struct {
		portion func(limiter.Charge) admin.Portion
		want    int64
	}{
		"a part":           {func(limiter.Charge) admin.Portion { return admin.Portion{Units: 5, Capacity: 5} }, 3},
		"less than unused": {func(limiter.Charge) admin.Portion { return admin.Portion{Units: 1, Capacity: 1} }, 0},
		"the whole limit":  {nil, 0},
	} {
		x, bad := (&admin.Explainer{Engine: e, Portion: test.portion}).Explain(t.Context(), []byte(ofAcme), false)
		if bad != nil || *x.Policies[0].Charge.Used != test.want {
			t.Errorf("%s: %+v %+v, want %d units", name, x, bad, test.want)
		}
	}
}

// The share of a policy with localShare: Whole is the limit.
func TestExplain_CountsTheWholeLocalShare(t *testing.T) {
	portion := func(c limiter.Charge) admin.Portion {
		if !c.WholeShare {
			return admin.Portion{}
		}
		return admin.Portion{Units: 5, Capacity: 5}
	}
	r := rule("shop/a")
	r.LocalShare = rules.WholeShare
	x, bad := (&admin.Explainer{Engine: newEngine(t, localStore{memstore.New(epoch)}, r), Portion: portion}).Explain(t.Context(), []byte(ofAcme), false)
	if bad != nil || *x.Policies[0].Charge.Used != 3 {
		t.Errorf("%+v %+v, want 3 units", x, bad)
	}
}

// localStore decides as a replica does while Redis is unavailable.
type localStore struct{ limiter.Store }

func (s localStore) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	decisions, err := s.Store.Peek(ctx, charges)
	for i := range decisions {
		decisions[i].Origin = limiter.OriginLocal
	}
	return decisions, err
}
