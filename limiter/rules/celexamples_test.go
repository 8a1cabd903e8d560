package rules_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/rules"
)

// nested returns the text n times around the innermost one: before(before(inner)after)after.
func nested(before string, n int, inner, after string) string {
	return strings.Repeat(before, n) + inner + strings.Repeat(after, n)
}

// TestValidateExpression_RejectsExpressionsThatGrow has short expressions whose values, types or work grow exponentially or with the square of
// the request.
func TestValidateExpression_RejectsExpressionsThatGrow(t *testing.T) {
	format := `["aaaaaaaaaa"]`
	for range 5 {
		format = `(` + format + `).map(x, "` + strings.Repeat("%s", 10) + `".format([x` + strings.Repeat(", x", 9) + `]))`
	}
	for name, tc := range map[string]struct{ text, want string }{
		"format of format":                {format + ` == ["a"]`, "the function format must not be called"},
		"json of json":                    {`size(` + nested("json.encode(", 27, "request.claims", ")") + `) > 1`, "the function json.encode must not be called"},
		"quotes of quotes":                {`size(` + nested("strings.quote(", 20, "request.path", ")") + `) > 1`, "the function strings.quote must not be called"},
		"lists that double":               {`2 in [[1]]` + strings.Repeat(`.map(x, x + x)`, 27) + `[0]`, "lists, maps, loops and optional values, but the maximum is 40"},
		"lists of two lists":              {`[[1]]` + strings.Repeat(`.map(x, [x, x])`, 27) + ` == []`, "lists, maps, loops and optional values, but the maximum is 40"},
		"lists that double a few times":   {`2 in [[1]]` + strings.Repeat(`.map(x, x + x)`, 9) + `[0]`, "lists must not be added"},
		"lists of two a few times":        {`[[1]]` + strings.Repeat(`.map(x, [x, x])`, 9) + ` == []`, "the expression takes up to"},
		"texts that double in few maps":   {`size(["aaaaaaaaaa"]` + strings.Repeat(`.map(x, x + x + x + x)`, 12) + `[0]) > 1`, "the expression takes up to"},
		"claims of two in few maps":       {`[request.claims.a]` + strings.Repeat(`.map(x, [x, x, x])`, 9) + ` == []`, "the expression takes up to"},
		"maps of two maps":                {`[dyn(1)]` + strings.Repeat(`.map(x, {"a": x, "b": x})`, 27) + ` == []`, "lists, maps, loops and optional values, but the maximum is 40"},
		"claims of two claims":            {`[request.claims.a]` + strings.Repeat(`.map(x, [x, x])`, 20) + ` == []`, "lists, maps, loops and optional values, but the maximum is 40"},
		"texts that double":               {`size(["aaaaaaaaaa"]` + strings.Repeat(`.map(x, x + x)`, 27) + `[0]) > 1`, "lists, maps, loops and optional values, but the maximum is 40"},
		"a text replaced in its own text": {`request.path.replace("", request.path) == ""`, "the expression takes up to"},
		"texts replaced in a loop":        {`["aaaaaaaa"]` + strings.Repeat(`.map(x, x.replace("a", x))`, 6) + ` == []`, "the expression takes up to"},
		"a list joined by a text":         {`request.path.split("").join(request.path) == ""`, "the expression takes up to"},
		"searching a text in itself":      {`request.headers["a"].indexOf(request.headers["b"]) > 0`, "the expression takes up to"},
		"each element with each":          {`sets.equivalent(request.path.split(""), request.path.split(""))`, "the expression takes up to"},
		"types that double":               {`[1]` + strings.Repeat(`.map(x, {x: x})`, 27) + ` == []`, "the keys of a map must be literals"},
		"base64 of base64":                {`size(` + nested("base64.encode(bytes(", 40, "request.path", "))") + `) > 1`, "the expression takes up to"},
		"claims in a loop":                {`request.claims.all(a, request.claims == dyn([a, a]))`, "the expression takes up to"},
		"claims that are added":           {`[request.claims.a]` + strings.Repeat(`.map(x, x + x)`, 27) + ` == []`, "lists, maps, loops and optional values, but the maximum is 40"},
		"optional elements":               {`[?dyn(request.claims)] == []`, "must not be optional"},
		"optional entries":                {`{?"a": dyn(request.claims)} == {}`, "must not be optional"},
		"a time zone":                     {`timestamp(request.path).getHours(request.headers["zone"]) > 1`, "must not be called with a time zone"},
		"deep lists":                      {nested("[", 100, "1", "]") + ` == []`, "has 101 lists, maps, loops and optional values, but the maximum is 40"},
		"deep maps":                       {nested(`{"a": `, 100, "1", "}") + ` == {}`, "but the maximum is 40"},
		"deep optional values":            {nested(`optional.of(`, 100, "1", ")") + ` == optional.none()`, "but the maximum is 40"},
		"many regular expressions":        {"true" + strings.Repeat(` && request.path.matches("(a|b)*c{1,200}")`, 90), "more than 16 regular expressions"},
		"four loops in a literal":         {nested("[1, 2, 3, 4, 5, 6, 7, 8, 9].all(x, ", 6, "true", ")"), "the expression takes up to"},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			err := rules.ValidateExpression(tc.text, rules.ResultBool)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s:\nerror %v\n want %s", tc.text, err, tc.want)
			}
			if took := time.Since(start); took > slowdown*time.Second {
				t.Errorf("it takes %v to reject %s", took, tc.text)
			}
		})
	}
}

// TestMatch_ExpressionsThatGrowAtRunTimeEndWithinTheBound evaluates values of unknown type, whose growth no estimate can see.
func TestMatch_ExpressionsThatGrowAtRunTimeEndWithinTheBound(t *testing.T) {
	for _, text := range []string{
		`dyn(request.claims.list) + dyn(request.claims.list) == dyn([])`,
		`request.claims == request.claims`,
		`request.claims.list.exists(a, request.claims.list[request.path] == 1)`,
		`dyn(request)[request.path] == 1 || dyn(request)[request.headers["x"]] == 1`,
		`request.headers.all(h, request.descriptors[0][0].value != h)`,
		`request.headers.all(h, request.query.all(q, q != h))`,
		`request.headers.map(h, request.headers[h]).map(v, v + v) == []`,
	} {
		if err := rules.ValidateExpression(text, rules.ResultBool); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		checkBound(t, text, rules.ResultBool, worstRequests())
	}
}

// TestMatch_TheExpressionsOfARequestShareABound has 100 policies of a namespace, the default of the policy budget, and as many cluster policies.
// Each has an expression that is as expensive as possible for the request.
func TestMatch_TheExpressionsOfARequestShareABound(t *testing.T) {
	req := request("GET - /v1/search x-tenant-id=a")
	for i := range 120 {
		req.Headers[fmt.Sprintf("x-header-%d", i)] = strings.Repeat("a", 400)
	}
	list := func(policies int) (all []rules.Rule) {
		for i := range policies {
			r := clusterRule(fmt.Sprintf("p%03d", i))
			r.Match.Expression = fmt.Sprintf(`request.headers.all(h, !request.headers[h].endsWith("b%d") && !request.headers[h].contains("c"))`, i)
			all = append(all, r)
		}
		for i := range policies {
			r := ruleWith(fmt.Sprintf("p%03d", i), fmt.Sprintf(`request.headers.all(h, !request.headers[h].contains("b%d"))`, i), rules.ResultBool)
			all = append(all, r)
		}
		return all
	}
	one, hundred := index(t, list(1)...), index(t, list(100)...)
	if n := len(hundred.Match(nil, req)); n != 200 {
		t.Fatalf("%d policies match, want 200: one that is not evaluated matches", n)
	}
	took, bytes := measureEvaluation(hundred, req)
	if most := 2 * slowdown * maxEvaluation; took > most || bytes > 2*maxEvaluationBytes {
		t.Errorf("%v and %d bytes, want at most %v and %d bytes", took, bytes, most, 2*maxEvaluationBytes)
	}
	alone, _ := measureEvaluation(one, req)
	t.Logf("1 policy of each kind: %v, 100: %v and %d bytes", alone, took, bytes)
	// What a namespace spends leaves the cluster policies theirs, and the last cheap expression is decided.
	cheap := ruleWith("z", `request.path == "/other"`, rules.ResultBool)
	cluster := clusterRule("a")
	cluster.Match.Expression = `request.headers.all(h, h != "none") && request.path == "/other"`
	rules := append([]rules.Rule{cluster}, append(list(100)[100:], cheap)...)
	matched := policiesOf(index(t, rules...).Match(nil, req))
	if len(matched) != 100 || strings.Contains(strings.Join(matched, " "), "cluster/a") || slices.Contains(matched, "shop/z") {
		t.Errorf("matched %v, want the 100 policies whose expressions are true or too expensive", matched)
	}
}

// TestTerms_TheRegularExpressionsOfARequestShareABound has policies whose tier has a lower limit, for headers that are not those of the request. The
// tier of a policy that cannot be decided applies.
func TestTerms_TheRegularExpressionsOfARequestShareABound(t *testing.T) {
	req := request("GET - /v1/search x-tenant-id=a")
	req.Headers["x-plan"] = strings.Repeat("ab", 800)
	withTier := func(r rules.Rule) rules.Rule {
		r.Tiers = []rules.Tier{{Name: "low", Units: 1, When: rules.When{Header: &rules.HeaderMatch{Name: "x-plan", Type: rules.HeaderRegex, Value: "(a|b)*c"}}}}
		return r
	}
	decided := func(list ...rules.Rule) (namespaced, cluster int) {
		for _, m := range index(t, list...).Match(nil, req) {
			switch {
			case m.Terms(req, "a").Tier != "":
			case m.Rule.Domain == "":
				cluster++
			default:
				namespaced++
			}
		}
		return namespaced, cluster
	}
	var list []rules.Rule
	for i := range 100 {
		r := withTier(ruleWith(fmt.Sprintf("p%03d", i), "true", rules.ResultBool))
		r.Match.Expression = ""
		list = append(list, r)
	}
	alone, _ := decided(list[0])
	together, cluster := decided(append([]rules.Rule{withTier(clusterRule("a"))}, list...)...)
	if alone != 1 || together < 5 || together > 20 || cluster != 1 {
		t.Errorf("decided: %d of 1 policy, %d of 100 policies and %d of 1 cluster policy, want 1, 5 to 20 and 1", alone, together, cluster)
	}
}

func TestTerms_ARequestThatIsTooLargeToEvaluateGetsNoAdvantage(t *testing.T) {
	large, small := request("GET - /v1/"+strings.Repeat("x", 60<<10)), request("GET - /v1")
	const expensive = `request.path.reverse().reverse().reverse() == "1v/"`
	for name, tc := range map[string]struct {
		change func(*rules.Rule)
		units  int64 // of the limit
		cost   int64
	}{
		"a lower tier applies": {func(r *rules.Rule) {
			r.Tiers = []rules.Tier{{Name: "low", Units: 3, When: rules.When{Expression: expensive}}}
		}, 3, 1},
		"the lowest of several tiers applies": {func(r *rules.Rule) {
			r.Tiers = []rules.Tier{
				{Name: "low", Units: 3, When: rules.When{Expression: expensive}}, {Name: "lower", Units: 2, When: rules.When{Expression: expensive}},
			}
		}, 2, 1},
		"a higher tier does not apply": {func(r *rules.Rule) {
			r.Tiers = []rules.Tier{{Name: "high", Units: 1000, When: rules.When{Expression: expensive}}}
		}, 10, 1},
		"an unlimited tier does not apply": {func(r *rules.Rule) {
			r.Tiers = []rules.Tier{{Name: "free", Unlimited: true, When: rules.When{Expression: expensive}}}
		}, 10, 1},
		"a lower tier applies before one that matches": {func(r *rules.Rule) {
			r.Tiers = []rules.Tier{
				{Name: "low", Units: 3, When: rules.When{Expression: expensive}}, {Name: "free", Unlimited: true, When: rules.When{Expression: "true"}},
			}
		}, 3, 1},
		"a lower tier applies if the client sends junk": {func(r *rules.Rule) {
			r.Tiers = []rules.Tier{{Name: "low", Units: 3, When: rules.When{Expression: `int(request.path) > 1`}}}
		}, 3, 1},
		"a tier that reads what the request lacks does not apply": {func(r *rules.Rule) {
			r.Tiers = []rules.Tier{{Name: "low", Units: 3, When: rules.When{Expression: `request.headers["none"] == ""`}}}
		}, 10, 1},
		"the cost is the limit": {func(r *rules.Rule) { r.Cost = &rules.Cost{Expression: expensive + ` ? 1 : 2`} }, 10, 10},
	} {
		t.Run(name, func(t *testing.T) {
			r := rule("shop/it")
			r.Units = 10
			tc.change(&r)
			m := index(t, r).Match(nil, large)[0]
			if terms := m.Terms(large, "a"); terms.Unlimited || terms.Limit.Units() != tc.units || terms.Cost != tc.cost {
				t.Errorf("unlimited %v, limit %d, cost %d, want limit %d, cost %d", terms.Unlimited, terms.Limit.Units(), terms.Cost, tc.units, tc.cost)
			}
		})
	}
	r := rule("shop/it")
	r.Identifier = rules.Identifier{From: rules.FromExpression, Name: `request.path.reverse().reverse().reverse()`}
	x := index(t, r)
	if m := x.Match(nil, large)[0]; m.Identify(large) != "" || !m.Unreadable(large) {
		t.Error("the identifier of the large request is readable")
	}
	if m := x.Match(nil, small)[0]; m.Identify(small) != "1v/" {
		t.Errorf("identifier %q", m.Identify(small))
	}
}

// TestValidateExpression_TakesMilliseconds compiles texts of the maximum length that are deep, long or ambiguous. All programs compile: weir lint,
// the webhook, the operator and each limiter.
func TestValidateExpression_TakesMilliseconds(t *testing.T) {
	repeat := func(part string) string { return strings.Repeat(part, 4000/len(part)) }
	texts := map[string]string{
		"brackets": strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200), "many brackets": repeat("(") + repeat(")"),
		"lists": strings.Repeat("[", 200) + strings.Repeat("]", 200) + " == []", "not": repeat("!") + "true", "minus": repeat("-") + "1 == 1",
		"sum": "1" + repeat(" + 1") + " == 1", "or": "true" + repeat(" || true"), "conditional": repeat("true ? 1 : ") + "1 == 1",
		"fields": "request.claims" + repeat(".a") + " == 1", "indexes": "request.claims" + repeat("[0]") + " == 1", "numbers": "[" + repeat("1, ") + "1] == []",
		"maps": "{" + repeat(`"a": 1, `) + `"b": 1} == {}`, "nested maps": strings.Repeat(`{"a": `, 150) + "1" + strings.Repeat("}", 150) + " == {}",
		"optionals": strings.Repeat("optional.of(", 120) + "1" + strings.Repeat(")", 120) + " == optional.none()", "loops": "[1]" + repeat(".map(x, x)") + " == []",
		"nested loops":  strings.Repeat("[1].all(x, ", 100) + "true" + strings.Repeat(")", 100),
		"optional maps": "optional.of(1)" + repeat(".optMap(x, x)") + ".hasValue()", "unknown names": "a" + repeat(" + a"),
		"filters": "request.claims.a" + repeat(".filter(x, x)") + " == 1", "has": "has(request.claims" + repeat(".a") + ")",
		"comments": repeat("//\n") + "true", "strings": `"` + repeat("a") + `" == ""`, "regular expressions": "true" + repeat(` && request.path.matches("(a|b)*c{1,200}")`),
		"lambdas": repeat("a -> "), "commas": repeat(","), "colons": repeat("a ? b : "), "mixed": repeat("(]{["), "quotes": repeat(`"`), "triple quotes": repeat(`"""`),
		"dyn of dyn": strings.Repeat("dyn(", 200) + "1" + strings.Repeat(")", 200) + " == 1",
	}
	random := rand.New(rand.NewPCG(3, 4))
	const alphabet = `()[]{}?:.,"'+-!=<>&|a1 %*/`
	for i := range 20 {
		b := make([]byte, 4000)
		for j := range b {
			b[j] = alphabet[random.IntN(len(alphabet))]
		}
		texts[fmt.Sprint("random ", i)] = string(b)
	}
	for name, text := range texts {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		least := time.Hour
		for range 3 {
			start := time.Now()
			_ = rules.ValidateExpression(text, rules.ResultBool)
			least = min(least, time.Since(start))
		}
		runtime.ReadMemStats(&after)
		bytes := (after.TotalAlloc - before.TotalAlloc) / 3
		t.Logf("%v, %d KiB: %s", least, bytes>>10, name)
		if least > slowdown*100*time.Millisecond || bytes > 64<<20 {
			t.Errorf("%s: %v and %d bytes to compile %.80s", name, least, bytes, text)
		}
	}
}
