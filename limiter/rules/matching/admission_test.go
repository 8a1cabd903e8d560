package matching_test

import (
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// jobRequest returns a write that sets every field except the old object.
func jobRequest() *rules.Request {
	return &rules.Request{Domain: "shop", Kubernetes: &rules.KubernetesRequest{
		Operation: "CREATE", Group: "batch", Version: "v1", Resource: "jobs", Subresource: "status", Kind: "Job", Namespace: "shop", Name: "nightly",
		User: "alice", Groups: []string{"staff", "ops"}, Extra: map[string][]string{"scopes": {"a", "b"}}, DryRun: true,
		Object: []byte(`{"metadata":{"labels":{"team":"web"}},"spec":{"parallelism":500,"suspend":false,"share":0.5,"args":["a","b"],"none":null,` +
			`"big":9007199254740993}}`),
		OldObject: []byte("null"), Options: []byte(`{"fieldManager":"kubectl"}`),
	}}
}

func TestMatch_EvaluatesExpressionsOverWrites(t *testing.T) {
	for text, want := range map[string]outcome{
		`request.operation == "CREATE" && request.subResource == "status" && request.kind.kind == "Job"`:                        isTrue,
		`request.resource.group == "batch" && request.resource.version == "v1" && request.resource.resource == "jobs"`:          isTrue,
		`request.namespace == "shop" && request.name == "nightly"`:                                                              isTrue,
		`request.userInfo.username == "alice" && "ops" in request.userInfo.groups && request.userInfo.extra["scopes"][1] > "a"`: isTrue,
		`request.object.spec.parallelism > 10 && request.object.spec.parallelism == 500`:                                        isTrue,
		`string(request.object.spec.big) == "9007199254740993"`:                                                                 isTrue,
		`request.object.spec.share == 0.5 && !request.object.spec.suspend && request.object.spec.none == null`:                  isTrue,
		`request.object.spec.args.exists(a, a == "b") && size(request.object.spec.args) == 2`:                                   isTrue,
		`request.object.metadata.labels["team"] == "web"`:                                                                       isTrue,
		`request.options.fieldManager == "kubectl" && request.dryRun`:                                                           isTrue,
		`request.oldObject == null && !has(request.oldObject) && has(request.object)`:                                           isTrue,
		`has(request.object.spec.parallelism) && !has(request.object.spec.completions)`:                                         isTrue,
		`request.object.spec.?completions.orValue(7) == 7`:                                                                      isTrue,
		`dyn(request).operation == "CREATE" && dyn(request).resource.resource == "jobs"`:                                        isTrue,
		`request.operation == "DELETE"`:                                                                                         isFalse,

		`dyn(request).operation == "DELETE"`:                                                   isFalse,
		`dyn(request.kind) == dyn(request.kind) && dyn(request.kind) != dyn(request.userInfo)`: isTrue,

		// An expression that reads an absent field does not match.
		`request.object.spec.completions > 1`:            isAbsent,
		`request.object.metadata.annotations["a"] == ""`: isAbsent,
		`request.oldObject.spec.parallelism > 1`:         isAbsent,
		`request.object.spec.none.deeper == 1`:           isAbsent,
		`request.object.spec.args[7] == "x"`:             isAbsent,
		`request.userInfo.extra["none"][0] == "a"`:       isAbsent,

		// If an expression cannot evaluate a field that is present, the rule matches: a client must not avoid the limit.
		`int(request.object.metadata.labels.team) > 100`: fails,
		`request.object.spec.args > 3`:                   fails,
		`request.object.spec.parallelism`:                fails,
	} {
		t.Run(text, func(t *testing.T) {
			r := writeRule("shop/it", matchCreates("batch/jobs/*"))
			wantOutcome(t, r, text, jobRequest(), want)
		})
	}
}

func TestMatch_LimitsWritesWithInvalidObjects(t *testing.T) {
	for _, object := range []string{"{", "{} {}", "\xff"} {
		r := writeRule("shop/it", matchCreates("batch/jobs/*"))
		r.Match.Expression = `request.object.spec.parallelism > 10`
		request := jobRequest()
		request.Kubernetes.Object = []byte(object)
		if len(index(t, r).Match(nil, request)) != 1 {
			t.Errorf("the rule does not match a write with object %q", object)
		}
	}
}

func TestTerms_EvaluatesCostOverTheObjectOfAWrite(t *testing.T) {
	for object, want := range map[string]int64{
		`{"spec":{"parallelism":500}}`:        500,
		`{"spec":{"parallelism":0}}`:          0,
		`{"spec":{"parallelism":-1}}`:         1,
		`{"spec":{"parallelism":2000000000}}`: 1_000_000_000,
		`{"spec":{"parallelism":1e20}}`:       1_000_000_000,
		`{"spec":{"parallelism":1.5}}`:        2,
		`{"spec":{"parallelism":"many"}}`:     100, // the limit
		`{"spec":{}}`:                         1,
		`null`:                                1,
		``:                                    1,
	} {
		r := writeRule("shop/it", matchCreates("batch/jobs/*"))
		r.Cost = &rules.Cost{Expression: `request.object.spec.parallelism`}
		request := jobRequest()
		request.Kubernetes.Object = []byte(object)
		m := index(t, r).Match(nil, request)[0]
		if got := m.Terms(request, m.Identify(request)).Cost; got != want {
			t.Errorf("%s costs %d, want %d", object, got, want)
		}
	}
}

// TestMatch_DecodesAnObjectOnceForAllRules counts allocations: decoding a large object takes thousands of them.
func TestMatch_DecodesAnObjectOnceForAllRules(t *testing.T) {
	request := jobRequest()
	request.Kubernetes.Object = []byte(`{"metadata":{"name":"n"},"spec":{"parallelism":3,"args":[` + strings.Repeat(`"a",`, 5000) + `"a"]}}`)
	for name, with := range map[string]func(*rules.Rule){
		"a condition": func(r *rules.Rule) { r.Match.Expression = `request.object.spec.parallelism > 1` },
		"an identifier": func(r *rules.Rule) {
			r.Identifier = rules.Identifier{From: rules.FromExpression, Name: `request.object.metadata.name`}
		},
		"a tier": func(r *rules.Rule) {
			r.Tiers = []rules.Tier{{Name: "large", Units: 1, When: rules.When{Expression: `request.object.spec.parallelism > 10`}}}
		},
		"a cost": func(r *rules.Rule) { r.Cost = &rules.Cost{Expression: `request.object.spec.parallelism`} },
	} {
		var list []rules.Rule
		for _, policy := range []string{"shop/a", "shop/b", "shop/c", "shop/d"} {
			r := writeRule(policy, matchCreates("batch/jobs/*"))
			with(&r)
			list = append(list, r)
		}
		decide := func(x *matching.Index) func() {
			return func() {
				for _, m := range x.Match(nil, request) {
					m.Terms(request, m.Identify(request))
				}
			}
		}
		one, all := testing.AllocsPerRun(5, decide(index(t, list[0]))), testing.AllocsPerRun(5, decide(index(t, list...)))
		if one < 5000 || all > 1.5*one {
			t.Errorf("%s: %.0f allocations for one rule, %.0f for four", name, one, all)
		}
	}
}

// TestMatch_DoesNotAllocateWithoutExpressions reuses the slice of matches, as callers do.
func TestMatch_DoesNotAllocateWithoutExpressions(t *testing.T) {
	x := index(t, rule("shop/a"), writeRule("shop/b", matchCreates("batch/jobs/*")))
	dst := make([]matching.Matched, 0, 4)
	for name, r := range map[string]*rules.Request{"a request": request("GET - /v1/x"), "a write": jobRequest()} {
		if got := testing.AllocsPerRun(10, func() { x.Match(dst, r) }); got > 0 {
			t.Errorf("%s: %.0f allocations, want 0", name, got)
		}
	}
}

// BenchmarkWriteExpression evaluates an expression and a cost over an object of 4 kB.
func BenchmarkWriteExpression(b *testing.B) {
	r := writeRule("shop/it", matchCreates("batch/jobs/*"))
	r.Match.Expression = `request.object.spec.parallelism > 10`
	r.Cost = &rules.Cost{Expression: `request.object.spec.parallelism`}
	x := index(b, r)
	request := jobRequest()
	request.Kubernetes.Object = []byte(`{"spec":{"parallelism":500,"env":[` + strings.Repeat(`{"name":"A","value":"0123456789"},`, 120) + `{}]}}`)
	b.ReportAllocs()
	for b.Loop() {
		for _, m := range x.Match(nil, request) {
			m.Terms(request, m.Identify(request))
		}
	}
}
