package traefikrule_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/importer/traefikrule"
)

// Each case is a rule of Traefik 3 or 2, the match as JSON, and a part of each difference.
func TestConvert(t *testing.T) {
	const prefix = "is a prefix of the text in Traefik"
	for rule, want := range map[string][]string{
		"":                     {`{}`},
		"Host(`Shop.example`)": {`{"hosts":["shop.example"]}`},
		"PathPrefix(`/`)":      {`{}`},
		"Host(`a.example`) && PathPrefix(`/v1/`)": {`{"hosts":["a.example"],"paths":[{"type":"PathPrefix","value":"/v1"}]}`, prefix},
		"Host(`a.example`)\n  && Path(\"/a\")":    {`{"hosts":["a.example"],"paths":[{"type":"Exact","value":"/a"}]}`},
		"Host(`a.example`, `b.example`)":          {`{"hosts":["a.example","b.example"]}`},
		"(Host(`a.example`) || Host(`b.example`)) && (Path(`/a`) || PathPrefix(`/b`))": {
			`{"hosts":["a.example","b.example"],"paths":[{"type":"Exact","value":"/a"},{"type":"PathPrefix","value":"/b"}]}`, prefix,
		},
		"Method(`POST`, `put`)":                                           {`{"methods":["POST","PUT"]}`},
		"Method(`GET`)":                                                   {`{"methods":["GET"]}`, "includes HEAD"},
		"Method(`GET`) || Method(`HEAD`)":                                 {`{"methods":["GET","HEAD"]}`},
		"Header(`X-Plan`, `free`) && !Headers(`X-Test`, `1`)":             {`{"headers":[{"name":"X-Plan","type":"Exact","value":"free"},{"name":"X-Test","type":"Exact","value":"1","invert":true}]}`},
		"ClientIP(`10.0.0.0/8`, `192.0.2.1`) && !ClientIP(`2001:db8::1`)": {`{"cidrs":["10.0.0.0/8","192.0.2.1/32"],"exceptCIDRs":["2001:db8::1/128"]}`, "identity.ip"},

		"Host(`a.example`) && !PathPrefix(`/health`)": {`{"hosts":["a.example"],"expression":"!(request.path.startsWith(\"/health\"))"}`},
		"Host(`a.example`) || PathPrefix(`/b`)":       {`{"expression":"(request.host == \"a.example\" || request.path.startsWith(\"/b\"))"}`},
		"Path(`/a`) && PathPrefix(`/`) && Path(`/b`)": {`{"paths":[{"type":"Exact","value":"/a"}],"expression":"request.path.startsWith(\"/\") && request.path == \"/b\""}`},
		"HostRegexp(`^[a-z]{2}\\.example$`)":          {`{"expression":"request.host.matches(\"^[a-z]{2}\\\\.example$\")"}`},
		"PathRegexp(`^/a/[0-9]+`) && Query(`q`)":      {`{"expression":"request.path.matches(\"^/a/[0-9]+\") && \"q\" in request.query"}`},
		"Query(`q`, `1`)":                             {`{"expression":"request.query[?\"q\"].optMap(values, values.exists(v, v == \"1\")).orValue(false)"}`},
		"Query(`q=1`)":                                {`{"expression":"request.query[?\"q\"].optMap(values, values.exists(v, v == \"1\")).orValue(false)"}`},
		"QueryRegexp(`q`, `^1`)":                      {`{"expression":"request.query[?\"q\"].optMap(values, values.exists(v, v.matches(\"^1\"))).orValue(false)"}`},
		"HeaderRegexp(`X-A`, `^b`) || Header(`X-A`, `c`)": {
			`{"expression":"(request.headers[?\"x-a\"].optMap(v, v.matches(\"^b\")).orValue(false) || request.headers[?\"x-a\"].optMap(v, v == \"c\").orValue(false))"}`,
		},
		"!(Host(`a.example`) && Method(`PUT`, `GET`))": {`{"expression":"!((request.host == \"a.example\" \u0026\u0026 (request.method == \"PUT\" || request.method == \"GET\")))"}`},
	} {
		match, differences, err := traefikrule.Convert(rule)
		if err != nil {
			t.Errorf("%s: %v", rule, err)
			continue
		}
		got, err := json.Marshal(match)
		if err != nil {
			t.Fatal(err)
		}
		if strings.ReplaceAll(string(got), `\u0026`, "&") != strings.ReplaceAll(want[0], `\u0026`, "&") || len(differences) != len(want)-1 {
			t.Errorf("%s:\ngot  %s\nwant %s\n%q", rule, got, want[0], differences)
		}
		for i, part := range want[1:] {
			if i < len(differences) && !strings.Contains(differences[i], part) {
				t.Errorf("%s: difference %q, want %q", rule, differences[i], part)
			}
		}
		if isAll := want[0] == "{}"; traefikrule.IsAll(match) != isAll {
			t.Errorf("%s: all requests: %t", rule, !isAll)
		}
	}
}

func TestConvert_NamesWhatNoPolicyExpresses(t *testing.T) {
	for rule, want := range map[string]string{
		"HostSNI(`*`)":                        "HostSNI is about connections",
		"Host(`a`) && Unknown(`b`)":           "the matcher Unknown is unknown",
		"Path(`/a/{id}`)":                     "has a placeholder of Traefik 2",
		"HostRegexp(`{sub:[a-z]+}.example`)":  "has a placeholder of Traefik 2",
		"Host(`a`) || ClientIP(`10.0.0.0/8`)": "ClientIP inside of || or ! cannot be expressed",
		"Header(`a`)":                         "Header needs 2 arguments, and has 1",
		"Header(`a`, `b`, `c`)":               "Header has more than 2 arguments",
		"Host(a)":                             "the arguments of Host must be texts",
		"Host()":                              "Host needs 1 arguments",
		"Host(`a`":                            "is invalid: write matchers",
		"Host":                                "Host is no matcher",
		"Host(`a`) + Host(`b`)":               "the operator + is no part of a rule",
		"http.Host(`a`)":                      "a matcher must have a name",
		"Host:a.example":                      "is invalid",
	} {
		if match, _, err := traefikrule.Convert(rule); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %q", rule, match, err, want)
		}
	}
}

func TestOverlap(t *testing.T) {
	for rules, want := range map[[2]string]bool{
		{"", "Host(`a.example`)"}:                                true,
		{"Host(`a.example`)", "Host(`b.example`)"}:               false,
		{"Host(`a.example`)", "Host(`a.example`) && Path(`/a`)"}: true,
		{"PathPrefix(`/a`)", "PathPrefix(`/a/b`)"}:               true,
		{"PathPrefix(`/a`)", "PathPrefix(`/ab`)"}:                false,
		{"PathPrefix(`/a`)", "Path(`/a/b`)"}:                     true,
		{"Path(`/a/b`)", "PathPrefix(`/b`)"}:                     false,
		{"Path(`/a`)", "Path(`/b`) || Path(`/a`)"}:               true,
		{"Path(`/a`)", "Path(`/b`)"}:                             false,
		{"Method(`PUT`)", "Method(`POST`)"}:                      false,
		{"Method(`HEAD`)", "Method(`GET`)"}:                      true,
		{"Header(`a`, `b`)", "Header(`a`, `c`)"}:                 true,
		{"HostRegexp(`a`)", "Host(`b.example`)"}:                 true,
	} {
		a, _, err := traefikrule.Convert(rules[0])
		if err != nil {
			t.Fatal(err)
		}
		b, _, err := traefikrule.Convert(rules[1])
		if err != nil {
			t.Fatal(err)
		}
		if got := traefikrule.Overlap(a, b); got != want || traefikrule.Overlap(b, a) != want {
			t.Errorf("%q: %t, want %t", rules, got, want)
		}
	}
	wildcard := &v1alpha1.HTTPMatch{Hosts: []v1alpha1.Host{"*.example"}}
	if !traefikrule.Overlap(wildcard, &v1alpha1.HTTPMatch{Hosts: []v1alpha1.Host{"a.example"}}) {
		t.Error("a wildcard and a host")
	}
}
