package matching_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/test/fixture/spelling"
)

// sent returns a request of domain shop as a client has sent its target.
func sent(target string) *rules.Request {
	r := request("GET - /")
	r.SetTarget(target)
	r.SetQuery(target)
	return r
}

func policies(matched []matching.Matched) (names []string) {
	for _, m := range matched {
		name := m.Rule.Policy
		if m.Rule.PerEndpoint {
			name += " " + m.Endpoint
		}
		names = append(names, name)
	}
	return names
}

func TestMatch_NoSpellingAvoidsAPolicy(t *testing.T) {
	for pattern, targets := range map[rules.PathMatch][]string{
		{Type: rules.PathPrefix, Value: "/v1/query"}: {
			"/v1/query", "/v1/query/..%2F..?q=cats", "/v1/query/%2e%2e%2f%2e%2e", "/v1/query/.%2F..", "/v1/query/%2e%2e/%2e%2e", `/v1\query`, "/v1/query%20",
			"/v1/query%00", "/v1/query;a=b/x", "//v1/query", "//host/v1/query", "/v1/query/../../static", `/v1/query/..\..\x`, "/v1/%2571uery",
			"/x/../v1/query/..%2F..", "/v1/query#", "/v1/query..", "/v1%2fquery", "/v1/query%3Fq=x", "/v1/query/" + strings.Repeat("../", 4000),
			"/v1/query/" + strings.Repeat("%2e%2e%2f..;/.%2e\\//", 30), strings.Repeat("/x;y/..%2f//", 1000) + "/v1/query",
		},
		{Type: rules.PathExact, Value: "/v1/login"}: {
			"/v1/login", "/v1/x/..%2Flogin", "/v1/..%2Fx/../login", "/v1/x//../login", `/v1\login`, "/v1/login;x=1", "/v1/login%20", "/v1/login%00.png",
			"/v1/login.", "/v1/login/", "/v1/login/.", "/v1/x/..;/login", "/x#/../v1/login", "http://other.example/v1/login",
		},
		{Type: rules.PathRegex, Value: "/v1/query(/.*)?"}: {"/v1/query", "/v1/query/..%2F..", "/v1;x/query", "//v1/query/../..", `/v1\query\x`},
	} {
		x := index(t, ruleMatching(rules.Match{Paths: []rules.PathMatch{pattern}}))
		for _, target := range targets {
			if got := x.Match(nil, sent(target)); len(got) != 1 {
				t.Errorf("%v: %.60q matched %d times, want 1", pattern, target, len(got))
			}
		}
		for _, target := range []string{"/v1/other", "/v1/other%20", "/v2/query;x", "/v1/quer%20y", "/v1/quer%3Fy", "/x/..%2F..", "/v1"} {
			if got := x.Match(nil, sent(target)); len(got) != 0 {
				t.Errorf("%v: %q matched", pattern, target)
			}
		}
	}
}

// What makes a limit laxer must hold for each reading: a namespace's own policy in place of a default, a condition that excludes a path, a tier, and
// an identifier.
func TestMatch_NoSpellingReachesAnExemption(t *testing.T) {
	const spelling = "/v1/query/..%2F..%2Fstatic"
	own := ruleMatching(path(rules.PathPrefix, "/static"))
	own.Policy, own.ReplacesDefaults = "shop/own", []string{"_cluster/default"}
	fallback := asDefault(clusterRule("default"))
	x := index(t, fallback, own)
	for target, want := range map[string]string{"/static": "shop/own", spelling: "_cluster/default shop/own", "/v1/query": "_cluster/default"} {
		if got := strings.Join(policies(x.Match(nil, sent(target))), " "); got != want {
			t.Errorf("%s is charged to %s, want %s", target, got, want)
		}
	}
	excluding := index(t, ruleMatching(rules.Match{Expression: `!request.path.startsWith("/static")`}))
	for target, want := range map[string]int{"/static": 0, "/static/%20": 0, spelling: 1, "/v1": 1, "/static/..%2Fv1": 1} {
		if got := excluding.Match(nil, sent(target)); len(got) != want {
			t.Errorf("a policy that excludes a path: %s matched %d times, want %d", target, len(got), want)
		}
	}
	tiered := ruleMatching(rules.Match{})
	tiered.Units = 10
	tiered.Tiers = []rules.Tier{
		{Name: "static", When: rules.When{Expression: `request.path.startsWith("/static")`}, Unlimited: true},
		{Name: "reports", When: rules.When{Expression: `request.path.startsWith("/reports")`}, Units: 1},
	}
	tiered.Cost = &rules.Cost{Expression: `request.path.startsWith("/v1/query") ? 5 : 1`}
	y := index(t, tiered)
	for target, want := range map[string]string{
		"/static": "static 1", spelling: " 5", "/reports": "reports 1", "/static/..%2Freports": "reports 1", "/reports/..%2Fstatic": "reports 1", "/v1": " 1",
		"/static/" + strings.Repeat("%2e%2e%2f..;/.%2e\\//", 30): "reports 1",
	} {
		r := sent(target)
		terms := y.Match(nil, r)[0].Terms(r, "acme")
		if got := fmt.Sprint(terms.Tier, " ", terms.Cost); got != want || terms.Unlimited != (target == "/static") {
			t.Errorf("%.40s has the tier and the cost %q, want %q", target, got, want)
		}
	}
	named := ruleMatching(rules.Match{})
	named.Identifier = rules.Identifier{From: rules.FromExpression, Name: `request.path == "/static" ? "static" : "other"`}
	z := index(t, named)
	for target, want := range map[string]string{"/static": "static", "/v1": "other", "/static/%20": "other", spelling: ""} {
		r := sent(target)
		m := z.Match(nil, r)[0]
		if got := m.Identify(r); got != want || want == "" && !m.Unreadable(r) {
			t.Errorf("%s has the identifier %q, want %q", target, got, want)
		}
	}
}

func TestMatch_ASpellingIsCountedForEachEndpointThatItCanReach(t *testing.T) {
	withPaths, without := ruleMatching(path(rules.PathPrefix, "/v1/query", "/other")), ruleMatching(rules.Match{})
	withPaths.Policy, without.Policy = "shop/a", "shop/b"
	withPaths.PerEndpoint, without.PerEndpoint = true, true
	x := index(t, withPaths, without)
	for target, want := range map[string]string{
		"/v1/query/x":              "shop/a /v1/query, shop/b /v1/query/x",
		"/v1/%71uery//x/":          "shop/a /v1/query, shop/b /v1/query/x",
		"/v1/query/..%2F../other":  "shop/a /other, shop/a /v1/query, shop/b /other, shop/b /v1/query/../../other",
		"/v1/query;a":              "shop/a /v1/query, shop/b /v1/query;a, shop/b /v1/query",
		"/v1/query/%2e%2e/..;%2F;": "shop/a /v1/query, shop/b *",
	} {
		if got := strings.Join(policies(x.Match(nil, sent(target))), ", "); got != want {
			t.Errorf("%s is charged to %s, want %s", target, got, want)
		}
	}
}

func TestMatch_IgnoresCaseIfThePolicyDoes(t *testing.T) {
	match := rules.Match{IgnoreCase: true, Paths: []rules.PathMatch{
		{Type: rules.PathExact, Value: "/V1/Login"}, {Type: rules.PathPrefix, Value: "/caf\u00c9"}, {Type: rules.PathRegex, Value: "/r[a-f]+/k"},
	}}
	ignoring, exact := index(t, ruleMatching(match)), index(t, ruleMatching(rules.Match{Paths: match.Paths}))
	for target, want := range map[string][2]int{
		"/v1/login": {1, 0}, "/V1/Login": {1, 1}, "/V1/LOGIN": {1, 0}, "/caf%C3%A9/x": {1, 0}, "/CAF%C3%89": {1, 0}, "/caf%C3%89": {1, 1}, "/RA/K": {1, 0},
		"/ra/\u212a": {1, 0}, "/ra/k": {1, 1}, "/v1/logi": {0, 0}, "/v1%5cLOGIN;x": {1, 0}, "/\xff": {0, 0},
	} {
		if got := [2]int{len(ignoring.Match(nil, sent(target))), len(exact.Match(nil, sent(target)))}; got != want {
			t.Errorf("%s matches %d and without ignoreCase %d policies, want %v", target, got[0], got[1], want)
		}
	}
	match.Paths = nil
	counting := ruleMatching(match)
	counting.PerEndpoint = true
	if got := policies(index(t, counting).Match(nil, sent("/V1/LogIn"))); !slices.Equal(got, []string{"shop/it /v1/login"}) {
		t.Errorf("charged to %q, want one endpoint for all cases", got)
	}
}

func TestMatch_AnotherMethodForTheSameHandler(t *testing.T) {
	for text, want := range map[string][2]int{ // policies of GET and of DELETE
		"GET - /": {1, 0}, "HEAD - /": {1, 0}, "get - /": {1, 0}, "head - /": {1, 0}, "POST - /": {0, 0}, "POST - / x-http-method-override=delete": {0, 1},
		"POST - / x-http-method=DELETE": {0, 1}, "POST - / x-method-override=get": {1, 0}, "PUT - / x-http-method-override=DELETE": {0, 0}, "OPTIONS - /": {0, 0},
	} {
		var got [2]int
		for i, method := range []string{http.MethodGet, http.MethodDelete} {
			got[i] = len(index(t, ruleMatching(rules.Match{Methods: []string{method}})).Match(nil, request(text)))
		}
		if got != want {
			t.Errorf("%s matches %v, want %v", text, got, want)
		}
	}
	r := request("POST - /")
	r.Query = map[string][]string{"_method": {"put", "delete"}}
	if got := index(t, ruleMatching(rules.Match{Methods: []string{"DELETE"}})).Match(nil, r); len(got) != 1 {
		t.Error("a POST with the parameter _method matches no policy of DELETE")
	}
}

func TestMatch_OneOfSeveralValuesOfAHeader(t *testing.T) {
	for value, want := range map[string]int{"free": 1, "free,paid": 1, "paid, free": 1, "paid": 0, "freedom,paid": 0, "": 0, strings.Repeat("a,", 20) + "free": 1} {
		for _, kind := range []rules.HeaderMatchType{rules.HeaderExact, rules.HeaderRegex} {
			r := request("GET - /")
			r.Headers["x-plan"] = value
			if got := index(t, ruleMatching(header(rules.HeaderMatch{Type: kind, Name: "x-plan", Value: "free"}))).Match(nil, r); len(got) != want {
				t.Errorf("%s %.20q matches %d policies, want %d", kind, value, len(got), want)
			}
		}
	}
}

// A path with many readings matches every policy with paths, and a request is charged to a bounded number: those that a reading meets come first.
func TestBounded_APathWithManyReadingsIsCountedForItsEndpoint(t *testing.T) {
	var list []rules.Rule
	for i := range 40 {
		r := rule(fmt.Sprintf("shop/endpoint-%02d", i))
		r.Match.Paths = []rules.PathMatch{{Type: rules.PathPrefix, Value: fmt.Sprintf("/v1/endpoint%02d", i)}}
		list = append(list, r)
	}
	x := index(t, list...)
	for _, target := range []string{"/v1/endpoint39/;" + strings.Repeat("a", 4500), "/v1/endpoint39/" + strings.Repeat("%2e%2e;x/", 500), "/v1/endpoint39;/..%2f./%2e/;"} {
		matched := x.Match(nil, sent(target))
		kept, _ := x.Bounded(matched)
		if !slices.Contains(policies(kept), "shop/endpoint-39") {
			t.Errorf("%.40s matches %d policies and is charged to %q", target, len(matched), policies(kept))
		}
	}
}

// Go's own server reads the target, and its ServeMux finds the handler. Whenever that is the handler of a limited path, the policy matches.
func TestMatch_ServeMuxReachesNoLimitedPathWithoutThePolicy(t *testing.T) {
	limited := 0
	mux := http.NewServeMux()
	for _, pattern := range []string{"/v1/query", "/v1/query/", "/v2/{version}/exact"} {
		mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) { limited++ })
	}
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	x := index(t, ruleMatching(rules.Match{Paths: []rules.PathMatch{
		{Type: rules.PathPrefix, Value: "/v1/query"}, {Type: rules.PathRegex, Value: "/v2/[^/]+/exact"},
	}}))
	const count = 20_000
	reached := 0
	for _, target := range spelling.Targets(1, count, "/v1/query", "/v1/query/x", "/v2/x/exact") {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: shop.example\r\n\r\n")))
		if err != nil {
			continue // the server rejects it
		}
		limited = 0
		mux.ServeHTTP(httptest.NewRecorder(), r)
		if limited == 0 {
			continue
		}
		reached++
		if got := x.Match(nil, sent(target)); len(got) != 1 {
			t.Errorf("the handler of a limited path got %q, and %d policies match", target, len(got))
		}
	}
	if reached < count/10 {
		t.Errorf("%d of %d targets reached the handlers: the generator proves too little", reached, count)
	}
}

// The cost reads both the path, which has several readings, and the descriptor that the rule matched, which is not the first one of the request.
func TestTerms_ReadTheMatchedDescriptorUnderEachReadingOfThePath(t *testing.T) {
	r := ruleMatching(rules.Match{Descriptors: []rules.DescriptorMatch{{Key: "plan"}}})
	r.Cost = &rules.Cost{Expression: `request.descriptors[0][0].key == "plan" && request.path.startsWith("/v1/query") ? 3 : 2`}
	req := sent("/v1/query/..%2F..")
	req.Descriptors = []rules.Descriptor{{{Key: "other", Value: "x"}}, {{Key: "plan", Value: "paid"}}}
	got := index(t, r).Match(nil, req)
	if len(got) != 1 {
		t.Fatalf("%d rules match, want 1", len(got))
	}
	for range 2 { // the second time with the readings of the first
		if cost := got[0].Terms(req, "acme").Cost; cost != 3 {
			t.Errorf("cost %d, want that of the strictest reading, 3", cost)
		}
	}
}
