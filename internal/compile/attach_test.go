package compile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/rules/route"
)

// ref parses "HTTPRoute/checkout", "HTTPRoute/checkout#pay", or "Gateway/infra:public" in namespace infra.
func ref(text string) policyapi.TargetReference {
	kind, name, _ := strings.Cut(text, "/")
	r := policyapi.TargetReference{Group: policyapi.GatewayGroup, Kind: policyapi.TargetKind(kind)}
	name, section, hasSection := strings.Cut(name, "#")
	if hasSection {
		r.SectionName = &section
	}
	if namespace, rest, found := strings.Cut(name, ":"); found {
		r.Namespace, name = &namespace, rest
	}
	r.Name = name
	return r
}

// attached returns a policy "namespace/name" for the targets.
func attached(name string, targets ...string) policyapi.RateLimitPolicy {
	namespace, name, _ := strings.Cut(name, "/")
	p := policyapi.RateLimitPolicy{
		ObjectMeta: policyapi.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       policyapi.RateLimitPolicySpec{Axis: policyapi.AxisIP, Limit: new(int64(3)), Window: "1m"},
	}
	for _, t := range targets {
		p.Spec.TargetRefs = append(p.Spec.TargetRefs, ref(t))
	}
	return p
}

func attachedToCluster(name string, targets ...string) policyapi.ClusterRateLimitPolicy {
	p := attached("/"+name, targets...)
	return policyapi.ClusterRateLimitPolicy{ObjectMeta: p.ObjectMeta, Spec: policyapi.ClusterRateLimitPolicySpec{RateLimitPolicySpec: p.Spec}}
}

// gateways is a Gateway infra/public with three routes of two namespaces, and infra/internal with one of them.
func gateways() *gateway.Objects {
	on := func(text string) gateway.Parent {
		name, listener, _ := strings.Cut(text, "#")
		return gateway.Parent{Namespace: "infra", Gateway: name, Listener: listener}
	}
	return &gateway.Objects{
		Routes: []gateway.Route{
			{Kind: "HTTPRoute", Namespace: "blog", Name: "posts", Parents: []gateway.Parent{on("public#https"), on("internal")}},
			{Kind: "HTTPRoute", Namespace: "shop", Name: "checkout", Rules: []string{"pay"}, Parents: []gateway.Parent{on("public#https"), on("public#http")}},
			{Kind: "GRPCRoute", Namespace: "shop", Name: "stock", Parents: []gateway.Parent{on("public")}},
			{Kind: "HTTPRoute", Namespace: "shop", Name: "draft"},
		},
		Gateways: []gateway.Gateway{
			{Namespace: "infra", Name: "public", Listeners: []gateway.Listener{{Name: "http"}, {Name: "https"}}}, {Namespace: "infra", Name: "internal"}, {Namespace: "shop", Name: "own"},
		},
		Grants: []gateway.Grant{{Namespace: "infra", From: "shop", Gateway: "public"}, {Namespace: "infra", From: "blog"}, {Namespace: "shop", From: "blog"}},
	}
}

// routesOf returns "shop:HTTPRoute/checkout".
func routesOf(rule rules.Rule) []string {
	if rule.Match.Routes == nil {
		return []string{"the rule matches all requests"}
	}
	list := []string{}
	for _, r := range rule.Match.Routes {
		list = append(list, r.Namespace+":"+r.Target)
	}
	return list
}

func TestCompile_ResolvesTheTargetsOfAPolicy(t *testing.T) {
	for name, test := range map[string]struct {
		policy policyapi.RateLimitPolicy
		routes []string // nil if the policy has no rule
		// states are the reasons of the targets, and a part of the message of each.
		states []string
	}{
		"a route":                 {attached("shop/a", "HTTPRoute/checkout"), []string{"shop:HTTPRoute/checkout"}, []string{"Accepted: limits the requests for which the gateway names route HTTPRoute/checkout of namespace shop"}},
		"a rule":                  {attached("shop/a", "HTTPRoute/checkout#pay"), []string{"shop:HTTPRoute/checkout/pay"}, []string{"Accepted: route HTTPRoute/checkout/pay"}},
		"a route of gRPC":         {attached("shop/a", "GRPCRoute/stock"), []string{"shop:GRPCRoute/stock"}, []string{"Accepted: GRPCRoute/stock"}},
		"a route of no Gateway":   {attached("shop/a", "HTTPRoute/draft"), []string{"shop:HTTPRoute/draft"}, []string{"Accepted: no Gateway has accepted HTTPRoute shop/draft"}},
		"no such route":           {attached("shop/a", "HTTPRoute/gone"), nil, []string{"TargetNotFound: HTTPRoute shop/gone does not exist"}},
		"a route of another kind": {attached("shop/a", "HTTPRoute/stock"), nil, []string{"TargetNotFound: HTTPRoute shop/stock does not exist"}},
		"a route elsewhere":       {attached("shop/a", "HTTPRoute/posts"), nil, []string{"TargetNotFound: HTTPRoute shop/posts does not exist"}},
		"no such rule":            {attached("shop/a", "HTTPRoute/checkout#refund"), nil, []string{"TargetNotFound: no rule with the name refund"}},
		"two targets, one exists": {
			attached("shop/a", "HTTPRoute/gone", "HTTPRoute/checkout"),
			[]string{"shop:HTTPRoute/checkout"},
			[]string{"TargetNotFound: does not exist", "Accepted: HTTPRoute/checkout"},
		},
		"a granted Gateway, own routes only": {
			attached("shop/a", "Gateway/infra:public"),
			[]string{"shop:GRPCRoute/stock", "shop:HTTPRoute/checkout"},
			[]string{"Accepted: one of the 2 routes that the Gateway has accepted from namespace shop"},
		},
		"a listener": {
			attached("shop/a", "Gateway/infra:public#https"),
			[]string{"shop:GRPCRoute/stock", "shop:HTTPRoute/checkout"},
			[]string{"Accepted: one of the 2 routes that the Gateway has accepted from namespace shop; 2 of them have other Gateways or listeners, whose requests count too, such as GRPCRoute shop/stock"},
		},
		"a Gateway and its route":       {attached("shop/a", "Gateway/infra:public", "HTTPRoute/checkout"), []string{"shop:GRPCRoute/stock", "shop:HTTPRoute/checkout"}, []string{"Accepted: ", "Accepted: "}},
		"a Gateway that is not granted": {attached("shop/a", "Gateway/infra:internal"), nil, []string{"RefNotPermitted: no ReferenceGrant in namespace infra permits RateLimitPolicies of namespace shop to target Gateway internal"}},
		// Without a grant, a status must not reveal what exists in another namespace.
		"an unknown Gateway that is not granted": {attached("shop/a", "Gateway/infra:gone"), nil, []string{"RefNotPermitted: no ReferenceGrant"}},
		"all Gateways are granted":               {attached("blog/a", "Gateway/infra:internal"), []string{"blog:HTTPRoute/posts"}, []string{"Accepted: such as HTTPRoute blog/posts"}},
		"no such Gateway":                        {attached("blog/a", "Gateway/infra:gone"), nil, []string{"TargetNotFound: Gateway infra/gone does not exist"}},
		"no such listener":                       {attached("shop/a", "Gateway/infra:public#tls"), nil, []string{"TargetNotFound: no listener with the name tls"}},
		"an own Gateway without routes":          {attached("shop/a", "Gateway/own"), []string{}, []string{"Accepted: Gateway shop/own has accepted no route, so there are no requests to limit"}},
		"an own Gateway, the routes of all namespaces": {
			attached("infra/a", "Gateway/public"),
			[]string{"blog:HTTPRoute/posts", "shop:GRPCRoute/stock", "shop:HTTPRoute/checkout"},
			[]string{"Accepted: limits the requests for which the gateway names one of the 3 routes that the Gateway has accepted from 2 namespaces; 1 of them have other Gateways or listeners, whose requests count too, such as HTTPRoute blog/posts"},
		},
		"a listener of an own Gateway": {
			attached("infra/a", "Gateway/infra:public#http"),
			[]string{"shop:GRPCRoute/stock", "shop:HTTPRoute/checkout"},
			[]string{"Accepted: one of the 2 routes that the Gateway has accepted from 1 namespace; 2 of them"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			result := compile.Policies{Namespaced: []policyapi.RateLimitPolicy{test.policy}, Gateways: gateways()}.Compile(testIdentity())
			check(t, result, test.routes, test.states)
		})
	}
}

func check(t *testing.T, result compile.Result, routes, states []string) {
	t.Helper()
	if len(result.Set.Rules) != min(1, len(routes)+len(result.Set.Rules)) || (routes == nil) != (len(result.Set.Rules) == 0) {
		t.Fatalf("%d rules, problems %v", len(result.Set.Rules), result.Problems)
	}
	if routes != nil {
		if diff := cmp.Diff(routes, routesOf(result.Set.Rules[0])); diff != "" {
			t.Errorf("routes (-want +got):\n%s", diff)
		}
	}
	if _, err := matching.NewIndex(result.Set, "sha256:test", "weir:"); err != nil {
		t.Errorf("a limiter rejects the Set: %v", err)
	}
	if len(result.Attachments) != 1 || len(result.Attachments[0].Targets) != len(states) {
		t.Fatalf("attachments %+v", result.Attachments)
	}
	for i, want := range states {
		reason, message, _ := strings.Cut(want, ": ")
		if got := result.Attachments[0].Targets[i]; got.Reason != reason || !strings.Contains(got.Message, message) {
			t.Errorf("target %d: %s: %s; want %s", i, got.Reason, got.Message, want)
		}
	}
	if routes == nil {
		reason, _, _ := strings.Cut(states[0], ": ")
		if p := result.Problems; len(p) != len(states) || p[0].Reason != reason || !strings.HasPrefix(p[0].Field, "spec.targetRefs[0]") {
			t.Errorf("problems %+v", p)
		}
	}
}

// The usual layout has the Gateway in one namespace, and its routes in others.
func TestCompile_ReportsPoliciesWithoutRoutes(t *testing.T) {
	policies := compile.Policies{
		Namespaced: []policyapi.RateLimitPolicy{
			attached("infra/inherited", "Gateway/public"), attached("idle/elsewhere", "Gateway/infra:public"), attached("shop/draft", "HTTPRoute/draft"), attached("shop/mesh", "HTTPRoute/mesh"),
			attached("shop/mixed", "Gateway/own", "HTTPRoute/checkout"), attached("shop/one-missing", "HTTPRoute/gone", "Gateway/own#http"),
		},
		Cluster:  []policyapi.ClusterRateLimitPolicy{attachedToCluster("all", "Gateway/infra:public"), attachedToCluster("own", "Gateway/shop:own")},
		Gateways: gateways(),
	}
	policies.Gateways.Gateways[2].Listeners = []gateway.Listener{{Name: "http"}}
	policies.Gateways.Grants = append(policies.Gateways.Grants, gateway.Grant{Namespace: "infra", From: "idle"})
	policies.Gateways.Routes = append(policies.Gateways.Routes, gateway.Route{Kind: "HTTPRoute", Namespace: "shop", Name: "mesh", Elsewhere: true})
	var got []string
	for _, u := range policies.Compile(testIdentity()).Unmatched {
		got = append(got, fmt.Sprintf("%s %s %t: %s", u.Reason, u.Policy, u.Cluster, u.Message))
	}
	want := []string{
		"NoRoutes _cluster/own true: spec.targetRefs[0]: Gateway shop/own has accepted no route, so there are no requests to limit; attach a route, or target another Gateway",
		"NoRoutes idle/elsewhere false: spec.targetRefs[0]: Gateway infra/public has accepted no route of namespace idle, and a RateLimitPolicy limits routes of other " +
			"namespaces only for a Gateway in its own namespace; attach a route of this namespace, move the policy to the namespace of the Gateway, or use a " +
			"ClusterRateLimitPolicy",
		"NoRoutes shop/draft false: spec.targetRefs[0]: no Gateway has accepted HTTPRoute shop/draft, so it gets no requests to limit; correct its spec.parentRefs, " +
			"or see its status.parents",
		"NoRoutes shop/one-missing false: spec.targetRefs[1]: listener http of Gateway shop/own has accepted no route, so there are no requests to limit; attach a route, " +
			"or target another Gateway",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	policies.Gateways = nil // a file, or the webhook
	if got := policies.Compile(testIdentity()).Unmatched; got != nil {
		t.Errorf("with unknown targets: %+v", got)
	}
}

func TestCompile_AClusterPolicyLimitsTheRoutesOfAllNamespaces(t *testing.T) {
	for name, test := range map[string]struct {
		targets, routes, states, domains []string
	}{
		"a Gateway": {
			[]string{"Gateway/infra:public"},
			[]string{"blog:HTTPRoute/posts", "shop:GRPCRoute/stock", "shop:HTTPRoute/checkout"},
			[]string{"Accepted: one of the 3 routes that the Gateway has accepted from 2 namespaces; 1 of them"},
			[]string{"blog", "shop"},
		},
		"a listener": {
			[]string{"Gateway/infra:public#http"}, []string{"shop:GRPCRoute/stock", "shop:HTTPRoute/checkout"}, []string{"Accepted: 2 routes"}, []string{"shop"},
		},
		"no routes": {[]string{"Gateway/shop:own"}, []string{}, []string{"Accepted: Gateway shop/own has accepted no route, so there are no requests to limit"}, nil},
		"unknown":   {[]string{"Gateway/infra:gone"}, nil, []string{"TargetNotFound: does not exist"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			policies := compile.Policies{Cluster: []policyapi.ClusterRateLimitPolicy{attachedToCluster("a", test.targets...)}, Gateways: gateways()}
			result := policies.Compile(testIdentity())
			check(t, result, test.routes, test.states)
			for _, rule := range result.Set.Rules {
				if diff := cmp.Diff(test.domains, rule.Domains); diff != "" || rule.AllDomains {
					t.Errorf("all domains: %v, domains (-want +got):\n%s", rule.AllDomains, diff)
				}
			}
		})
	}
}

// A limiter finds the rule in the domain of the request, which is the namespace of the route, and counts all of its domains together.
func TestCompile_RoutesOfOtherNamespacesInheritThePoliciesOfTheirGateway(t *testing.T) {
	policies := compile.Policies{Gateways: gateways(), Namespaced: []policyapi.RateLimitPolicy{
		attached("infra/public", "Gateway/public"), attached("shop/checkout", "HTTPRoute/checkout"), attached("shop/granted", "Gateway/infra:public"),
	}}
	result := policies.Compile(testIdentity())
	x, err := matching.NewIndex(result.Set, "sha256:test", "weir:")
	if err != nil || len(result.Problems) > 0 {
		t.Fatalf("%v, problems %v", err, result.Problems)
	}
	for request, want := range map[string]string{
		"shop HTTPRoute/checkout": "infra/public shop/checkout shop/granted", "shop HTTPRoute/draft": "", "blog HTTPRoute/posts": "infra/public",
		"infra HTTPRoute/posts": "", "other HTTPRoute/checkout": "", "shop GRPCRoute/stock": "infra/public shop/granted",
	} {
		domain, target, _ := strings.Cut(request, " ")
		var got []string
		for _, m := range x.Match(nil, &rules.Request{Domain: domain, Path: "/", Descriptors: []rules.Descriptor{{{Key: rules.RouteEntry, Value: target}}}}) {
			got = append(got, m.Rule.Policy)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: matches %v, want %s", request, got, want)
		}
	}
	var domains []string
	for _, rule := range result.Set.Rules {
		domains = append(domains, fmt.Sprint(rule.Policy, " ", rule.Domain, rule.Domains))
	}
	// The rule of an own namespace is that of earlier versions.
	if diff := cmp.Diff([]string{"infra/public infra[blog shop]", "shop/checkout shop[]", "shop/granted shop[]"}, domains); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A gateway that does not name the route: the limiter finds it in the table of routes, and the policies in the domain of the route.
func TestCompile_RoutesOfTheTableInheritThePoliciesOfTheirGateway(t *testing.T) {
	g := &gateway.Objects{Gateways: []gateway.Gateway{{Namespace: "infra", Name: "public", Listeners: []gateway.Listener{{Name: "http", Port: 80, HTTP: true}}}}}
	for _, namespace := range []string{"blog", "shop"} {
		g.Routes = append(g.Routes, gateway.Route{
			Kind: "HTTPRoute", Namespace: namespace, Name: "a", Hostnames: []string{namespace + ".example"},
			Parents: []gateway.Parent{{Namespace: "infra", Gateway: "public"}}, Matches: []gateway.RouteMatch{{}},
		})
	}
	g.Routes[0].Parents[0].Gateway = "another"
	p := compile.Policies{Gateways: g, RouteMatching: []policyapi.GatewayReference{{Namespace: "infra", Name: "public"}}}
	p.Namespaced = []policyapi.RateLimitPolicy{attached("infra/public", "Gateway/public#http")}
	result := p.Compile(testIdentity())
	x, err := matching.NewIndex(result.Set, "sha256:test", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{"shop.example": 1, "blog.example": 0} {
		matched := 0
		for _, found := range x.RoutesOf(&route.Request{Host: host, Target: "/", Method: "GET", Port: 80}) {
			named := []rules.Descriptor{{{Key: rules.RouteEntry, Value: found.Target}}}
			matched += len(x.Match(nil, &rules.Request{Domain: found.Namespace, Host: host, Path: "/", Descriptors: named}))
		}
		if matched != want {
			t.Errorf("%s: %d policies match, want %d; table %+v", host, matched, want, result.Set.RouteTable)
		}
	}
}

// A request is charged to 32 policies of each namespace. The owner of a route must not multiply them by Gateways in many namespaces, nor escape the
// policies of the Gateway that took the route first.
func TestInherited_ARouteHasThePoliciesOfItsOldestGateways(t *testing.T) {
	g := &gateway.Objects{}
	route := gateway.Route{Kind: "HTTPRoute", Namespace: "shop", Name: "a"}
	for i, name := range []string{"z", "e", "d", "c", "b", "a", "shop"} {
		created := time.Unix(int64(i), 0)
		g.Gateways = append(g.Gateways, gateway.Gateway{Namespace: name, Name: "young", Created: time.Unix(100, 0)}, gateway.Gateway{Namespace: name, Name: "old", Created: created})
		route.Parents = append(route.Parents, gateway.Parent{Namespace: name, Gateway: "young"}, gateway.Parent{Namespace: name, Gateway: "old"})
	}
	g.Routes = []gateway.Route{route}
	p := compile.Policies{Gateways: g, Cluster: []policyapi.ClusterRateLimitPolicy{attachedToCluster("a", "Gateway/a:young")}}
	for _, namespace := range []string{"a", "b", "c", "d", "e", "shop", "z"} {
		p.Namespaced = append(p.Namespaced, attached(namespace+"/p", "Gateway/young"))
	}
	result := p.Compile(testIdentity())
	var got []string
	for _, rule := range result.Set.Rules {
		if len(rule.Match.Routes) > 0 {
			got = append(got, rule.Policy)
		}
	}
	if diff := cmp.Diff([]string{"_cluster/a", "c/p", "d/p", "e/p", "shop/p", "z/p"}, got); diff != "" {
		t.Errorf("policies that the route inherits (-want +got):\n%s", diff)
	}
	const want = "spec.targetRefs[0]: Gateway a/young has accepted no route, so there are no requests to limit; attach a route, or target another Gateway" +
		"; does not limit 1 more routes, which inherit policies from the older Gateways of 4 namespaces"
	if u := result.Unmatched; len(u) != 2 || u[0].Policy != "a/p" || u[0].Message != want {
		t.Errorf("without requests: %+v", u)
	}
}

// Policies in the namespace of a route are not inherited: the bound on the namespaces that a route inherits from does not apply to them.
func TestInherited_ARouteKeepsThePoliciesOfItsOwnNamespaceForAnyGateway(t *testing.T) {
	g := &gateway.Objects{}
	route := gateway.Route{Kind: "HTTPRoute", Namespace: "shop", Name: "a"}
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		g.Gateways = append(g.Gateways, gateway.Gateway{Namespace: name, Name: "public", Created: time.Unix(int64(i), 0)})
		g.Grants = append(g.Grants, gateway.Grant{Namespace: name, From: "shop"})
		route.Parents = append(route.Parents, gateway.Parent{Namespace: name, Gateway: "public"})
	}
	g.Routes = []gateway.Route{route}
	result := compile.Policies{Gateways: g, Namespaced: []policyapi.RateLimitPolicy{attached("shop/p", "Gateway/e:public")}}.Compile(testIdentity())
	if list := result.Set.Rules; len(list) != 1 || len(list[0].Match.Routes) != 1 || len(result.Unmatched) > 0 {
		t.Errorf("rules %+v, without requests %+v", list, result.Unmatched)
	}
}

// The operator has started and cannot read routes yet: it must not report that a policy has changed, or has not.
func TestCompile_KeepsTheRuleOfAPolicyWhileRoutesAreUnreadable(t *testing.T) {
	for name, change := range map[string]func(*policyapi.RateLimitPolicySpec){"unchanged": nil, "changed": func(s *policyapi.RateLimitPolicySpec) { s.Limit = new(*s.Limit + 1) }} {
		cluster, namespaced := attachedToCluster("a", "Gateway/infra:public"), attached("infra/a", "Gateway/public")
		policies := func(g *gateway.Objects) compile.Policies {
			return compile.Policies{Cluster: []policyapi.ClusterRateLimitPolicy{cluster}, Namespaced: []policyapi.RateLimitPolicy{namespaced}, Gateways: g}
		}
		before := policies(gateways()).Compile(testIdentity())
		if change != nil {
			change(&cluster.Spec.RateLimitPolicySpec)
			change(&namespaced.Spec)
		}
		after := policies(&gateway.Objects{Unreadable: gateway.ErrGatewaysPending, Previous: before.Set}).Compile(testIdentity())
		if diff := cmp.Diff(before.Set.Rules, after.Set.Rules); diff != "" || len(before.Set.Rules) != 2 {
			t.Errorf("%s: %d rules, -before +after:\n%s", name, len(before.Set.Rules), diff)
		}
		if len(after.Kept) != 2 || after.Kept[0].Outdated != (change != nil) || after.Kept[1].Outdated != (change != nil) {
			t.Errorf("%s: kept %+v", name, after.Kept)
		}
	}
}

func TestCompile_ReportsThatTheGatewayAPIIsNotInstalled(t *testing.T) {
	missing := &gateway.Objects{Missing: []policyapi.TargetKind{policyapi.TargetGRPCRoute}, Gateways: gateways().Gateways, Routes: gateways().Routes}
	policies := []policyapi.RateLimitPolicy{attached("shop/a", "GRPCRoute/stock"), attached("shop/b", "HTTPRoute/checkout")}
	result := compile.Policies{Namespaced: policies, Gateways: missing}.Compile(testIdentity())
	want := []compile.Problem{{
		Policy: "shop/a", Field: "spec.targetRefs[0]", Reason: "TargetNotFound",
		Message: "the cluster has no GRPCRoute, because the CRDs of the Gateway API are not installed; install them: the operator finds them without a restart",
	}}
	if diff := cmp.Diff(want, result.Problems); diff != "" || len(result.Set.Rules) != 1 {
		t.Errorf("%d rules, problems (-want +got):\n%s", len(result.Set.Rules), diff)
	}
}

// Files and the webhook do not know the objects of the cluster.
func TestCompile_AssumesThatRoutesExistIfTheyAreUnknown(t *testing.T) {
	policies := []policyapi.RateLimitPolicy{attached("shop/a", "HTTPRoute/x"), attached("shop/b", "HTTPRoute/x"), attached("shop/c", "Gateway/infra:public")}
	result := compile.Policies{Namespaced: policies}.Compile(testIdentity())
	var got []string
	for _, rule := range result.Set.Rules {
		got = append(got, fmt.Sprint(rule.Policy, routesOf(rule)))
	}
	if diff := cmp.Diff([]string{"shop/a[shop:HTTPRoute/x]", "shop/b[shop:HTTPRoute/x]", "shop/c[]"}, got); diff != "" || len(result.Problems) > 0 {
		t.Errorf("problems %v, rules (-want +got):\n%s", result.Problems, diff)
	}
}

func TestCompile_RejectsTheYoungerOfTwoPoliciesThatCountTheSame(t *testing.T) {
	at := func(p policyapi.RateLimitPolicy, minute int, change func(*policyapi.RateLimitPolicySpec)) policyapi.RateLimitPolicy {
		p.CreationTimestamp = time.Date(2026, 11, 1, 0, minute, 0, 0, time.UTC)
		p.Spec.Limit = new(*p.Spec.Limit + int64(minute)) // another limit is the same conflict
		if change != nil {
			change(&p.Spec)
		}
		return p
	}
	get := func(s *policyapi.RateLimitPolicySpec) {
		s.Match = &policyapi.Match{HTTP: &policyapi.HTTPMatch{Methods: []policyapi.Method{"GET"}}}
	}
	older := at(attached("shop/old", "HTTPRoute/checkout", "HTTPRoute/draft"), 1, nil)
	for name, test := range map[string]struct {
		other  policyapi.RateLimitPolicy
		routes []string
		states []string
	}{
		"the same":              {at(attached("shop/new", "HTTPRoute/checkout"), 2, nil), nil, []string{"Conflicted: policy shop/old, which is older, counts the same requests of HTTPRoute/checkout in the same way"}},
		"one target of two":     {at(attached("shop/new", "HTTPRoute/draft", "GRPCRoute/stock"), 2, nil), []string{"shop:GRPCRoute/stock"}, []string{"Conflicted: of HTTPRoute/draft", "Accepted: GRPCRoute/stock"}},
		"another rule":          {at(attached("shop/new", "HTTPRoute/checkout#pay"), 2, nil), []string{"shop:HTTPRoute/checkout/pay"}, []string{"Accepted: "}},
		"another target":        {at(attached("shop/new", "GRPCRoute/stock"), 2, nil), []string{"shop:GRPCRoute/stock"}, []string{"Accepted: "}},
		"another axis":          {at(attached("shop/new", "HTTPRoute/checkout"), 2, func(s *policyapi.RateLimitPolicySpec) { s.Axis = policyapi.AxisUser }), []string{"shop:HTTPRoute/checkout"}, []string{"Accepted: "}},
		"another window":        {at(attached("shop/new", "HTTPRoute/checkout"), 2, func(s *policyapi.RateLimitPolicySpec) { s.Window = "1h" }), []string{"shop:HTTPRoute/checkout"}, []string{"Accepted: "}},
		"shadow":                {at(attached("shop/new", "HTTPRoute/checkout"), 2, func(s *policyapi.RateLimitPolicySpec) { s.Enforcement = "Shadow" }), []string{"shop:HTTPRoute/checkout"}, []string{"Accepted: "}},
		"another match":         {at(attached("shop/new", "HTTPRoute/checkout"), 2, get), []string{"shop:HTTPRoute/checkout"}, []string{"Accepted: "}},
		"no target":             {at(attached("shop/new"), 2, nil), nil, nil},
		"a target that is gone": {at(attached("shop/new", "HTTPRoute/gone"), 2, nil), nil, []string{"TargetNotFound: "}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, order := range [][]policyapi.RateLimitPolicy{{older, test.other}, {test.other, older}} {
				result := compile.Policies{Namespaced: order, Gateways: gateways()}.Compile(testIdentity())
				var got []string
				for _, a := range result.Attachments {
					for _, target := range a.Targets {
						if a.Policy == "shop/old" && target.Reason != "Accepted" {
							t.Errorf("the older policy has %s: %s", target.Reason, target.Message)
						}
						if a.Policy == "shop/new" {
							got = append(got, target.Reason+": "+target.Message)
						}
					}
				}
				if len(got) != len(test.states) {
					t.Fatalf("targets %q", got)
				}
				for i, want := range test.states {
					reason, message, _ := strings.Cut(want, ": ")
					if !strings.HasPrefix(got[i], reason+": ") || !strings.Contains(got[i], message) {
						t.Errorf("target %d: %s; want %s", i, got[i], want)
					}
				}
				for _, rule := range result.Set.Rules {
					if rule.Policy == "shop/new" && test.routes != nil && !cmp.Equal(routesOf(rule), test.routes) {
						t.Errorf("routes %v, want %v", routesOf(rule), test.routes)
					}
				}
				if want := test.states != nil && test.routes == nil; (len(result.Problems) > 0) != want {
					t.Errorf("problems %v", result.Problems)
				}
			}
		})
	}
}

// A policy of a team replaces the default of the platform for its routes.
func TestCompile_APolicyForARouteRefinesTheDefaultOfItsGateway(t *testing.T) {
	platform := attachedToCluster("platform", "Gateway/infra:public")
	platform.Spec.Precedence = policyapi.PrecedenceDefault
	checkout := attached("shop/checkout", "HTTPRoute/checkout")
	checkout.Spec.Replaces = []policyapi.PolicyName{"platform"}
	policies := compile.Policies{
		Namespaced: []policyapi.RateLimitPolicy{checkout}, Cluster: []policyapi.ClusterRateLimitPolicy{platform}, Gateways: gateways(),
	}
	x, err := matching.NewIndex(policies.Compile(testIdentity()).Set, "sha256:test", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	for route, want := range map[string][]string{
		"shop:HTTPRoute/checkout": {"shop/checkout"}, "shop:GRPCRoute/stock": {"_cluster/platform"}, "blog:HTTPRoute/posts": {"_cluster/platform"},
		"blog:HTTPRoute/checkout": nil, "shop:HTTPRoute/draft": nil,
	} {
		domain, target, _ := strings.Cut(route, ":")
		request := &rules.Request{Domain: domain, Method: "GET", Path: "/", Descriptors: []rules.Descriptor{{{Key: "target", Value: target}}}}
		var got []string
		for _, m := range x.Match(nil, request) {
			got = append(got, m.Rule.Policy)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", route, diff)
		}
	}
}

func TestCompile_RejectsInvalidTargets(t *testing.T) {
	policy := func(change func(*policyapi.RateLimitPolicySpec), targets ...string) compile.Policies {
		p := attached("shop/a", targets...)
		if change != nil {
			change(&p.Spec)
		}
		return compile.Policies{Namespaced: []policyapi.RateLimitPolicy{p}}
	}
	inCluster := func(domains []policyapi.Domain, targets ...string) compile.Policies {
		p := attachedToCluster("a", targets...)
		p.Spec.Domains = domains
		return compile.Policies{Cluster: []policyapi.ClusterRateLimitPolicy{p}}
	}
	many := make([]string, 17)
	for i := range many {
		many[i] = fmt.Sprintf("HTTPRoute/r%d", i)
	}
	for name, test := range map[string]struct {
		policies compile.Policies
		want     []string
	}{
		"another kind":      {policy(nil, "Service/a"), []string{`spec.targetRefs[0].kind: unknown value "Service"; supported values: HTTPRoute, GRPCRoute, Gateway`}},
		"no kind":           {policy(nil, "/a"), []string{"spec.targetRefs[0].kind: must not be empty"}},
		"no name":           {policy(nil, "HTTPRoute/"), []string{"spec.targetRefs[0].name: must not be empty"}},
		"another group":     {policy(func(s *policyapi.RateLimitPolicySpec) { s.TargetRefs[0].Group = "example.com" }, "HTTPRoute/a"), []string{"spec.targetRefs[0].group: unknown group"}},
		"a route elsewhere": {policy(nil, "HTTPRoute/blog:a"), []string{"spec.targetRefs[0].namespace: namespace is valid only with kind Gateway"}},
		"twice":             {policy(nil, "HTTPRoute/a", "HTTPRoute/a#x", "HTTPRoute/a"), []string{"spec.targetRefs: targetRefs must be unique"}},
		"too many":          {policy(nil, many...), []string{"spec.targetRefs: 17 targets, but at most 16"}},
		"descriptors": {policy(func(s *policyapi.RateLimitPolicySpec) {
			s.Match = &policyapi.Match{Descriptors: []policyapi.DescriptorMatch{{Key: "a"}}}
		}, "HTTPRoute/a"), []string{"spec.match: match must not have descriptors"}},
		"hosts": {policy(func(s *policyapi.RateLimitPolicySpec) {
			s.Match = &policyapi.Match{HTTP: &policyapi.HTTPMatch{Hosts: []policyapi.Host{"a.example"}}}
		}, "HTTPRoute/a"), []string{"spec.match: match must not have descriptors, kubernetes and http.hosts"}},
		"a route in a cluster policy":                     {inCluster(nil, "HTTPRoute/a"), []string{"spec.targetRefs[0]: targetRefs of a ClusterRateLimitPolicy must have kind Gateway and a namespace"}},
		"a Gateway without namespace in a cluster policy": {inCluster(nil, "Gateway/a"), []string{"spec.targetRefs[0]: targetRefs of a ClusterRateLimitPolicy"}},
		"domains": {inCluster([]policyapi.Domain{"shop"}, "Gateway/infra:a"), []string{"spec.domains: domains must not be set together with targetRefs"}},
	} {
		result := test.policies.Compile(testIdentity())
		if len(result.Problems) != len(test.want) || len(result.Set.Rules) > 0 {
			t.Errorf("%s: problems %v", name, result.Problems)
			continue
		}
		for i, want := range test.want {
			if got := result.Problems[i]; !strings.HasPrefix(got.Field+": "+got.Message, want) || got.Reason != "Invalid" {
				t.Errorf("%s: %s: %s: %s; want %s", name, got.Reason, got.Field, got.Message, want)
			}
		}
	}
}

func TestIsRedundant_ComparesPoliciesForRoutes(t *testing.T) {
	compiled := func(gateways *gateway.Objects, cluster policyapi.ClusterRateLimitPolicy, route policyapi.RateLimitPolicy) (clusterRule, rule *rules.Rule) {
		p := compile.Policies{Namespaced: []policyapi.RateLimitPolicy{route}, Cluster: []policyapi.ClusterRateLimitPolicy{cluster}, Gateways: gateways}
		set := p.Compile(testIdentity()).Set
		if len(set.Rules) != 2 {
			t.Fatalf("%d rules", len(set.Rules))
		}
		return &set.Rules[0], &set.Rules[1]
	}
	platform, checkout := attachedToCluster("platform", "Gateway/infra:public"), attached("shop/checkout", "HTTPRoute/checkout")
	cluster, route := compiled(gateways(), platform, checkout)
	if !redundancy.IsRedundant(route, cluster) {
		t.Error("a policy for a route of the Gateway is not redundant, although that of the Gateway is as strict")
	}
	cluster, route = compiled(gateways(), platform, attached("shop/draft", "HTTPRoute/draft"))
	if redundancy.IsRedundant(route, cluster) {
		t.Error("a policy for a route is redundant, although the Gateway has not accepted the route")
	}
	cluster, route = compiled(nil, platform, checkout)
	if redundancy.IsRedundant(cluster, route) {
		t.Error("a policy for a Gateway is redundant, although its routes are unknown")
	}
}

func TestCompile_ComparesEachTargetWithThoseOfOlderPolicies(t *testing.T) {
	known := gateways()
	known.Gateways = append(known.Gateways, gateway.Gateway{Namespace: "edge", Name: "public"})
	cluster := compile.Policies{Gateways: known, Cluster: []policyapi.ClusterRateLimitPolicy{
		attachedToCluster("a", "Gateway/infra:public"), attachedToCluster("b", "Gateway/edge:public", "Gateway/infra:gone", "Gateway/infra:public", "Gateway/infra:internal"),
		attachedToCluster("c", "Gateway/infra:public", "Gateway/infra:internal"),
	}}
	var got []string
	for _, a := range cluster.Compile(testIdentity()).Attachments {
		for _, target := range a.Targets {
			got = append(got, a.Policy+" "+target.Reason)
		}
	}
	want := []string{
		"_cluster/a Accepted", "_cluster/b Accepted", "_cluster/b TargetNotFound", "_cluster/b Conflicted", "_cluster/b Accepted",
		"_cluster/c Conflicted", "_cluster/c Conflicted",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Policies of two namespaces for one Gateway limit different routes. A policy must not disable that of another tenant, or reveal its name.
func TestCompile_PoliciesOfTwoNamespacesForOneGatewayDoNotConflict(t *testing.T) {
	old, young := attached("blog/old", "Gateway/infra:public"), attached("shop/young", "Gateway/infra:public")
	old.CreationTimestamp, young.CreationTimestamp = time.Unix(1, 0), time.Unix(2, 0)
	result := compile.Policies{Namespaced: []policyapi.RateLimitPolicy{old, young}, Gateways: gateways()}.Compile(testIdentity())
	if len(result.Problems) > 0 || len(result.Set.Rules) != 2 {
		t.Errorf("%d rules, want 2; problems %v", len(result.Set.Rules), result.Problems)
	}
}

// A policy that gets targetRefs while the objects cannot be read must not lose its limit.
func TestUnreadable_PolicyThatGetsATargetKeepsItsRule(t *testing.T) {
	policy := attached("shop/a", "HTTPRoute/checkout")
	targets := policy.Spec.TargetRefs
	policy.Spec.TargetRefs = nil
	before := compile.Policies{Namespaced: []policyapi.RateLimitPolicy{policy}}.Compile(testIdentity())
	policy.Spec.TargetRefs = targets
	g := &gateway.Objects{Unreadable: gateway.ErrGatewaysPending, Previous: before.Set}
	after := compile.Policies{Namespaced: []policyapi.RateLimitPolicy{policy}, Gateways: g}.Compile(testIdentity())
	if len(before.Set.Rules) != 1 {
		t.Fatalf("%d rules before", len(before.Set.Rules))
	}
	if diff := cmp.Diff(before.Set.Rules, after.Set.Rules); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	if diff := cmp.Diff([]compile.Kept{{Policy: "shop/a", Outdated: true}}, after.Kept); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
