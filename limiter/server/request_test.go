package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
)

func TestDecode_ReadsEveryField(t *testing.T) {
	tests := map[string]struct {
		body string
		want engine.Check
	}{
		"the example of the documentation": {
			`{"domain":"shop","method":"GET","host":"api.shop.example","path":"/v1/search","query":{"q":["x"]},
			  "headers":{"x-tenant-id":"acme"},"clientIP":"203.0.113.7",
			  "claims":{"sub":"u1","scope":["a",{"b":null,"c":true}],"id":9007199254740993,"rate":1.0e3,"none":[]},
			  "descriptors":[[{"key":"generic_key","value":"login"},{"value":"","key":"any"}],[]],"cost":3,"peek":true}`,
			engine.Check{Cost: 3, Peek: true, Request: rules.Request{
				Domain: "shop", Method: "GET", Host: "api.shop.example", Path: "/v1/search",
				Query:    map[string][]string{"q": {"x"}},
				Headers:  map[string]string{"x-tenant-id": "acme"},
				ClientIP: netip.MustParseAddr("203.0.113.7"),
				Claims: map[string]any{
					"sub": "u1", "scope": []any{"a", map[string]any{"b": nil, "c": true}}, "none": []any{},
					"id": json.Number("9007199254740993"), "rate": json.Number("1.0e3"),
				},
				Descriptors: []rules.Descriptor{{{Key: "generic_key", Value: "login"}, {Key: "any"}}, nil},
			}},
		},
		"cost is 1 and peek false unless given": {
			`{"domain":"shop","clientIP":"2001:db8::7"}`,
			engine.Check{Cost: 1, Request: rules.Request{Domain: "shop", ClientIP: netip.MustParseAddr("2001:db8::7")}},
		},
		"an address in any notation": {
			`{"domain":"shop","clientIP":" \"[2001:db8::7]:4711\""}`,
			engine.Check{Cost: 1, Request: rules.Request{Domain: "shop", ClientIP: netip.MustParseAddr("2001:db8::7")}},
		},
		"an address that cannot be read": { // the client can have sent it
			`{"domain":"shop","clientIP":"unknown"}`,
			engine.Check{Cost: 1, Request: rules.Request{Domain: "shop", InvalidClientIP: true}},
		},
		"an empty address is absent": {
			`{"domain":"shop","host":"a","clientIP":""}`,
			engine.Check{Cost: 1, Request: rules.Request{Domain: "shop", Host: "a"}},
		},
		"white space and the largest cost": {
			" {\n\"domain\" : \"shop\" , \"cost\" : 1000000000 ,\t\"host\":\"a\" }\r\n",
			engine.Check{Cost: 1_000_000_000, Request: rules.Request{Domain: "shop", Host: "a"}},
		},
		"escapes in names and values": {
			`{"\u0064omain":"sh\u006fp","headers":{"x-\"a\"":"\\\n\ud83d\ude00"}}`,
			engine.Check{Cost: 1, Request: rules.Request{Domain: "shop", Headers: map[string]string{`x-"a"`: "\\\n😀"}}},
		},
		"host, path and header names in normal form": {
			`{"domain":"shop","host":"API.Shop.Example.:8443","path":"//v1/./search/../light/","headers":{"X-Plan":"Free"}}`,
			engine.Check{Cost: 1, Request: rules.Request{
				Domain: "shop", Host: "api.shop.example", Path: "/v1/light", RawPath: "//v1/./search/../light/", Headers: map[string]string{"x-plan": "Free"},
			}},
		},
		"a query in the path": {
			`{"domain":"shop","path":"/v1/search?q=x&q=y%20z&bad=%zz#top?no=1"}`,
			engine.Check{Cost: 1, Request: rules.Request{
				Domain: "shop", Path: "/v1/search", Query: map[string][]string{"q": {"x", "y z"}},
			}},
		},
		"a query in the path comes after the query": {
			`{"domain":"shop","query":{"q":["a"],"e":[]},"path":"/?q=b&r=c"}`,
			engine.Check{Cost: 1, Request: rules.Request{
				Domain: "shop", Path: "/", Query: map[string][]string{"q": {"a", "b"}, "e": {}, "r": {"c"}},
			}},
		},
		"an absent path stays absent": {
			`{"domain":"shop","descriptors":[[]],"path":""}`,
			engine.Check{Cost: 1, Request: rules.Request{Domain: "shop", Descriptors: []rules.Descriptor{nil}, NoHTTP: true}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, _, bad := decode([]byte(test.body))
			if bad != nil {
				t.Fatalf("rejected: %+v", *bad)
			}
			got.Request.RawQuery, got.Request.OtherQueries = "", nil // limiter/rules tests the readings of queries
			if diff := cmp.Diff(test.want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
		})
	}
}

// Gateways serve requests whose check fails, so what a client can influence must not make a check fail.
func TestDecode_ReadsWhateverAClientCanInfluence(t *testing.T) {
	descriptors := func(n int, entry string) string {
		return `{"descriptors":[` + strings.TrimSuffix(strings.Repeat("["+entry+"],", n), ",") + "]"
	}
	const entry = `{"key":"k","value":"v"}`
	tests := map[string]struct {
		body    string // without the domain
		want    func(*rules.Request) any
		value   any
		defects []string
	}{
		"a byte that is not UTF-8":            {"{\"headers\":{\"x-a\":\"caf\xe9\"}", header("x-a"), "caf\xe9", []string{"not_utf8"}},
		"such a byte next to escapes":         {"{\"headers\":{\"x-a\":\"\xe9\\n\\ud83d\\ude00\\ud800\\u00e9\"}", header("x-a"), "\xe9\n😀\ufffdé", []string{"not_utf8"}},
		"a header twice":                      {`{"headers":{"x-a":"b","x-a":"c"}`, header("x-a"), "b,c", nil},
		"a header in several spellings":       {`{"headers":{"x-a":"b","X-A":["c","d"],"X-a":"e"}`, header("x-a"), "b,c,d,e", nil},
		"lines of cookies":                    {`{"headers":{"Cookie":["a=1"],"cookie":"b=2"}`, header("cookie"), "a=1; b=2", nil},
		"a header that is a list":             {`{"headers":{"set-cookie":["b","c"]}`, header("set-cookie"), "b,c", nil},
		"a header without lines":              {`{"headers":{"x-a":[]}`, headerNames, 0, nil},
		"a header without a name":             {`{"headers":{"":"b"}`, headerNames, 0, nil},
		"a header that is no text":            {`{"headers":{"x-a":null,"x-b":[1,"c"],"x-c":{}}`, header("x-b"), "c", []string{"value"}},
		"many headers":                        {`{"headers":` + members(9000, `""`), headerNames, 9000, nil},
		"a parameter outside a list":          {`{"query":{"q":"x"}`, parameterQ, "[x]", nil},
		"a parameter twice":                   {`{"query":{"q":["x"],"q":["y"]}`, parameterQ, "[x y]", nil},
		"a parameter that is no text":         {`{"query":{"q":["x",{"b":["1"]},null],"r":true}`, parameterQ, "[x]", []string{"value"}},
		"many parameters":                     {`{"query":` + members(9000, `[]`), func(r *rules.Request) any { return len(r.Query) }, 9000, nil},
		"a parameter after 10 000 separators": {`{"path":"/?` + strings.Repeat("&", 10_000) + `q=x"`, parameterQ, "[x]", nil},
		"nothing to count by":                 {`{"headers":{},"query":{},"path":"","host":"","claims":{},"descriptors":[]`, headerNames, 0, nil},
		"null":                                {`{"headers":null,"query":null,"path":null,"host":null,"claims":null,"clientIP":null,"cost":null,"peek":null`, headerNames, 0, nil},
		"65 descriptors":                      {descriptors(65, entry), func(r *rules.Request) any { return len(r.Descriptors) }, 64, []string{"descriptors"}},
		"65 entries":                          {descriptors(1, strings.Repeat(entry+",", 64)+entry), func(r *rules.Request) any { return len(r.Descriptors[0]) }, 64, []string{"entries"}},
		"64 descriptors":                      {descriptors(64, entry), func(r *rules.Request) any { return len(r.Descriptors) }, 64, nil},
		"64 entries":                          {descriptors(1, strings.Repeat(entry+",", 63)+entry), func(r *rules.Request) any { return len(r.Descriptors[0]) }, 64, nil},
		"an entry with an empty key":          {descriptors(1, `{"key":"","value":"v"}`), func(r *rules.Request) any { return r.Descriptors[0][0].Value }, "v", []string{"empty_key"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			check, defects, bad := decode([]byte(test.body + `,"domain":"shop"}`))
			if bad != nil {
				t.Fatalf("rejected: %+v", *bad)
			}
			if got := test.want(&check.Request); got != test.value || !slices.Equal(defects, test.defects) || check.Cost != 1 {
				t.Errorf("%q, defects %q and cost %d; want %q, %q and 1", got, defects, check.Cost, test.value, test.defects)
			}
		})
	}
}

func header(name string) func(*rules.Request) any {
	return func(r *rules.Request) any { return r.Headers[name] }
}

func headerNames(r *rules.Request) any { return len(r.Headers) }

func parameterQ(r *rules.Request) any { return fmt.Sprint(r.Query["q"]) }

func TestDecode_ReadsTheNearestCost(t *testing.T) {
	for text, want := range map[string]struct {
		cost   int64
		defect bool
	}{
		"1": {1, false}, "1000000000": {1_000_000_000, false}, "0": {1, true}, "-7": {1, true}, "1.5": {2, true}, "0.1": {1, true}, "1e3": {1000, true},
		"1000000001": {1_000_000_000, true}, "1e400": {1_000_000_000, true}, "-1e400": {1, true}, "99999999999999999999": {1_000_000_000, true},
	} {
		check, defects, bad := decode([]byte(`{"domain":"shop","host":"a","cost":` + text + `}`))
		if bad != nil || check.Cost != want.cost || slices.Contains(defects, "cost") != want.defect {
			t.Errorf("%s: cost %d, defects %q, %v; want %d, and a defect: %v", text, check.Cost, defects, bad, want.cost, want.defect)
		}
	}
}

func TestDecode_JoinsRepeatedHeadersInLinearTime(t *testing.T) {
	line := `"x-a":"` + strings.Repeat("b", 20) + `",`
	body := `{"domain":"shop","headers":{` + strings.TrimSuffix(strings.Repeat(line, 30_000), ",") + "}}"
	if n := allocated(func() {
		if check, _, bad := decode([]byte(body)); bad != nil || len(check.Request.Headers["x-a"]) != 30_000*21-1 {
			t.Error(bad)
		}
	}); n > 8*uint64(len(body)) {
		t.Errorf("%d bytes for a body of %d", n, len(body))
	}
}

// A body takes memory for its values, however short they are, so the bounds are on both.
func TestDecode_AllocatesWithinTheBounds(t *testing.T) {
	const most = 8 << 20 // bytes
	repeated := func(value string, n int) string { return strings.TrimSuffix(strings.Repeat(value+",", n), ",") }
	for name, body := range map[string]string{
		"text":       `{"domain":"shop","path":"/` + strings.Repeat("a", maxBody-100) + `"}`,
		"claims":     `{"domain":"shop","claims":{"a":[` + repeated("{}", maxValues/2-10) + `]}}`,
		"headers":    `{"domain":"shop","headers":` + members(maxValues-10, `""`) + `}`,
		"query":      `{"domain":"shop","query":` + members(maxValues/2-10, `[]`) + `}`,
		"parameters": `{"domain":"shop","path":"/?` + strings.Repeat("&a", maxValues) + `"}`,
	} {
		if got := allocated(func() {
			if _, defects, bad := decode([]byte(body)); bad != nil || defects != nil {
				t.Error(name, defects, bad)
			}
		}); got > most {
			t.Errorf("%s: %d bytes for a body of %d, want at most %d", name, got, len(body), most)
		}
	}
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestDecode_RejectsInvalidFieldsByName(t *testing.T) {
	const anyOf = "the body has no field to count requests by: set at least one of clientIP, headers, query, " +
		"path, host, claims, descriptors"
	tests := map[string]struct{ body, field, detail string }{
		"nothing":                   {``, "body", "body is not valid JSON: unexpected end of JSON input at byte 0"},
		"text":                      {`domain=shop`, "body", "body is not valid JSON: invalid character 'd' looking for beginning of value at byte 1"},
		"half an object":            {`{"domain":"shop"`, "body", "body is not valid JSON: unexpected end of JSON input at byte 16"},
		"trailing data":             {`{"domain":"shop"} {}`, "body", "body is not valid JSON: invalid character '{' after top-level value at byte 19"},
		"a list":                    {`[]`, "body", "body must be an object, not a list"},
		"null":                      {`null`, "body", "body must be an object, not null"},
		"an unknown field":          {`{"domain":"shop","clientIp":"::1"}`, "clientIp", "clientIp is not a field of a check; the fields are " + checkFields},
		"a field in capitals":       {`{"Domain":"shop"}`, "Domain", "Domain is not a field of a check; the fields are " + checkFields},
		"a very long unknown field": {`{"` + strings.Repeat("é", 40) + `":1}`, strings.Repeat("é", 32) + "…", strings.Repeat("é", 32) + "… is not a field of a check; the fields are " + checkFields},
		"a field given twice":       {`{"domain":"shop","domain":"other"}`, "domain", "domain is present more than once"},
		"no domain":                 {`{"clientIP":"::1"}`, "domain", "domain is missing: set it to the domain whose policies apply, for example a namespace"},
		"an empty domain":           {`{"domain":"","clientIP":"::1"}`, "domain", "domain is missing: set it to the domain whose policies apply, for example a namespace"},
		"an endless domain":         {`{"domain":"` + strings.Repeat("a", 254) + `","clientIP":"::1"}`, "domain", "domain is longer than 253 bytes"},
		"a domain alone":            {`{"domain":"shop","method":"GET","cost":1,"peek":true}`, "body", anyOf},
		"a number for a string":     {`{"method":1}`, "method", "method must be a string, not a number"},
		"a list for a string":       {`{"path":["/"]}`, "path", "path must be a string, not a list"},
		"an object for a string":    {`{"host":{}}`, "host", "host must be a string, not an object"},
		"headers as a list":         {`{"headers":[]}`, "headers", "headers must be an object, not a list"},
		"query as a string":         {`{"query":"q=x"}`, "query", "query must be an object, not a string"},
		"claims as a string":        {`{"claims":"sub"}`, "claims", "claims must be an object, not a string"},
		"a claim given twice":       {`{"claims":{"sub":"a","sub":"b"}}`, "claims.sub", "claims.sub is present more than once"},
		"descriptors as an object":  {`{"descriptors":{}}`, "descriptors", "descriptors must be a list of descriptors, not an object"},
		"a descriptor of one level": {`{"descriptors":[{"key":"a","value":"b"}]}`, "descriptors[0]", "descriptors[0] must be a list of entries, not an object"},
		"an entry that is a string": {`{"descriptors":[[],["a"]]}`, "descriptors[1][0]", "descriptors[1][0] must be an object, not a string"},
		"an entry without key":      {`{"descriptors":[[{"value":"b"}]]}`, "descriptors[0][0].key", "descriptors[0][0].key is missing"},
		"an entry without value":    {`{"descriptors":[[{"key":"a"}]]}`, "descriptors[0][0].value", "descriptors[0][0].value is missing"},
		"a key given twice":         {`{"descriptors":[[{"key":"a","key":"a"}]]}`, "descriptors[0][0].key", "descriptors[0][0].key is present more than once"},
		"an unknown entry field":    {`{"descriptors":[[{"name":"a"}]]}`, "descriptors[0][0].name", "descriptors[0][0].name is not a field of a descriptor entry; the fields are key, value"},
		"a cost in quotes":          {`{"cost":"1"}`, "cost", "cost must be a number, not a string"},
		"null for the domain":       {`{"domain":null,"host":"a"}`, "domain", "domain is missing: set it to the domain whose policies apply, for example a namespace"},
		"an unknown field of null":  {`{"clientIp":null}`, "clientIp", "clientIp is not a field of a check; the fields are " + checkFields},
		"a number for headers":      {`{"headers":1}`, "headers", "headers must be an object, not a number"},
		"peek as a number":          {`{"peek":1}`, "peek", "peek must be true or false, not a number"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, bad := decode([]byte(test.body))
			if bad == nil {
				t.Fatal("accepted")
			}
			got, err := json.Marshal(bad)
			if err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf(`{"type":"about:blank","title":"Bad Request","status":400,"detail":%s,"field":%s}`,
				quote(t, test.detail), quote(t, test.field))
			if diff := cmp.Diff(want, string(got)); diff != "" {
				t.Errorf("problem (-want +got):\n%s", diff)
			}
		})
	}
}

// members returns an object with n members of the same value.
func members(n int, value string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"m%d":%s`, i, value)
	}
	return "{" + b.String()[1:] + "}"
}

func quote(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// FuzzDecode checks that decode never panics, and that encoding/json accepts each accepted body and reads the same values.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"domain":"shop","method":"GET","host":"a:80","path":"/v1?q=x","query":{"q":["x"]},"headers":{"X-A":"\u00e9\ud800"},` +
			`"clientIP":"::1","claims":{"a":[{}]},"descriptors":[[{"key":"k","value":"v"}]],"cost":1,"peek":false}`,
		`{"domain":"s","headers":{"a":"b","A":"c"}}`, `{"a":{"b":[1,2,{"c":"\\\""}]}}`, `[]`, `{}`, `"`, `{"cost":1e9}`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		check, defects, bad := decode(body)
		if slices.Contains(defects, defectSize) {
			return
		}
		if bad != nil {
			if bad.Status != http.StatusBadRequest || bad.Field == "" && bad.Detail == "" {
				t.Fatalf("problem %+v", *bad)
			}
			return
		}
		var reference struct {
			Domain  string
			Headers map[string]any
		}
		if err := json.Unmarshal(body, &reference); err != nil {
			t.Fatalf("decode accepted a body that encoding/json rejects: %v", err)
		}
		if !utf8.Valid(body) {
			return // encoding/json replaces bytes that are not UTF-8
		}
		if check.Request.Domain != reference.Domain {
			t.Fatalf("read %+v, encoding/json %+v", check, reference)
		}
		spellings := map[string]int{}
		for name := range reference.Headers {
			spellings[strings.ToLower(name)]++
		}
		for name, value := range reference.Headers {
			lower := strings.ToLower(name)
			want, text := value.(string)
			// The endpoint joins repeated headers, of which encoding/json reads the last one.
			if got := check.Request.Headers[lower]; text && spellings[lower] == 1 && lower != "" && got != want && !strings.HasSuffix(got, ","+want) &&
				!strings.HasSuffix(got, "; "+want) && !strings.Contains(got, want+",") {
				t.Fatalf("header %q: read %q, encoding/json %q", name, got, want)
			}
		}
		if check.Cost < 1 || check.Cost > 1_000_000_000 {
			t.Fatalf("cost %d", check.Cost)
		}
	})
}
