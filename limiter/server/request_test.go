package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

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
			got, bad := decode([]byte(test.body))
			if bad != nil {
				t.Fatalf("rejected: %+v", *bad)
			}
			if diff := cmp.Diff(test.want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecode_RejectsInvalidFieldsByName(t *testing.T) {
	const anyOf = "the body has no field to count requests by: set at least one of clientIP, headers, query, " +
		"path, host, claims, descriptors"
	const wholeCost = "a whole number from 1 to 1000000000"
	tests := map[string]struct{ body, field, detail string }{
		"nothing":                   {``, "body", "body is not valid JSON: unexpected end of JSON input at byte 0"},
		"text":                      {`domain=shop`, "body", "body is not valid JSON: invalid character 'd' looking for beginning of value at byte 1"},
		"half an object":            {`{"domain":"shop"`, "body", "body is not valid JSON: unexpected end of JSON input at byte 16"},
		"trailing data":             {`{"domain":"shop"} {}`, "body", "body is not valid JSON: invalid character '{' after top-level value at byte 19"},
		"a list":                    {`[]`, "body", "body must be an object, not a list"},
		"null":                      {`null`, "body", "body must be an object, not null"},
		"an invalid UTF-8 byte":     {"{\"domain\":\"\xff\"}", "body", "body is not valid UTF-8"},
		"an unknown field":          {`{"domain":"shop","clientIp":"::1"}`, "clientIp", "clientIp is not a field of a check; the fields are " + checkFields},
		"a field in capitals":       {`{"Domain":"shop"}`, "Domain", "Domain is not a field of a check; the fields are " + checkFields},
		"a very long unknown field": {`{"` + strings.Repeat("é", 40) + `":1}`, strings.Repeat("é", 32) + "…", strings.Repeat("é", 32) + "… is not a field of a check; the fields are " + checkFields},
		"a field given twice":       {`{"domain":"shop","domain":"other"}`, "domain", "domain is present more than once"},
		"no domain":                 {`{"clientIP":"::1"}`, "domain", "domain is missing: set it to the domain whose policies apply, for example a namespace"},
		"an empty domain":           {`{"domain":"","clientIP":"::1"}`, "domain", "domain is missing: set it to the domain whose policies apply, for example a namespace"},
		"an endless domain":         {`{"domain":"` + strings.Repeat("a", 254) + `","clientIP":"::1"}`, "domain", "domain is longer than 253 bytes"},
		"a domain alone":            {`{"domain":"shop","method":"GET","cost":1,"peek":true}`, "body", anyOf},
		"empty things only":         {`{"domain":"shop","headers":{},"query":{},"path":"","host":"","claims":{},"descriptors":[]}`, "body", anyOf},
		"null for a string":         {`{"domain":null}`, "domain", "domain must be a string, not null"},
		"a number for a string":     {`{"method":1}`, "method", "method must be a string, not a number"},
		"a list for a string":       {`{"path":["/"]}`, "path", "path must be a string, not a list"},
		"an object for a string":    {`{"host":{}}`, "host", "host must be a string, not an object"},
		"headers as a list":         {`{"headers":[]}`, "headers", "headers must be an object, not a list"},
		"a header that is a list":   {`{"headers":{"x-a":["b"]}}`, "headers.x-a", "headers.x-a must be a string, not a list"},
		"two spellings of a header": {`{"headers":{"x-a":"b","X-A":"c"}}`, "headers.X-A", "headers.X-A is present more than once: header names are not case-sensitive"},
		"a header without a name":   {`{"headers":{"":"b"}}`, "headers", "headers contains a header with an empty name"},
		"too many headers":          {`{"headers":` + members(129, `"v"`) + `}`, "headers", "headers has more than 128 headers"},
		"query as a string":         {`{"query":"q=x"}`, "query", "query must be an object, not a string"},
		"a value outside a list":    {`{"query":{"q":"x"}}`, "query.q", "query.q must be a list of strings, not a string"},
		"a number in a query":       {`{"query":{"q":["x",1]}}`, "query.q[1]", "query.q[1] must be a string, not a number"},
		"a parameter twice":         {`{"query":{"q":[],"q":[]}}`, "query.q", "query.q is present more than once"},
		"too many parameters":       {`{"query":` + members(257, `[]`) + `}`, "query", "query has more than 256 parameters"},
		"claims as a string":        {`{"claims":"sub"}`, "claims", "claims must be an object, not a string"},
		"a claim given twice":       {`{"claims":{"sub":"a","sub":"b"}}`, "claims.sub", "claims.sub is present more than once"},
		"descriptors as an object":  {`{"descriptors":{}}`, "descriptors", "descriptors must be a list of descriptors, not an object"},
		"a descriptor of one level": {`{"descriptors":[{"key":"a","value":"b"}]}`, "descriptors[0]", "descriptors[0] must be a list of entries, not an object"},
		"an entry that is a string": {`{"descriptors":[[],["a"]]}`, "descriptors[1][0]", "descriptors[1][0] must be an object, not a string"},
		"an entry without key":      {`{"descriptors":[[{"value":"b"}]]}`, "descriptors[0][0].key", "descriptors[0][0].key is missing"},
		"an entry without value":    {`{"descriptors":[[{"key":"a"}]]}`, "descriptors[0][0].value", "descriptors[0][0].value is missing"},
		"a key given twice":         {`{"descriptors":[[{"key":"a","key":"a"}]]}`, "descriptors[0][0].key", "descriptors[0][0].key is present more than once"},
		"an unknown entry field":    {`{"descriptors":[[{"name":"a"}]]}`, "descriptors[0][0].name", "descriptors[0][0].name is not a field of a descriptor entry; the fields are key, value"},
		"too many descriptors":      {`{"descriptors":[` + strings.Repeat("[],", 64) + `[]]}`, "descriptors", "descriptors has more than 64 descriptors"},
		"too many entries":          {`{"descriptors":[[` + strings.Repeat(`{"key":"a","value":""},`, 64) + `{}]]}`, "descriptors[0]", "descriptors[0] has more than 64 entries"},
		"a cost of 0":               {`{"cost":0}`, "cost", "cost must be " + wholeCost},
		"a negative cost":           {`{"cost":-1}`, "cost", "cost must be " + wholeCost},
		"a broken cost":             {`{"cost":1.5}`, "cost", "cost must be " + wholeCost},
		"a cost above the bound":    {`{"cost":1000000001}`, "cost", "cost must be " + wholeCost},
		"a cost beyond 64 bits":     {`{"cost":1e400}`, "cost", "cost must be " + wholeCost},
		"a cost in quotes":          {`{"cost":"1"}`, "cost", "cost must be " + wholeCost + ", not a string"},
		"peek as a number":          {`{"peek":1}`, "peek", "peek must be true or false, not a number"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, bad := decode([]byte(test.body))
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
		check, bad := decode(body)
		if bad != nil {
			if bad.Status != http.StatusBadRequest || bad.Field == "" && bad.Detail == "" {
				t.Fatalf("problem %+v", *bad)
			}
			return
		}
		var reference struct {
			Domain  string
			Headers map[string]string
			Cost    *int64
		}
		if err := json.Unmarshal(body, &reference); err != nil {
			t.Fatalf("decode accepted a body that encoding/json rejects: %v", err)
		}
		if check.Request.Domain != reference.Domain || len(check.Request.Headers) != len(reference.Headers) {
			t.Fatalf("read %+v, encoding/json %+v", check, reference)
		}
		for name, value := range reference.Headers {
			if got := check.Request.Headers[strings.ToLower(name)]; got != value {
				t.Fatalf("header %q: read %q, encoding/json %q", name, got, value)
			}
		}
		if reference.Cost != nil && *reference.Cost != check.Cost {
			t.Fatalf("cost: read %d, encoding/json %d", check.Cost, *reference.Cost)
		}
	})
}
