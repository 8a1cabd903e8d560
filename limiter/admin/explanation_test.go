package admin_test

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
	"github.com/weir-dev/weir/limiter/rules/matching"
)

func epoch() time.Time { return time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC) }

func rule(policy string) rules.Rule {
	return rules.Rule{
		Policy: policy, Domain: "shop", Axis: "Tenant", Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"},
		Algorithm: limiter.FixedWindow, Units: 2, WindowSeconds: 60,
	}
}

func newEngine(t *testing.T, store limiter.Store, list ...rules.Rule) *engine.Engine {
	t.Helper()
	x, err := matching.NewIndex(rules.Set{Rules: list}, "sha256:1", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	e := engine.New(store, engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	e.Swap(x)
	return e
}

func explainCheck(t *testing.T, e *engine.Engine, body string) admin.Explanation {
	t.Helper()
	x, bad := (&admin.Explainer{Engine: e}).Explain(t.Context(), []byte(body), false)
	if bad != nil {
		t.Fatalf("%+v", bad)
	}
	return x
}

func TestExplain_JSON(t *testing.T) {
	paid := rule("shop/paid")
	paid.Match.Headers = []rules.HeaderMatch{{Type: rules.HeaderExact, Name: "x-plan", Value: "paid"}}
	e := newEngine(t, memstore.New(epoch), paid, rule("shop/tenant"), rule("shop/unlimited"), func() rules.Rule {
		r := rule("shop/x-elsewhere")
		r.Domain = "blog"
		return r
	}())
	got, err := json.Marshal(explainCheck(t, e, `{"domain":"shop","path":"/","headers":{"x-tenant-id":"acme"},"cost":2}`).Policies[:2])
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"policy":"shop/paid","axis":"Tenant","outcome":"NoMatch","reason":"header x-plan is absent; the policy matches \"paid\"",` +
		`"field":"match.http.headers[0]"},{"policy":"shop/tenant","axis":"Tenant","outcome":"Allows","reason":"0 of 2 units used; this policy decides",` +
		`"charge":{"identifier":"acme","from":"header x-tenant-id","cost":2,"algorithm":"FixedWindow","limit":2,"window":"1m0s",` +
		`"key":"weir:throttle:tenant:{acme}:shop/tenant:z6ye2ztn","used":0,"remaining":2,"source":"memory"}}]`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestExplain_CountsPoliciesOfOtherDomains(t *testing.T) {
	r := rule("blog/a")
	r.Domain = "blog"
	e := newEngine(t, memstore.New(epoch), r, rule("shop/a"))
	x := explainCheck(t, e, `{"domain":"shop","path":"/"}`)
	if len(x.Policies) != 1 || x.OtherPolicies != 1 {
		t.Errorf("%+v", x)
	}
	all, _ := (&admin.Explainer{Engine: e}).Explain(t.Context(), []byte(`{"domain":"shop","path":"/"}`), true)
	if len(all.Policies) != 2 || all.OtherPolicies != 0 || all.Policies[0].Field != "metadata.namespace" {
		t.Errorf("with all: %+v", all)
	}
}

func TestExplain_Outcomes(t *testing.T) {
	fallback, tiered, shadow := rule("_cluster/default"), rule("shop/b-tiers"), rule("shop/c-shadow")
	fallback.Domain, fallback.AllDomains, fallback.Default = "", true, true
	tiered.Axis, tiered.Tiers = "User", []rules.Tier{{Name: "staff", When: rules.When{Identifiers: []string{"acme"}}, Unlimited: true}}
	shadow.Axis, shadow.Shadow, shadow.Units = "IP", true, 1
	replaces := rule("shop/a")
	replaces.ReplacesDefaults = []string{"_cluster/default"}
	costly := rule("shop/d-costly")
	costly.Axis, costly.Cost = "Claim", &rules.Cost{Value: 5}
	e := newEngine(t, memstore.New(epoch), fallback, replaces, tiered, shadow, costly)
	x := explainCheck(t, e, `{"domain":"shop","path":"/","headers":{"x-tenant-id":"acme"}}`)
	var got []string
	for _, p := range x.Policies {
		got = append(got, p.Policy+" "+string(p.Outcome)+": "+p.Reason)
	}
	want := []string{
		"_cluster/default Replaced: policy shop/a replaces this default",
		"shop/a Allows: 0 of 2 units used",
		"shop/b-tiers Unlimited: tier staff has no limit",
		"shop/c-shadow Allows: 0 of 1 units used; a Shadow policy denies nothing",
		"shop/d-costly Denies: the cost of 5 units is above the limit; this policy decides",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if x.Answer.Allowed || x.Answer.Policy != "shop/d-costly" {
		t.Errorf("answer %+v", x.Answer)
	}
}

func TestExplain_ReasonsOfHTTPRequests(t *testing.T) {
	for want, change := range map[string]func(*rules.Rule){
		`match.http.hosts: host is "a.example"; the policy matches b.example, *.c.example`: func(r *rules.Rule) { r.Match.Hosts = []string{"b.example", "*.c.example"} },
		`match.http.paths: path is "/v1"; the policy matches Exact /v2`: func(r *rules.Rule) {
			r.Match.Paths = []rules.PathMatch{{Type: rules.PathExact, Value: "/v2"}}
		},
		`match.http.methods: method is "GET"; the policy matches A, B, C, D, E, 1 more`: func(r *rules.Rule) { r.Match.Methods = []string{"A", "B", "C", "D", "E", "F"} },
		`match.http.headers[0]: header x-tenant-id is "acme"; the policy matches requests without it`: func(r *rules.Rule) {
			r.Match.Headers = []rules.HeaderMatch{{Type: rules.HeaderPresent, Name: "x-tenant-id", Invert: true}}
		},
		`match.http.headers[0]: header x-tenant-id is "acme"; the policy matches requests without "acme"`: func(r *rules.Rule) {
			r.Match.Headers = []rules.HeaderMatch{{Type: rules.HeaderExact, Name: "x-tenant-id", Value: "acme", Invert: true}}
		},
		`match.http.headers[0]: header x-tenant-id is "acme"; the policy matches the regular expression "b.*"`: func(r *rules.Rule) {
			r.Match.Headers = []rules.HeaderMatch{{Type: rules.HeaderRegex, Name: "x-tenant-id", Value: "b.*"}}
		},
		`match.http.headers[0]: header x-b is absent; the policy matches any value`: func(r *rules.Rule) {
			r.Match.Headers = []rules.HeaderMatch{{Type: rules.HeaderPresent, Name: "x-b"}}
		},
		`match.http.cidrs: client address 192.0.2.1 is not in 10.0.0.0/8`:                  func(r *rules.Rule) { r.Match.CIDRs = []string{"10.0.0.0/8"} },
		`match.http.exceptCIDRs: client address 192.0.2.1 is in exceptCIDRs: 192.0.2.0/24`: func(r *rules.Rule) { r.Match.ExceptCIDRs = []string{"192.0.2.0/24"} },
		`match.http.expression: the expression is false for this request: "request.method == \"PUT\""`: func(r *rules.Rule) {
			r.Match.Expression = `request.method == "PUT"`
		},
		`match: the request is an HTTP request; the policy matches only HTTP requests with descriptors and lists of descriptors`: func(r *rules.Rule) {
			r.Match.Descriptors = []rules.DescriptorMatch{{Key: "a"}}
		},
		`targetRefs: the gateway names no route: the request has no entry with key target; the policy matches HTTPRoute/a in domain "shop"`: func(r *rules.Rule) {
			r.Match.Routes = []rules.Route{{Namespace: "shop", Target: "HTTPRoute/a"}}
		},
	} {
		r := rule("shop/a")
		change(&r)
		x := explainCheck(t, newEngine(t, memstore.New(epoch), r), `{"domain":"shop","method":"GET","host":"a.example","path":"/v1","clientIP":"192.0.2.1","headers":{"x-tenant-id":"acme"}}`)
		if got := x.Policies[0].Field + ": " + x.Policies[0].Reason; got != want || !x.Answer.Allowed {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	r := rule("shop/a")
	r.Match.Descriptors = []rules.DescriptorMatch{{Key: "a", Value: "1"}, {Key: "b", Pattern: "x*", Except: []string{"xy"}}, {Key: "c"}}
	x := explainCheck(t, newEngine(t, memstore.New(epoch), r), `{"domain":"shop","descriptors":[[{"key":"a","value":"2"}]]}`)
	if got, want := x.Policies[0].Reason, "no descriptor of the request has exactly the entries a=1, b like x* except xy, c"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestExplain_ReasonsOfWrites(t *testing.T) {
	for want, change := range map[string]func(*rules.KubernetesMatch){
		`match.kubernetes.resources: the write is CREATE deployments/scale.apps; the policy matches CREATE|UPDATE pods`: func(m *rules.KubernetesMatch) {
			m.Resources = []rules.KubernetesResources{{APIGroups: []string{""}, Resources: []string{"pods"}, Operations: []string{"CREATE", "UPDATE"}}}
		},
		`match.kubernetes.namespaces: namespace is "shop"; the policy matches blog`:                func(m *rules.KubernetesMatch) { m.Namespaces = []string{"blog"} },
		`match.kubernetes.users: user is "alice"; the policy matches bob`:                          func(m *rules.KubernetesMatch) { m.Users = []string{"bob"} },
		`match.kubernetes.groups: user "alice" is in the groups [dev, qa]; the policy matches ops`: func(m *rules.KubernetesMatch) { m.Groups = []string{"ops"} },
		`match.kubernetes.exceptUsers: user "alice" is in exceptUsers`:                             func(m *rules.KubernetesMatch) { m.ExceptUsers = []string{"alice"} },
		`match.kubernetes.exceptGroups: user "alice" is in a group of exceptGroups: qa`:            func(m *rules.KubernetesMatch) { m.ExceptGroups = []string{"qa"} },
		`match.kubernetes.namespaceSelector: the labels of namespace "shop" do not meet the selector, or the limiter does not know them`: func(m *rules.KubernetesMatch) {
			m.NamespaceSelector = rules.Selector{{Key: "a", Operator: rules.SelectorExists}}
		},
	} {
		r := rule("_cluster/a")
		r.Domain, r.AllDomains, r.Identifier = "", true, rules.Identifier{From: rules.FromKubernetesUser}
		r.Match.Kubernetes = &rules.KubernetesMatch{Resources: []rules.KubernetesResources{
			{APIGroups: []string{"*"}, Resources: []string{"*/*"}, Operations: []string{"CREATE"}},
		}}
		change(r.Match.Kubernetes)
		e := &admin.Explainer{Engine: newEngine(t, memstore.New(epoch), r), ReadWrite: func([]byte) (rules.Request, bool, *reply.Problem) {
			return rules.Request{Domain: "shop", Kubernetes: &rules.KubernetesRequest{
				Operation: "CREATE", Group: "apps", Resource: "deployments", Subresource: "scale", Namespace: "shop", User: "alice", Groups: []string{"dev", "qa"},
			}}, false, nil
		}}
		x, bad := e.Explain(t.Context(), []byte(`{"kind":"AdmissionReview"}`), false)
		if bad != nil {
			t.Fatal(bad)
		}
		if got := x.Policies[0].Field + ": " + x.Policies[0].Reason; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func TestExplain_ExemptWritesAreAllowed(t *testing.T) {
	r := rule("_cluster/a")
	r.Domain, r.AllDomains, r.Units, r.Cost, r.Identifier = "", true, 1, &rules.Cost{Value: 2}, rules.Identifier{From: rules.FromKubernetesUser}
	r.Match.Kubernetes = &rules.KubernetesMatch{Resources: []rules.KubernetesResources{{APIGroups: []string{""}, Resources: []string{"pods"}, Operations: []string{"CREATE"}}}}
	for _, isExempt := range []bool{false, true} {
		e := &admin.Explainer{Engine: newEngine(t, memstore.New(epoch), r), ReadWrite: func([]byte) (rules.Request, bool, *reply.Problem) {
			return rules.Request{Kubernetes: &rules.KubernetesRequest{Operation: "CREATE", Resource: "pods", User: "alice"}}, isExempt, nil
		}}
		x, bad := e.Explain(t.Context(), []byte(`{"kind":"AdmissionReview"}`), false)
		if bad != nil || x.Answer.Allowed != isExempt || x.Exempt != isExempt || x.Policies[0].Outcome != admin.Denies {
			t.Errorf("exempt %v: %+v %v", isExempt, x, bad)
		}
	}
}

func TestExplain_RejectsWhatIsNoRequest(t *testing.T) {
	e := &admin.Explainer{Engine: newEngine(t, memstore.New(epoch), rule("shop/a"))}
	if _, bad := e.Explain(t.Context(), []byte(`{"domian":"shop"}`), false); bad == nil || bad.Status != http.StatusBadRequest || bad.Field != "domian" {
		t.Errorf("%+v", bad)
	}
	e.Engine = engine.New(memstore.New(epoch), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	if _, bad := e.Explain(t.Context(), []byte(`{"domain":"shop","path":"/"}`), false); bad == nil || bad.Status != http.StatusServiceUnavailable {
		t.Errorf("without rules: %+v", bad)
	}
}

func TestExplain_SourcesOfIdentifiers(t *testing.T) {
	for from, want := range map[rules.Identifier]string{
		{From: rules.FromClientIP}: "client address", {From: rules.FromHeader, Name: "a"}: "header a", {From: rules.FromQuery, Name: "a"}: "query parameter a",
		{From: rules.FromCookie, Name: "a"}: "cookie a", {From: rules.FromClaim, Name: "a"}: "claim a", {From: rules.FromEndpoint}: "path",
		{From: rules.FromExpression, Name: "request.host"}: "expression request.host", {From: rules.FromDescriptor, Name: "a"}: "descriptor a",
	} {
		r := rule("shop/a")
		r.Identifier = from
		x, err := newEngine(t, memstore.New(epoch), r).Explain(t.Context(), engine.Check{Cost: 1, Request: rules.Request{
			Domain: "shop", Path: "/", ClientIP: netip.MustParseAddr("192.0.2.1"), Descriptors: []rules.Descriptor{{{Key: "a", Value: "1"}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if got := admin.NewExplanation(&x, &rules.Request{}, false).Policies[0]; got.Charge == nil || got.Charge.From != want {
			t.Errorf("%v: %+v, want from %s", from, got, want)
		}
	}
}

func TestExplain_ShowsNoSecretHeader(t *testing.T) {
	key := rule("shop/z-key")
	key.Identifier = rules.Identifier{From: rules.FromHeader, Name: "x-api-key", Secret: true}
	for _, header := range []string{"x-api-key", "authorization", "cookie", "proxy-authorization"} {
		for _, match := range []rules.HeaderMatch{
			{Type: rules.HeaderPresent, Invert: true}, {Type: rules.HeaderExact, Value: "of-the-policy"}, {Type: rules.HeaderRegex, Value: "s3cret", Invert: true},
		} {
			r := rule("shop/a")
			match.Name = header
			r.Match.Headers = []rules.HeaderMatch{match}
			x, bad := (&admin.Explainer{Engine: newSecretEngine(t, r, key)}).Explain(t.Context(),
				[]byte(`{"domain":"shop","path":"/","headers":{"`+header+`":"s3cret"}}`), false)
			if bad != nil {
				t.Fatalf("%+v", bad)
			}
			got := x.Policies[0].Reason
			if !strings.HasPrefix(got, "header "+header+" is set; the policy matches ") || strings.Contains(got, "s3cret") || strings.Contains(got, "of-the-policy") {
				t.Errorf("%s: %s", header, got)
			}
		}
	}
}

func newSecretEngine(t *testing.T, list ...rules.Rule) *engine.Engine {
	t.Helper()
	return newCounters(t, memstore.New(epoch), list...).Engine
}
