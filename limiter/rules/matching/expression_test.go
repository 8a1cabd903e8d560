package matching_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/expr"
)

// fullRequest returns a request that sets every field.
func fullRequest() *rules.Request {
	return &rules.Request{
		Domain: "shop", Method: "GET", Host: "api.shop.example", Path: "/v1/search.json",
		Query:    map[string][]string{"q": {"x", "y"}},
		Headers:  map[string]string{"x-plan": "free", "x-size": "12", "x-junk": "many"},
		ClientIP: netip.MustParseAddr("::ffff:10.1.2.3"),
		Claims: map[string]any{
			"sub": "u1", "admin": true, "huge": 1e16, "junk": json.Number("x"), "weight": 3.0, "exact": json.Number("7"), "half": 2.5, "none": nil, "big": json.Number("1e400"),
			"groups": []any{"staff", json.Number("1")}, "realm": map[string]any{"tenant": "acme", "level": json.Number("4")},
		},
		Descriptors: []rules.Descriptor{{{Key: "generic_key", Value: "login"}, {Key: "tenant", Value: "acme"}}, {{Key: "generic_key", Value: "login"}}},
	}
}

// outcome is the result of a condition.
type outcome string

const (
	isTrue   outcome = "true"
	isFalse  outcome = "false"
	isAbsent outcome = "absent" // it reads something that the request does not have: the rule does not match
	fails    outcome = "fails"  // the rule matches: a client must not avoid the limit
)

// wantOutcome determines the outcome of a condition of r by whether r matches with the condition, and with its negation.
func wantOutcome(t *testing.T, r rules.Rule, text string, req *rules.Request, want outcome) {
	t.Helper()
	matches := func(text string) bool {
		r.Match.Expression = text
		return len(index(t, r).Match(nil, req)) == 1
	}
	got := map[[2]bool]outcome{
		{true, false}: isTrue, {false, true}: isFalse, {false, false}: isAbsent, {true, true}: fails,
	}[[2]bool{matches(text), matches("!(" + text + ")")}]
	if got != want {
		t.Errorf("%s: %s, want %s", text, got, want)
	}
}

func TestMatch_EvaluatesExpressions(t *testing.T) {
	for text, want := range map[string]outcome{
		`request.path.endsWith(".json")`:                                isTrue,
		`request.path.endsWith(".xml")`:                                 isFalse,
		`request.domain == "shop" && request.host.startsWith("api.")`:   isTrue,
		`request.method in ["GET", "HEAD"]`:                             isTrue,
		`request.query.q == ["x", "y"] && "x" in request.query["q"]`:    isTrue,
		`request.headers["x-plan"] == "free"`:                           isTrue,
		`"x-tenant" in request.headers || has(request.headers.none)`:    isFalse,
		`request.headers.exists(name, name == "x-plan")`:                isTrue,
		`request.headers[?"x-none"].orValue("a") == "a"`:                isTrue,
		`request.clientIP == "10.1.2.3"`:                                isTrue,
		`cidr("10.0.0.0/8").containsIP(request.clientIP)`:               isTrue,
		`ip(request.clientIP).family() == 6`:                            isFalse,
		`request.claims.admin`:                                          isTrue,
		`request.claims.weight == 3.0 && request.claims.weight > 2`:     isTrue,
		`request.claims.exact == 7 && request.claims.realm.level == 4`:  isTrue,
		`request.claims.big > 5.0`:                                      isTrue,
		`request.claims.none == null`:                                   isTrue,
		`request.claims.realm.tenant == "acme"`:                         isTrue,
		`request.claims.groups.exists(g, g == "staff")`:                 isTrue,
		`1 in request.claims.groups`:                                    isTrue,
		`request.descriptors[0][1].value == "acme"`:                     isTrue,
		`request.descriptors.exists(d, d.exists(e, e.key == "tenant"))`: isTrue,
		`request.descriptors[0][0] == request.descriptors[0][1]`:        isFalse,
		`request.descriptors[0][0] in request.descriptors[0]`:           isTrue,
		`dyn(request).path == request.path && request == request`:       isTrue,
		`has(request.claims) && has(request.clientIP)`:                  isTrue,
		`type(request) == type(request.descriptors[0][0])`:              isFalse,
		`request.descriptors[0][0] == request.descriptors[0][0]`:        isTrue,
		`dyn(request.descriptors[0][0]) == dyn(request)`:                isFalse,
		`request.descriptors[0][0] == request.descriptors[1][0]`:        isTrue,
		`dyn(request) == 1`:                                             isFalse,
		`dyn(request).path == "/v1/search.json"`:                        isTrue,
		`has(dyn(request).path) && !has(dyn(request).pth)`:              isTrue,

		// An expression that reads an absent field does not match.
		`request.claims["https://shop.example/x"] == "a"`:       isAbsent,
		`request.headers["x-none"] == "y"`:                      isAbsent,
		`request.headers["x-none"] != "y"`:                      isAbsent,
		`request.query["q"][7] == "y"`:                          isAbsent,
		`(request.method == "" ? [] : ["a"])[3] == "y"`:         isAbsent,
		`request.claims.realm.none.deeper == 1`:                 isAbsent,
		`request.claims.sub.level == 1`:                         isAbsent,
		`dyn(request.headers)["x-none"] == "y"`:                 isAbsent,
		`request.descriptors[4][0].key == "a"`:                  isAbsent,
		`request.headers["x-none"] == "y" || request.path > ""`: isTrue,

		// If an expression cannot evaluate a field that is present, the rule matches: a client must not avoid the limit.
		`int(request.headers["x-junk"]) > 100`:                     fails,
		`request.claims.sub > 3`:                                   fails,
		`request.claims.sub`:                                       fails,
		`cidr("10.0.0.0/8").containsIP(request.headers["x-plan"])`: fails,
		`1 / (size(request.path) - 15) == 0`:                       fails,
		`dyn(request).pth == "x"`:                                  fails,
		`request.claims.junk == 0`:                                 fails,
		`request.path.substring(99) == ""`:                         fails,
	} {
		t.Run(text, func(t *testing.T) {
			wantOutcome(t, rule("shop/it"), text, fullRequest(), want)
		})
	}
}

func TestMatch_LimitsARequestThatIsTooLargeToEvaluate(t *testing.T) {
	x := index(t, ruleMatching(rules.Match{Expression: `request.path.matches("^/v1/(search|suggest|complete)/[a-z]+$")`}))
	if got := len(x.Match(nil, request("GET - /v2"))); got != 0 {
		t.Error("the rule matches a small request on another path")
	}
	if got := len(x.Match(nil, request("GET - /v2/"+strings.Repeat("x", 64<<10)))); got != 1 {
		t.Error("the rule does not match a large request")
	}
}

func TestExpression_ReadsEveryFieldOfAnEmptyRequest(t *testing.T) {
	x := index(t, ruleMatching(rules.Match{Expression: `request.path == "" && request.clientIP == "" && size(request.headers) + size(request.query) + ` +
		`size(request.claims) + size(request.descriptors) == 0 && !has(request.host) && !has(request.claims)`}))
	if got := len(x.Match(nil, &rules.Request{Domain: "shop"})); got != 1 {
		t.Error("the expression did not match")
	}
}

// TestExpression_HasReportsWhetherAFieldIsSet evaluates has of each field for a request with only this field, and for an empty request.
func TestExpression_HasReportsWhetherAFieldIsSet(t *testing.T) {
	descriptor := func(e rules.Entry) *rules.Request { return &rules.Request{Descriptors: []rules.Descriptor{{e}}} }
	write := func(w rules.KubernetesRequest) *rules.Request { return &rules.Request{Kubernetes: &w} }
	for field, tc := range map[string]struct{ set, unset *rules.Request }{
		"request.domain":                  {&rules.Request{Domain: "a"}, &rules.Request{}},
		"request.method":                  {&rules.Request{Method: "a"}, &rules.Request{}},
		"request.host":                    {&rules.Request{Host: "a"}, &rules.Request{}},
		"request.path":                    {&rules.Request{Path: "a"}, &rules.Request{}},
		"request.query":                   {&rules.Request{Query: map[string][]string{"a": nil}}, &rules.Request{}},
		"request.headers":                 {&rules.Request{Headers: map[string]string{"a": ""}}, &rules.Request{}},
		"request.clientIP":                {requestFrom("10.0.0.1"), requestFrom("")},
		"request.claims":                  {&rules.Request{Claims: map[string]any{"a": nil}}, &rules.Request{}},
		"request.descriptors":             {descriptor(rules.Entry{}), &rules.Request{}},
		"request.descriptors[0][0].key":   {descriptor(rules.Entry{Key: "a"}), descriptor(rules.Entry{Value: "a"})},
		"request.descriptors[0][0].value": {descriptor(rules.Entry{Value: "a"}), descriptor(rules.Entry{Key: "a"})},

		"request.operation":         {write(rules.KubernetesRequest{Operation: "a"}), write(rules.KubernetesRequest{})},
		"request.subResource":       {write(rules.KubernetesRequest{Subresource: "a"}), write(rules.KubernetesRequest{})},
		"request.namespace":         {write(rules.KubernetesRequest{Namespace: "a"}), write(rules.KubernetesRequest{})},
		"request.name":              {write(rules.KubernetesRequest{Name: "a"}), write(rules.KubernetesRequest{})},
		"request.object":            {write(rules.KubernetesRequest{Object: []byte("{}")}), write(rules.KubernetesRequest{Object: []byte("null")})},
		"request.oldObject":         {write(rules.KubernetesRequest{OldObject: []byte("{}")}), write(rules.KubernetesRequest{})},
		"request.options":           {write(rules.KubernetesRequest{Options: []byte("{}")}), write(rules.KubernetesRequest{})},
		"request.dryRun":            {write(rules.KubernetesRequest{DryRun: true}), write(rules.KubernetesRequest{})},
		"request.resource.group":    {write(rules.KubernetesRequest{Group: "a"}), write(rules.KubernetesRequest{})},
		"request.resource.version":  {write(rules.KubernetesRequest{Version: "a"}), write(rules.KubernetesRequest{})},
		"request.resource.resource": {write(rules.KubernetesRequest{Resource: "a"}), write(rules.KubernetesRequest{})},
		"request.kind.kind":         {write(rules.KubernetesRequest{Kind: "a"}), write(rules.KubernetesRequest{})},
		"request.userInfo.username": {write(rules.KubernetesRequest{User: "a"}), write(rules.KubernetesRequest{})},
		"request.userInfo.groups":   {write(rules.KubernetesRequest{Groups: []string{"a"}}), write(rules.KubernetesRequest{})},
		"request.userInfo.extra":    {write(rules.KubernetesRequest{Extra: map[string][]string{"a": nil}}), write(rules.KubernetesRequest{})},
	} {
		for req, want := range map[*rules.Request]outcome{tc.set: isTrue, tc.unset: isFalse} {
			r := clusterRule("it")
			if req.Kubernetes != nil {
				r = writeRule("_cluster/it", matchOperations([]string{req.Kubernetes.Operation}, "*/*/*"))
			}
			wantOutcome(t, r, "has("+field+")", req, want)
		}
	}
}

func TestExpression_AllowsConcurrentEvaluation(t *testing.T) {
	r := ruleMatching(rules.Match{Expression: `request.path.matches("/v[0-9]+/.*") && request.headers.exists(h, request.headers[h] == "free")`})
	r.Identifier = rules.Identifier{From: rules.FromExpression, Name: `request.path + request.headers["x-plan"]`}
	x := index(t, r)
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			req := fullRequest()
			req.Path = fmt.Sprintf("/v%d/x", i)
			for range 200 {
				m := x.Match(nil, req)
				if want := req.Path + "free"; len(m) != 1 || m[0].Identify(req) != want {
					t.Errorf("%d matches, want one for %s", len(m), want)
					return
				}
			}
		})
	}
	group.Wait()
}

// FuzzExpression evaluates every valid expression over any request. Evaluation must not panic, and the result must be repeatable.
func FuzzExpression(f *testing.F) {
	for _, text := range []string{
		`request.path.endsWith(".json")`, `request.claims.a.b > 3`, `request.query.exists(q, request.query[q][0] == "x")`,
		`request.descriptors[0][0].value == request.clientIP`, `int(request.headers["x"]) % 7`, `string(request.claims.a)`,
		`cidr("::/0").containsIP(request.clientIP)`, `"%s %d".format([request.path, request.claims.a])`, `request.path.split("/")[1].reverse()`,
		`math.greatest([1, 2, size(request.path)])`, `string(base64.decode(request.headers["x"]))`, `request.headers[?"x"].orValue("")`,
		`timestamp(request.headers["x"]).getFullYear() == 2030`, `duration(request.claims.a) > duration("1h")`, `request.path.charAt(3)`,
	} {
		f.Add(text, "/v1/x", "x", "12", `{"a":{"b":1e3},"c":[null,true,"x",{"d":-0.0}]}`, []byte{10, 1, 2, 3})
		f.Add(text, "", "", "\xff\x00", `{"a":1e999,"":"\ud800"}`, []byte{})
	}
	f.Fuzz(func(t *testing.T, text, path, name, value, claims string, ip []byte) {
		req := &rules.Request{
			Domain: "shop", Path: path, Headers: map[string]string{name: value, "x": value}, Query: map[string][]string{name: {value}, "none": nil},
			Descriptors: []rules.Descriptor{{{Key: name, Value: value}}, nil},
		}
		req.ClientIP, _ = netip.AddrFromSlice(ip)
		var list []rules.Rule
		for _, decode := range []func() map[string]any{
			func() (m map[string]any) { _ = json.Unmarshal([]byte(claims), &m); return m },
			func() (m map[string]any) {
				d := json.NewDecoder(strings.NewReader(claims))
				d.UseNumber()
				_ = d.Decode(&m)
				return m
			},
		} {
			req.Claims = decode()
			list = list[:0]
			if expr.Validate(text, expr.ResultBool) == nil {
				list = append(list, ruleMatching(rules.Match{Expression: text}))
			}
			if expr.Validate(text, expr.ResultString) == nil {
				r := rule("shop/named")
				r.Identifier = rules.Identifier{From: rules.FromExpression, Name: text}
				list = append(list, r)
			}
			if expr.Validate(text, expr.ResultInt) == nil {
				r := rule("shop/priced")
				r.Cost = &rules.Cost{Expression: text}
				list = append(list, r)
			}
			x := index(t, list...)
			for _, m := range x.Match(nil, req) {
				id := m.Identify(req)
				terms := m.Terms(req, id)
				if terms.Cost < 0 || terms.Cost > 1_000_000_000 {
					t.Fatalf("%s costs %d", text, terms.Cost)
				}
				if again := m.Identify(req); !dependsOnMapOrder(text) && again != id {
					t.Fatalf("%s: %q, then %q", text, id, again)
				}
			}
		}
	})
}

// dependsOnMapOrder reports whether the result of an expression may depend on the order of a map, which is random.
func dependsOnMapOrder(text string) bool {
	for name := range maps.Keys(map[string]bool{"map(": true, "filter(": true, "exists": true, "all(": true, "transform": true}) {
		if strings.Contains(text, name) {
			return true
		}
	}
	return false
}
