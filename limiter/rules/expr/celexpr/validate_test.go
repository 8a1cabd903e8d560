package celexpr_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/rules/expr"
)

func TestValidateKubernetesExpression(t *testing.T) {
	for name, tc := range map[string]struct {
		text   string
		result expr.ResultType
		want   string // part of the error; "" if the expression is valid
	}{
		"every field": {
			`request.operation + request.resource.group + request.resource.version + request.resource.resource + request.subResource + request.kind.kind + ` +
				`request.namespace + request.name + request.userInfo.username + request.userInfo.groups[0] + request.userInfo.extra["a"][0]`, expr.ResultString, "",
		},
		"objects of any shape":           {`request.object.spec.parallelism > 10 && request.oldObject == null && request.options.fieldManager != "x" && !request.dryRun`, expr.ResultBool, ""},
		"a cost":                         {`request.object.spec.parallelism`, expr.ResultInt, ""},
		"a cost with a default":          {`request.object.spec.?parallelism.orValue(1)`, expr.ResultInt, ""},
		"the ports of all containers":    {`request.object.spec.containers.exists(c, c.ports.exists(p, p.hostPort > 0))`, expr.ResultBool, ""},
		"a prefix of the images":         {`request.object.spec.containers.all(c, c.image.startsWith("registry.example/"))`, expr.ResultBool, ""},
		"an operation is a string":       {`request.operation == 1`, expr.ResultBool, "no matching overload for '_==_' applied to '(string, int)'"},
		"a field of HTTP requests":       {`request.path == "/"`, expr.ResultBool, "1:8: undefined field 'path'; request has operation, resource, subResource, kind, namespace, name, userInfo, object"},
		"an undefined field of the user": {`request.userInfo.name == "a"`, expr.ResultBool, "undefined field 'name'; request has"},
		"an object without request":      {`object.spec.parallelism > 1`, expr.ResultBool, "1:1: undeclared reference to 'object'; use request.object"},
		"a resource is not a string":     {`request.resource == "pods"`, expr.ResultBool, "no matching overload"},
		"a string instead of a bool":     {`request.operation`, expr.ResultBool, "1:1: the expression evaluates to string, but must evaluate to bool"},
		"three nested loops":             {`request.object.a.all(a, request.object.a.all(b, request.object.a.all(c, a == b && b == c)))`, expr.ResultBool, "avoid nested loops over lists and maps of objects"},
	} {
		t.Run(name, func(t *testing.T) {
			err := expr.ValidateKubernetes(tc.text, tc.result)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("%s: %v", tc.text, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%s:\nerror %v\n want %s", tc.text, err, tc.want)
			}
		})
	}
}

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
			err := expr.Validate(tc.text, expr.ResultBool)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s:\nerror %v\n want %s", tc.text, err, tc.want)
			}
			if took := time.Since(start); took > slowdown*time.Second {
				t.Errorf("it takes %v to reject %s", took, tc.text)
			}
		})
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
			_ = expr.Validate(text, expr.ResultBool)
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

func TestValidateExpression(t *testing.T) {
	for name, tc := range map[string]struct {
		text   string
		result expr.ResultType
		want   string // part of the error; "" if the expression is valid
	}{
		"a bool":                         {`request.path.endsWith(".json")`, expr.ResultBool, ""},
		"a string":                       {`request.headers["x-tenant"].lowerAscii()`, expr.ResultString, ""},
		"an int":                         {`size(request.path) + 1`, expr.ResultInt, ""},
		"every field":                    {`request.domain + request.method + request.host + request.path + request.clientIP + request.headers["a"] + request.query["a"][0] + request.claims.sub + request.descriptors[0][0].key + request.descriptors[0][0].value`, expr.ResultString, ""},
		"a claim may have any type":      {`request.claims.realm.admin`, expr.ResultBool, ""},
		"an optional value":              {`request.headers[?"x-plan"].orValue("free") == "free"`, expr.ResultBool, ""},
		"a network":                      {`cidr("10.0.0.0/8").containsIP(request.clientIP)`, expr.ResultBool, ""},
		"entries of descriptors":         {`request.descriptors.exists(d, d.exists(e, e.key == "generic_key" && e.value == "login"))`, expr.ResultBool, ""},
		"sets":                           {`sets.intersects(request.claims.groups, ["staff", "ops"])`, expr.ResultBool, ""},
		"a regular expression":           {`request.path.matches("^/v[0-9]+/[a-f0-9-]{36}$")`, expr.ResultBool, ""},
		"an empty text":                  {"", expr.ResultBool, "the expression must not be empty"},
		"only spaces":                    {" \n", expr.ResultBool, "the expression must not be empty"},
		"an incomplete expression":       {`request.path ==`, expr.ResultBool, "1:16: syntax error: the expression ends too early"},
		"an unclosed bracket":            {`request.headers["a"`, expr.ResultString, "1:20: syntax error: missing ']' at the end"},
		"an undefined field":             {`request.pth == "/"`, expr.ResultBool, "1:8: undefined field 'pth'; request has domain, method, host, path, query, headers, clientIP, claims, descriptors; an entry of a descriptor has key, value"},
		"an undefined field of an entry": {`request.descriptors[0][0].name == ""`, expr.ResultBool, "1:26: undefined field 'name'; request has"},
		"a field without request":        {`path == "/"`, expr.ResultBool, "1:1: undeclared reference to 'path'; use request.path"},
		"an undeclared variable":         {`object.spec == 1`, expr.ResultBool, "1:1: undeclared reference to 'object'"},
		"an error in the second line":    {"request.path == '/' ||\n  request.port == 1", expr.ResultBool, "2:10: undefined field 'port'"},
		"incompatible types":             {`request.path == 1`, expr.ResultBool, "1:14: found no matching overload for '_==_' applied to '(string, int)'"},
		"a string instead of a bool":     {`request.path`, expr.ResultBool, "1:1: the expression evaluates to string, but must evaluate to bool"},
		"a bool instead of a string":     {`request.path == "/"`, expr.ResultString, "1:1: the expression evaluates to bool, but must evaluate to string"},
		"a double instead of an int":     {`1.5`, expr.ResultInt, "1:1: the expression evaluates to double, but must evaluate to int"},
		"a list instead of a string":     {`request.query["a"]`, expr.ResultString, "1:1: the expression evaluates to list(string), but must evaluate to string"},
		"many errors":                    {`a + b + c + d + e`, expr.ResultInt, "1:1: undeclared reference to 'a'; 1:5: undeclared reference to 'b'; 1:9: undeclared reference to 'c'; and 2 more\n"},
		"a text over 4096 bytes":         {`"` + strings.Repeat("x", 4095) + `"`, expr.ResultString, "at most 4096 bytes"},
		"a text of 4096 bytes":           {`"` + strings.Repeat("x", 4094) + `"`, expr.ResultString, ""},
		"too many nested brackets":       {strings.Repeat("(", 1000) + "true" + strings.Repeat(")", 1000), expr.ResultBool, "1:1: expression recursion limit exceeded"},
		"three nested loops":             {`request.headers.exists(a, request.query.exists(b, request.headers.exists(c, a == b && b == c)))`, expr.ResultBool, "1:1: the expression takes up to 2"},
		"eight nested loops":             {`request.claims.a.all(a, ` + strings.Repeat(`request.claims.b.all(b, `, 7) + `true` + strings.Repeat(`)`, 8), expr.ResultBool, "1:1: the expression takes up to 6"},
		"a result that grows with the square of the path":       {`request.path.replace("", request.path) == ""`, expr.ResultBool, "1:1: the expression takes up to"},
		"a regular expression from the request":                 {`request.path.matches(request.headers["x"])`, expr.ResultBool, "1:37: the regular expression of matches must be a string literal"},
		"a concatenated regular expression":                     {`matches(request.path, "a" + "b")`, expr.ResultBool, "the regular expression of matches must be a string literal"},
		"an invalid regular expression":                         {`request.path.matches("(")`, expr.ResultBool, "1:22: error parsing regexp: missing closing ): `(`"},
		"a regular expression that compiles to a large program": {`request.path.matches("a{1000}b{1000}")`, expr.ResultBool, "compiles to 200"},
		"a message literal":                                     {`google.protobuf.Struct{} == google.protobuf.Struct{}`, expr.ResultBool, "the expression must not construct values of type google.protobuf.Struct"},
		"a request literal":                                     {`request{path: "/"}.path == "/"`, expr.ResultBool, "the expression must not construct values of type request"},
		"an undeclared function":                                {`request.path.explode()`, expr.ResultBool, "1:21: undeclared reference to 'explode'"},
	} {
		t.Run(name, func(t *testing.T) {
			err := expr.Validate(tc.text, tc.result)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("%s: %v", tc.text, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error()+"\n", tc.want)):
				t.Errorf("%s:\nerror %v\n want %s", tc.text, err, tc.want)
			}
		})
	}
}

// CEL lists every token that could follow, which are dozens.
func TestValidateExpression_OmitsTheTokensThatCouldFollow(t *testing.T) {
	for _, text := range []string{"request.path ==", "1 +", "[1, 2", "request.path ? 1"} {
		err := expr.Validate(text, expr.ResultBool)
		if err == nil || strings.Contains(err.Error(), "expecting {") {
			t.Errorf("%s: %v, want an error without the tokens", text, err)
		}
	}
}
