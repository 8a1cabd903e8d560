package format

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// parse parses one line in a format with assignments.
func parse(t *testing.T, name string, s *Settings, line string, assignments ...string) (Record, error) {
	t.Helper()
	f, err := Named(name)
	if err != nil {
		t.Fatal(err)
	}
	if s.Map, err = ParseMap(assignments); err != nil {
		t.Fatal(err)
	}
	p, err := f.NewParser(s, []string{line})
	if err != nil {
		t.Fatal(err)
	}
	var r Record
	err = p.Parse(line, &r)
	return r, err
}

func TestMap_DerivesFieldsOfAnyFormat(t *testing.T) {
	line := `203.0.113.7 - alice [14/Mar/2026:08:59:58 +0100] "GET /tenants/a%20b/x?key=k%201 HTTP/1.1" 200 12 "https://shop.example" "curl/8"`
	r, err := parse(t, "nginx", &Settings{}, line,
		"host='Shop.example:8080'", "header:X-Tenant-Id=path:2", "header:x-key=query:key", "claim:name=user", "domain='shop'", "header:x-none=path:9", "claim:agent=header:User-Agent")
	if err != nil {
		t.Fatal(err)
	}
	q := &r.Request
	want := map[string]string{"x-tenant-id": "a b", "x-key": "k 1", "referer": "https://shop.example", "user-agent": "curl/8"}
	if diff := cmp.Diff(want, q.Headers); diff != "" || q.Host != "shop.example" || q.Domain != "shop" {
		t.Errorf("host %q, domain %q, headers %s", q.Host, q.Domain, diff)
	}
	if diff := cmp.Diff(map[string]any{"sub": "alice", "name": "alice", "agent": "curl/8"}, q.Claims); diff != "" {
		t.Error(diff)
	}
	captured := `lb haproxy[1]: 203.0.113.7:1 [14/Mar/2026:08:00:05.655] fe be/s1 0/0/0/1/1 200 1 - - ---- 1/1/1/1/0 0/0 {acme|a=b; s=t} "GET / HTTP/1.1"`
	r, err = parse(t, "haproxy", &Settings{}, captured, "header:x-tenant-id=capture:1", "header:cookie=capture:2", "header:x-session=cookie:s")
	if diff := cmp.Diff(map[string]string{"x-tenant-id": "acme", "cookie": "a=b; s=t", "x-session": "t"}, r.Request.Headers); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestMap_ReadsAnyJSON(t *testing.T) {
	line := `{"ts":1773475205.5,"req":{"method":"POST","url":"http://shop.example/v1/orders?a=1","ip":"203.0.113.7:4711","tenant":["acme","x"]},
		"claims":{"a.b":7,"groups":["x","y"],"admin":true,"none":null},"took":250,"http":{"code":201}}`
	line = strings.ReplaceAll(line, "\n", "")
	r, err := parse(t, "json", &Settings{}, line, "time=.ts", "method=.req.method", "path=.req.url", "address=.req.ip", "header:x-tenant-id=.req.tenant",
		`claim:org=.claims."a.b"`, "claim:groups=.claims.groups", "claim:admin=.claims.admin", "claim:none=.claims.none", "claim:missing=.claims.missing",
		"milliseconds=.took", "status=.http.code")
	if err != nil {
		t.Fatal(err)
	}
	q := &r.Request
	if q.Method != http.MethodPost || q.Host != "shop.example" || q.Path != "/v1/orders" || q.ClientIP != netip.MustParseAddr("203.0.113.7") || r.Status != 201 ||
		r.Logged.Sub(r.Start).Milliseconds() != 250 || r.Logged.UnixMilli() != 1773475205500 || q.Headers["x-tenant-id"] != "acme" {
		t.Errorf("%+v", r)
	}
	want := map[string]any{"org": json.Number("7"), "groups": []any{"x", "y"}, "admin": true}
	if diff := cmp.Diff(want, q.Claims); diff != "" {
		t.Error(diff)
	}
	if _, err := parse(t, "json", &Settings{}, line, "time=.req.method", "path=.req.url"); err == nil || !strings.Contains(err.Error(), `time=.req.method: "POST" is no time`) {
		t.Errorf("an invalid time: %v", err)
	}
}

func TestParseMap_NamesWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"method": "has no =", "verb=.a": `"verb" is no field: must be method`, "method=a": `"a" is no source: must be .KEY`, "method=.": "an empty key", "": `"" has no =`, "host='a',": `"" has no =`,
		"method=.a..b": "an empty key", `method=."a`: "no closing quote", `method=."a"b`: "expected a dot", "host=path:0": "must be 1 or more", "host=path:x": "must be 1 or more",
		"header:=.a": "is no field", "host=cookie:": "is no source", "host='a": "is no source",
	} {
		if _, err := ParseMap([]string{text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	m, err := ParseMap([]string{"host=.a"})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range Formats() {
		_, err := f.NewParser(&Settings{Map: m}, nil)
		if isJSON := f.keys != nil; isJSON != (err == nil) {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
}

func TestParseMap_ReadsLists(t *testing.T) {
	for list, want := range map[string][]string{
		`time=.ts,method=.req.method`:               {"time=.ts", "method=.req.method"},
		`claim:org=.claims."a,b",host='a,b'`:        {`claim:org=.claims."a,b"`, "host='a,b'"},
		`host='it's, really',user=.u`:               {"host='it's, really'", "user=.u"},
		`header:x-a=cookie:it's,header:x-b=query:"`: {"header:x-a=cookie:it's", `header:x-b=query:"`},
		`host='a,b`: {"host='a,b"},
		`path=.a."b.c".d,host='',address=."x".y,user`: {`path=.a."b.c".d`, "host=''", `address=."x".y`, "user"},
	} {
		if got := splitAssignments(list); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", list, got, want)
		}
	}
	line := `{"time":"2026-03-14T08:00:05Z","http.method":"GET","url":"/v1","claims":{"a.b":"acme"}}`
	r, err := parse(t, "json", &Settings{}, line, `method=."http.method",claim:org=.claims."a.b",header:x-list='a,b'`)
	if err != nil || r.Request.Method != http.MethodGet || r.Request.Claims["org"] != "acme" || r.Request.Headers["x-list"] != "a,b" {
		t.Errorf("%+v, %v", r.Request, err)
	}
}

// A program can have another value at a key that usually has the status. The user assigns the status from another key.
func TestMap_ReplacesAnInvalidValue(t *testing.T) {
	line := `{"time":"2026-03-14T08:00:05Z","method":"GET","path":"/v1","status":"success","code":201}`
	if _, err := parse(t, "json", &Settings{}, line); err == nil || !strings.Contains(err.Error(), `.status: "success" is no status code`) {
		t.Error(err)
	}
	if r, err := parse(t, "json", &Settings{}, line, "status=.code"); err != nil || r.Status != 201 {
		t.Errorf("%d, %v", r.Status, err)
	}
}

// A cookie is read as in production: a malformed one hides no other, and its escapes are decoded.
func TestMap_ReadsCookiesAsPoliciesDo(t *testing.T) {
	for cookies, want := range map[string]string{
		"a=b c; tenant=acme": "acme", `x="; tenant=acme`: "acme", "tenant=a%20b": "a b", "tenant=a; tenant=b": "", "other=1": "",
	} {
		line := fmt.Sprintf(`{"time":"2026-03-14T08:00:05Z","method":"GET","path":"/v1","http_cookie":%q}`, cookies)
		if r, err := parse(t, "json", &Settings{}, line, "header:x-tenant-id=cookie:tenant"); err != nil || r.Request.Headers["x-tenant-id"] != want {
			t.Errorf("%s: %q, %v, want %q", cookies, r.Request.Headers["x-tenant-id"], err, want)
		}
	}
}

func TestDetect_AdvisesOnJSONThatIsNoLine(t *testing.T) {
	for text, want := range map[string]string{
		"{\n \"time\": 1700000000,\n": "jq -c .", `[{"method":"GET"}]`: "jq -c '.[]'", "[\n{}": "jq -c '.[]'", `{"a":1}`: "as a line of JSON: it has no key for a method or a path; set it with --format, or describe JSON lines with --map",
		`{"path":"/","time":"Sat, 14 Mar 2026 08:00:00 GMT"}`: `as a line of JSON: .time: "Sat, 14 Mar 2026 08:00:00 GMT" is no time`,
	} {
		if _, err := Detect(strings.Split(text, "\n"), &Settings{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestDetect_NamesAMapThatTheLogDoesNotFit(t *testing.T) {
	m, err := ParseMap([]string{"method=.a"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"nginx": "--map reads keys of JSON, and the lines are of the format nginx combined", "audit": "and the lines are of the format Kubernetes audit log",
		"traefik": "and the lines are of the format Traefik CLF",
	} {
		if _, err := Detect(lines(t, name), &Settings{Map: m}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// A port that a scanner has found has other lines first.
func TestDetect_ReadsTheRestOfLinesThatAreNoRequests(t *testing.T) {
	garbage := `203.0.113.8 - - [14/Mar/2026:09:00:00 +0100] "\x16\x03\x01" 400 157 "-" "-"`
	if f, err := Detect([]string{garbage, garbage}, &Settings{}); err != nil || f.Name != "nginx" {
		t.Errorf("%s, %v", f.Name, err)
	}
	if _, err := parse(t, "ingress-nginx", &Settings{}, garbage); err == nil || !strings.Contains(err.Error(), "expected") {
		t.Errorf("in another format: %v", err)
	}
}

// A limiter writes its decision log among its other messages, of which it has many when it starts.
func TestDetect_FindsDecisionsAmongOtherMessages(t *testing.T) {
	all := slices.Concat(slices.Repeat([]string{`{"time":"2026-03-14T08:00:05Z","level":"INFO","msg":"started"}`}, 60), lines(t, "decisions")[:1])
	if f, err := Detect(all, &Settings{}); err != nil || f.Name != "decisions" {
		t.Errorf("%s, %v", f.Name, err)
	}
	f, err := Named("decisions")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Check(all[:60], &Settings{}); err != nil {
		t.Errorf("without a decision yet: %v", err)
	}
	if err := f.Check(lines(t, "nginx"), &Settings{}); err == nil {
		t.Error("a log of nginx is accepted")
	}
}

func TestSettings_LeaveOutWhatPoliciesDoNotRead(t *testing.T) {
	line := `203.0.113.7 - - [14/Mar/2026:08:59:58 +0100] "GET /v1?q=x HTTP/1.1" 200 12 "-" "curl/8"`
	f, err := Named("nginx")
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.NewParser(&Settings{SkipQuery: true, Headers: []string{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var r Record
	if got := testing.AllocsPerRun(100, func() {
		r = Record{}
		if err := p.Parse(line, &r); err != nil {
			t.Fatal(err)
		}
	}); got > 0 {
		t.Errorf("%v allocations", got)
	}
	if r.Request.Query != nil || r.Request.Headers != nil || r.Request.Path != "/v1" {
		t.Errorf("%+v", r.Request)
	}
	r, err = parse(t, "nginx", &Settings{Headers: []string{"x-a"}}, line, "header:x-a='1'", "header:x-b='2'")
	if diff := cmp.Diff(map[string]string{"x-a": "1"}, r.Request.Headers); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// Headers that no policy reads are not unquoted, but those that another field comes from are read.
func TestSettings_ReadsHeadersThatOtherFieldsComeFrom(t *testing.T) {
	line := `{"time":"2026-03-14T08:00:05Z","path":"/","http_x_a":"a","http_x_b":"b","http_cookie":"c=d","user_agent":"u","http_x_e":"e"}`
	r, err := parse(t, "json", &Settings{Headers: []string{"x-a", "x-c"}}, line, "header:x-c=cookie:c", "user=header:x-b", "claim:agent=header:user-agent")
	if diff := cmp.Diff(map[string]string{"x-a": "a", "x-c": "d"}, r.Request.Headers); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if diff := cmp.Diff(map[string]any{"sub": "b", "agent": "u"}, r.Request.Claims); diff != "" {
		t.Error(diff)
	}
}

func TestSettings_LeaveOutObjects(t *testing.T) {
	for _, skips := range []bool{false, true} {
		r, err := parse(t, "audit", &Settings{SkipObjects: skips}, lines(t, "audit")[1])
		if k := r.Request.Kubernetes; err != nil || k.Kind != "Pod" || (len(k.Object) == 0) != skips {
			t.Errorf("%t: %+v, %v", skips, k, err)
		}
	}
}

func TestSettings_ClientOf(t *testing.T) {
	line := `[2026-03-14T08:00:05.123Z] "GET / HTTP/1.1" 200 - 0 5 25 24 "198.51.100.99, 203.0.113.7" "-" "-" "shop.example" "-"`
	var source netip.Addr
	var forwarded string
	own := netip.MustParseAddr("192.0.2.1")
	s := &Settings{ClientOf: func(a netip.Addr, f string) netip.Addr {
		source, forwarded = a, f
		return own
	}}
	r, err := parse(t, "envoy", s, line)
	if err != nil || r.Request.ClientIP != own || source.String() != "203.0.113.7" || forwarded != "198.51.100.99, 203.0.113.7" {
		t.Errorf("%v, %v, source %v, forwarded %q", err, r.Request.ClientIP, source, forwarded)
	}
	s.ClientHeader, s.Headers = "forwarded", []string{}
	line = `{"time":"2026-03-14T08:00:05Z","path":"/","remote_addr":"10.0.0.1","http_x_forwarded_for":"198.51.100.99","http_forwarded":"for=203.0.113.7"}`
	r, err = parse(t, "json", s, line)
	if err != nil || r.Request.ClientIP != own || source.String() != "10.0.0.1" || forwarded != "for=203.0.113.7" || r.Request.Headers != nil {
		t.Errorf("%v, %v, source %v, header %q", err, r.Request, source, forwarded)
	}
}

func TestNamed_CompilesTheConfigurationOfTheServer(t *testing.T) {
	for name, c := range map[string]struct{ format, line, host, tenant string }{
		"nginx": {
			`nginx:$time_iso8601|$host|${remote_addr}|"$request"|$http_x_tenant_id|$request_time`,
			`2026-03-14T08:00:05+00:00|shop.example|203.0.113.7|"GET /v1?q=x HTTP/1.1"|acme|0.5`, "shop.example", "acme",
		},
		"envoy": {
			`envoy:[%START_TIME%] %REQ(:METHOD)% %REQ(:PATH)% %RESPONSE_CODE% "%REQ(:AUTHORITY)%" "%REQ(X-TENANT-ID):64%" %DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%\n`,
			`[2026-03-14T08:00:05.000Z] GET /v1?q=x 200 "shop.example" "acme" 203.0.113.7`, "shop.example", "acme",
		},
	} {
		r, err := parse(t, c.format, &Settings{}, c.line)
		if q := &r.Request; err != nil || q.Host != c.host || q.Headers["x-tenant-id"] != c.tenant || q.Path != "/v1" || q.ClientIP.String() != "203.0.113.7" {
			t.Errorf("%s: %v, %+v", name, err, q)
		}
	}
	for text, want := range map[string]string{
		"nginx:": "has no variable", "nginx:$a$b": "no text between them", "nginx:${a": "no closing brace", "nginx:a $ b": "without the name",
		"nginx:$request": "has no time", "envoy:%A": "no closing %", "envoy:%START_TIME%%A%": "no text between them",
	} {
		if _, err := Named(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A key that means something else in a log does not hide the key that the log has for a field.
func TestJSON_AnotherKeyReplacesAMalformedValue(t *testing.T) {
	for _, line := range []string{
		`{"time":0.25,"ts":1773475205.5,"method":"GET","url":"/a","status":"OK","status_code":200}`,
		`{"ts":1773475205.5,"time":"fast","request_method":"GET","path":"/a","status_code":200,"status":"OK"}`,
	} {
		if r, err := parse(t, "json", &Settings{}, line); err != nil || r.Logged.Unix() != 1773475205 || r.Request.Path != "/a" || r.Status != 200 {
			t.Errorf("%s: %v, %+v", line, err, r)
		}
	}
	if _, err := parse(t, "json", &Settings{}, `{"time":"fast","method":"GET","path":"/a"}`); err == nil || !strings.Contains(err.Error(), `.time: "fast" is no time`) {
		t.Error(err)
	}
}

func TestDetect_ChoosesTheFormatOfMostLines(t *testing.T) {
	mixed := append(lines(t, "envoy"), "some text", "[warn] other text")
	if f, err := Detect(mixed, &Settings{}); err != nil || f.Name != "envoy" {
		t.Errorf("%s, %v", f.Name, err)
	}
	if _, err := Detect([]string{`{"level":"info","msg":"started"}`, `{"level":"info","msg":"ready"}`}, &Settings{}); err == nil ||
		!strings.Contains(err.Error(), "describe JSON lines with --map") {
		t.Error(err)
	}
}

func TestParse_NamesTheFieldThatIsWrong(t *testing.T) {
	for _, c := range []struct{ format, line, want string }{
		{"nginx", `203.0.113.7 - - [14/Mar/2026 08:59:58] "GET / HTTP/1.1" 200 12`, `$time_local: "14/Mar/2026 08:59:58" is no time`},
		{"nginx", `203.0.113.7 - - [14/Mar/2026:08:59:58 +0100] "GET / HTTP/1.1" OK 12`, `$status: "OK" is no status code`},
		{"nginx", `203.0.113.7`, `expected " " after $remote_addr at column 1`},
		{"envoy", `203.0.113.7`, `expected "[" after the start of the line at column 1`},
		{"haproxy", `Mar 14 08:00:05 lb1 haproxy[1]: Proxy web started.`, "expected an address and the accept date"},
		{"json", `{"a":1`, `expected , or }`},
		{"json", `{"a":tru}`, "expected a value at column 6"},
		{"json", `{"a":1} x`, "expected the end of the line"},
		{"json", `{"method":"GET","path":"/"}`, "the line has no time"},
		{"audit", `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[{}`, "expected } or ]"},
		{"audit", `{"kind":"Event","apiVersion":"v1"}`, `expected kind Event of audit.k8s.io/v1, found kind "Event" of "v1"`},
		{"decisions", `{"msg":"decision","time":"2026-03-14T08:00:05Z"}`, "no policy or no revision"},
	} {
		_, err := parse(t, c.format, &Settings{}, c.line)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %s: %v, want %q", c.format, c.line, err, c.want)
		}
	}
}
