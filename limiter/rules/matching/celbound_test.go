package matching_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/expr"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// The bounds of one evaluation, and of all expressions of the policies of a namespace for one request.
const (
	maxEvaluation      = time.Millisecond
	maxEvaluationBytes = 1 << 20
)

// worstRequests are requests of the largest sizes that limiters accept, each with other contents: many small parts, few large ones, text that
// matches, text outside of ASCII, and deep claims.
func worstRequests() []*rules.Request {
	texts := map[string]string{
		"a": strings.Repeat("a", 60<<10), "é": strings.Repeat("é", 30<<10), "slash": strings.Repeat("/", 60<<10), "digits": strings.Repeat("1", 4<<10),
		"base64": strings.Repeat("YWFh", 15<<10), "invalid": strings.Repeat("\xff", 60<<10),
	}
	var all []*rules.Request
	for _, name := range slices.Sorted(mapKeys(texts)) {
		text := texts[name]
		all = append(all, &rules.Request{
			Domain: "shop", Method: "GET", Host: text[:253], Path: "/" + text, ClientIP: netip.MustParseAddr("2001:db8::1"),
			Headers: map[string]string{"x": text, "b": text, "a": text}, Query: map[string][]string{"q": {text, text}},
			Claims:      map[string]any{"a": map[string]any{"a": text, "b": []any{text, text}}},
			Descriptors: []rules.Descriptor{{{Key: text, Value: text}}},
		})
	}
	for _, n := range []int{120, 4000} {
		many := &rules.Request{Domain: "shop", Path: "/" + strings.Repeat("a/", n), Headers: map[string]string{"x": "a", "b": "b"}, Query: map[string][]string{}}
		list, object := []any{}, map[string]any{}
		for i := range n {
			key := fmt.Sprintf("a%d", i)
			many.Headers[key], many.Query[key], object[key] = "a", []string{"a", key}, "a"
			many.Query["q"], list = append(many.Query["q"], key), append(list, key)
		}
		for range min(n, 64) {
			many.Descriptors = append(many.Descriptors, make(rules.Descriptor, 64))
		}
		many.Claims = map[string]any{"a": list, "b": object, "list": list}
		all = append(all, many)
	}
	return all
}

func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// ruleWith returns a rule with the expression in the field of its result type.
func ruleWith(name, text string, result expr.ResultType) rules.Rule {
	r := rule("shop/" + name)
	switch result {
	case expr.ResultBool:
		r.Match.Expression = text
	case expr.ResultString:
		r.Identifier = rules.Identifier{From: rules.FromExpression, Name: text}
	case expr.ResultInt:
		r.Cost = &rules.Cost{Expression: text}
	}
	return r
}

// evaluate evaluates the expressions of the rules, as a limiter does for a request.
func evaluate(x *matching.Index, dst []matching.Matched, req *rules.Request) {
	for _, m := range x.Match(dst[:0], req) {
		m.Terms(req, m.Identify(req))
	}
}

// measureEvaluation returns the least time of several evaluations, and the memory that one allocates.
func measureEvaluation(x *matching.Index, req *rules.Request) (least time.Duration, bytes uint64) {
	dst := make([]matching.Matched, 0, 256)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	evaluate(x, dst, req)
	runtime.ReadMemStats(&after)
	least = time.Hour
	for range 20 {
		start := time.Now()
		evaluate(x, dst, req)
		if least = min(least, time.Since(start)); least < maxEvaluation/2 {
			break
		}
	}
	return least, after.TotalAlloc - before.TotalAlloc
}

// generated returns an expression that limiters accept, and its result type; "" if they yield no such expression.
func generated(data []byte) (string, expr.ResultType) {
	g := &generator{data: data, fields: httpFields(), variables: map[string][]string{}, left: 60}
	results := []expr.ResultType{expr.ResultBool, expr.ResultString, expr.ResultInt}
	result := results[g.next(len(results))]
	text := g.expression(string(result), 2+g.next(5))
	if expr.Validate(text, result) != nil {
		return "", ""
	}
	return text, result
}

func checkBound(t *testing.T, text string, result expr.ResultType, requests []*rules.Request) (worst time.Duration, most uint64) {
	t.Helper()
	x := index(t, ruleWith("generated", text, result))
	for i, req := range requests {
		took, bytes := measureEvaluation(x, req)
		if took > slowdown*maxEvaluation || bytes > maxEvaluationBytes {
			t.Errorf("request %d: %v and %d bytes, want at most %v and %d bytes\n%s", i, took, bytes, slowdown*maxEvaluation, maxEvaluationBytes, text)
		}
		worst, most = max(worst, took), max(most, bytes)
	}
	return worst, most
}

func TestExpression_GeneratedExpressionsStayWithinTheBound(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	requests := worstRequests()
	accepted := 0
	var worst time.Duration
	var most uint64
	for start := time.Now(); accepted < 300 && time.Since(start) < 20*time.Second; {
		data := make([]byte, 200)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		text, result := generated(data)
		if text == "" {
			continue
		}
		accepted++
		took, bytes := checkBound(t, text, result, requests)
		if took > worst {
			t.Logf("%v: %s", took, text)
		}
		worst, most = max(worst, took), max(most, bytes)
	}
	if accepted < 100 {
		t.Fatalf("%d expressions were accepted, want at least 100", accepted)
	}
	t.Logf("%d expressions: at most %v and %d bytes", accepted, worst, most)
}

// FuzzExpressionBound generates expressions that limiters accept, and fails if one costs more than the documented time or memory.
func FuzzExpressionBound(f *testing.F) {
	for i := range 8 {
		f.Add([]byte(strings.Repeat(string(rune('a'+i)), 100)))
	}
	requests := worstRequests()
	f.Fuzz(func(t *testing.T, data []byte) {
		if text, result := generated(data); text != "" {
			checkBound(t, text, result, requests)
		}
	})
}
