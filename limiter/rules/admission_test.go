package rules_test

import (
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
)

func TestValidateKubernetesExpression(t *testing.T) {
	for name, tc := range map[string]struct {
		text   string
		result rules.ResultType
		want   string // part of the error; "" if the expression is valid
	}{
		"every field": {
			`request.operation + request.resource.group + request.resource.version + request.resource.resource + request.subResource + request.kind.kind + ` +
				`request.namespace + request.name + request.userInfo.username + request.userInfo.groups[0] + request.userInfo.extra["a"][0]`, rules.ResultString, "",
		},
		"objects of any shape":           {`request.object.spec.parallelism > 10 && request.oldObject == null && request.options.fieldManager != "x" && !request.dryRun`, rules.ResultBool, ""},
		"a cost":                         {`request.object.spec.parallelism`, rules.ResultInt, ""},
		"a cost with a default":          {`request.object.spec.?parallelism.orValue(1)`, rules.ResultInt, ""},
		"the ports of all containers":    {`request.object.spec.containers.exists(c, c.ports.exists(p, p.hostPort > 0))`, rules.ResultBool, ""},
		"a prefix of the images":         {`request.object.spec.containers.all(c, c.image.startsWith("registry.example/"))`, rules.ResultBool, ""},
		"an operation is a string":       {`request.operation == 1`, rules.ResultBool, "no matching overload for '_==_' applied to '(string, int)'"},
		"a field of HTTP requests":       {`request.path == "/"`, rules.ResultBool, "1:8: undefined field 'path'; request has operation, resource, subResource, kind, namespace, name, userInfo, object"},
		"an undefined field of the user": {`request.userInfo.name == "a"`, rules.ResultBool, "undefined field 'name'; request has"},
		"an object without request":      {`object.spec.parallelism > 1`, rules.ResultBool, "1:1: undeclared reference to 'object'; use request.object"},
		"a resource is not a string":     {`request.resource == "pods"`, rules.ResultBool, "no matching overload"},
		"a string instead of a bool":     {`request.operation`, rules.ResultBool, "1:1: the expression evaluates to string, but must evaluate to bool"},
		"three nested loops":             {`request.object.a.all(a, request.object.a.all(b, request.object.a.all(c, a == b && b == c)))`, rules.ResultBool, "avoid nested loops over lists and maps of objects"},
	} {
		t.Run(name, func(t *testing.T) {
			err := rules.ValidateKubernetesExpression(tc.text, tc.result)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("%s: %v", tc.text, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%s:\nerror %v\n want %s", tc.text, err, tc.want)
			}
		})
	}
}

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
	for text, want := range map[string]bool{
		`request.operation == "CREATE" && request.subResource == "status" && request.kind.kind == "Job"`:                        true,
		`request.resource.group == "batch" && request.resource.version == "v1" && request.resource.resource == "jobs"`:          true,
		`request.namespace == "shop" && request.name == "nightly"`:                                                              true,
		`request.userInfo.username == "alice" && "ops" in request.userInfo.groups && request.userInfo.extra["scopes"][1] > "a"`: true,
		`request.object.spec.parallelism > 10 && request.object.spec.parallelism == 500`:                                        true,
		`request.object.spec.big == 9007199254740993`:                                                                           true,
		`request.object.spec.share == 0.5 && !request.object.spec.suspend && request.object.spec.none == null`:                  true,
		`request.object.spec.args.exists(a, a == "b") && size(request.object.spec.args) == 2`:                                   true,
		`request.object.metadata.labels["team"] == "web"`:                                                                       true,
		`request.options.fieldManager == "kubectl" && request.dryRun`:                                                           true,
		`request.oldObject == null && !has(request.oldObject) && has(request.object)`:                                           true,
		`has(request.object.spec.parallelism) && !has(request.object.spec.completions)`:                                         true,
		`request.object.spec.?completions.orValue(7) == 7`:                                                                      true,
		`dyn(request).operation == "CREATE" && dyn(request).resource.resource == "jobs"`:                                        true,
		`request.operation == "DELETE"`:                                                                                         false,

		// An expression that reads an absent field does not match.
		`request.object.spec.completions > 1`:            false,
		`request.object.metadata.annotations["a"] == ""`: false,
		`request.oldObject.spec.parallelism > 1`:         false,
		`request.object.spec.none.deeper == 1`:           false,
		`request.object.spec.args[7] == "x"`:             false,
		`request.userInfo.extra["none"][0] == "a"`:       false,

		// If an expression cannot evaluate a field that is present, the rule matches: a client must not avoid the limit.
		`int(request.object.metadata.labels.team) > 100`: true,
		`request.object.spec.args > 3`:                   true,
		`request.object.spec.parallelism`:                true,
	} {
		t.Run(text, func(t *testing.T) {
			r := writeRule("shop/it", matchCreates("batch/jobs/*"))
			r.Match.Expression = text
			if got := len(index(t, r).Match(nil, jobRequest())) == 1; got != want {
				t.Errorf("matched: %t, want %t", got, want)
			}
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
		`{"spec":{"parallelism":"many"}}`:     1,
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
	var list []rules.Rule
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		r := writeRule("shop/"+name, matchCreates("batch/jobs/*"))
		r.Identifier = rules.Identifier{From: rules.FromExpression, Name: `request.object.metadata.name`}
		r.Tiers = []rules.Tier{{Name: "large", Units: 1, When: rules.When{Expression: `request.object.spec.parallelism > 10`}}}
		r.Cost = &rules.Cost{Expression: `request.object.spec.parallelism`}
		list = append(list, r)
	}
	request := jobRequest()
	request.Kubernetes.Object = []byte(`{"metadata":{"name":"n"},"spec":{"parallelism":3,"args":[` + strings.Repeat(`"a",`, 5000) + `"a"]}}`)
	decide := func(x *rules.Index) func() {
		return func() {
			for _, m := range x.Match(nil, request) {
				m.Terms(request, m.Identify(request))
			}
		}
	}
	one, all := testing.AllocsPerRun(10, decide(index(t, list[0]))), testing.AllocsPerRun(10, decide(index(t, list...)))
	if one < 5000 || all > 1.5*one {
		t.Errorf("%.0f allocations for one rule, %.0f for eight", one, all)
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
