package explain

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRead_Forms(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want Request
		note string
	}{
		"JSON": {
			`{"domain":"shop","path":"/v1?q=x","headers":{"x-tenant-id":"acme"},"cost":2,"peek":true}`,
			Request{Domain: "shop", Path: "/v1?q=x", Headers: map[string]string{"x-tenant-id": "acme"}, Cost: 2},
			"",
		},
		"curl": {
			"curl -sSL 'https://api.shop.example:8443/v1/search?q=x#top' \\\n  -H 'X-Tenant-ID: acme' -H \"x-a: 1\" --header=x-a:2 -b 'session=1' --compressed",
			Request{
				Method: "GET", Host: "api.shop.example:8443", Path: "/v1/search?q=x",
				Headers: map[string]string{"x-tenant-id": "acme", "x-a": "1,2", "cookie": "session=1"},
			},
			"",
		},
		"curl with a body": {
			`curl shop.example -XPUT -d '{"a":1}' -u alice:secret -A me -H 'Host: other.example' -o out`,
			Request{
				Method: "PUT", Host: "other.example", Path: "/",
				Headers: map[string]string{"authorization": "Basic YWxpY2U6c2VjcmV0", "user-agent": "me"},
			},
			"",
		},
		"curl without method and with a body": {
			`curl --url http://u:p@shop.example/a --data-raw $'it\'s'`, Request{Method: "POST", Host: "shop.example", Path: "/a"}, "",
		},
		"curl -G": {"curl -G shop.example/a?b=1 -d c=2 -d d=3", Request{Method: "GET", Host: "shop.example", Path: "/a?b=1&c=2&d=3"}, ""},
		"curl -I": {"curl -kI https://shop.example", Request{Method: "HEAD", Host: "shop.example", Path: "/"}, ""},
		"HAR": {
			`{"log":{"entries":[{"request":{"method":"POST","url":"https://shop.example/a?b=1","headers":[{"name":":authority","value":"x"},` +
				`{"name":"Cookie","value":"a=1"},{"name":"cookie","value":"b=2"}]}},{}]}}`,
			Request{Method: "POST", Host: "shop.example", Path: "/a?b=1", Headers: map[string]string{"cookie": "a=1; b=2"}},
			"only the first of 2 requests of the HAR file is explained",
		},
		"combined log": {
			`2001:db8::7 - alice [22/Nov/2026:10:00:00 +0000] "GET /v1/search?q=x HTTP/1.1" 429 17 "-" "curl/8"` + "\nnext",
			Request{Method: "GET", Path: "/v1/search?q=x", ClientIP: "2001:db8::7", Headers: map[string]string{"user-agent": "curl/8"}},
			"only the first line is explained",
		},
		"Envoy log": {
			`[2026-11-22T10:00:00.000Z] "GET /v1 HTTP/2" 429 RL 0 0 1 - "203.0.113.7,10.0.0.1" "curl/8" "id" "api.shop.example" "-"`,
			Request{Method: "GET", Host: "api.shop.example", Path: "/v1", ClientIP: "203.0.113.7", Headers: map[string]string{"user-agent": "curl/8"}},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, note, err := Read([]byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" || note != test.note {
				t.Errorf("note %q (-want +got):\n%s", note, diff)
			}
		})
	}
}

func TestRead_RejectsWhatItCannotRead(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "is empty",
		`{"domian":"shop"}`:        `unknown field "domian"`,
		"curl":                     "is no request",
		"curl -H":                  "option -H of curl has no value",
		"curl -H 'x: 1'":           "has no URL",
		"curl --frobnicate a.org":  "option --frobnicate of curl is not supported",
		"curl -H nothing a.org":    `header "nothing" is invalid`,
		"curl 'a.org":              "is not closed",
		"curl /v1":                 "has no host",
		`{"log":{"entries":[]}}`:   "has no request",
		"GET /v1":                  "is no request",
		`a "GET /v1" 200`:          "is no request",
		`[t] "GET /v1 HTTP/1.1" 2`: "is no request",
	} {
		if _, _, err := Read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func TestMerge_FlagsTakePrecedence(t *testing.T) {
	r := Request{Domain: "a", Method: "GET", Path: "/a", Headers: map[string]string{"x": "1", "y": "1"}, Cost: 1}
	r.Merge(Request{Domain: "b", Headers: map[string]string{"X": "2"}, Cost: 5, Claims: []byte(`{}`), Descriptors: [][]Entry{{{"k", "v"}}}})
	want := Request{
		Domain: "b", Method: "GET", Path: "/a", Headers: map[string]string{"x": "2", "y": "1"}, Cost: 5, Claims: []byte(`{}`),
		Descriptors: [][]Entry{{{"k", "v"}}},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

func TestParseDescriptor(t *testing.T) {
	got, err := ParseDescriptor("a=1,b=x=y")
	if diff := cmp.Diff([]Entry{{"a", "1"}, {"b", "x=y"}}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for _, text := range []string{"", "a", "=1"} {
		if _, err := ParseDescriptor(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{"curl -H 'a: b' x.org/y?z", `{"domain":"a"}`, `[t] "GET / HTTP/1.1" "a" "b" "c" "d"`, `{"log":{"entries":[]}}`, "curl $'"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, _, err := Read(text); err == nil && r.Host+r.Path+r.Domain+r.ClientIP+r.Method == "" && len(r.Headers)+len(r.Query)+len(r.Claims)+len(r.Descriptors) == 0 && !strings.Contains(string(text), "{") {
			t.Errorf("%q is read as nothing", text)
		}
	})
}
