package main

import (
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

const awkward = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: a-shadow, namespace: shop}
spec: {axis: IP, limit: 1, window: 1m, enforcement: Shadow}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: b, namespace: shop}
spec:
  axis: User
  limit: 5
  window: 1m
  identifier: {cookie: session}
  match:
    http:
      hosts: ["*.shop.example"]
      methods: [POST]
      paths: [{type: RegularExpression, value: "/x[0-9]"}, {value: /v1}]
      headers: [{name: X-Plan, value: "it's free"}, {name: x-region, type: Present},
        {name: x-internal, type: Present, invert: true}]
`

func TestCurlCommand_MatchesTheFirstEnforcedPolicy(t *testing.T) {
	schema, err := apischema.New()
	if err != nil {
		t.Fatal(err)
	}
	loader := policyfile.NewLoader(compile.DefaultIdentity().WithHashKey(testHashKey()), schema)
	result, err := loader.Load(strings.NewReader(awkward), "-")
	if err != nil || len(result.Problems) > 0 {
		t.Fatal(err, result.Problems)
	}
	want := `curl -i http://127.0.0.1:8080/v1/check -d '{"domain":"shop","method":"POST",` +
		`"host":"www.shop.example","path":"/v1","headers":{"cookie":"session=acme","x-plan":"it'\''s free","x-region":"acme"}}'`
	if got := curlCommand("http://127.0.0.1:8080", result.Rules); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	index, err := matching.NewIndex(result.Rules, "", "weir:", matching.WithHashKey(testHashKey()))
	if err != nil {
		t.Fatal(err)
	}
	e := exampleRequest(&result.Rules.Rules[1])
	matched := index.Match(nil, &rules.Request{
		Domain: e.Domain, Method: e.Method, Host: e.Host, Path: e.Path, Headers: e.Headers, ClientIP: netip.Addr{},
	})
	if len(matched) != 2 || matched[1].Rule.Policy != "shop/b" {
		t.Errorf("the example matches %+v", matched)
	}
}

func TestPrintBanner_NamesListenersOnAllInterfaces(t *testing.T) {
	listen := func(address string) net.Listener {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		return listener
	}
	all, local := listen("0.0.0.0:0"), listen("127.0.0.1:0")
	_, port, err := net.SplitHostPort(all.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	banner := func(p *process) string {
		var out strings.Builder
		printBanner(&out, p, serveFlags{policies: "policies"}, rules.Set{}, true)
		return out.String()
	}
	got := banner(&process{check: all, ops: local})
	for _, want := range []string{
		" at http://127.0.0.1:" + port + "/v1/check, ",
		"\nlistening on all interfaces: " + all.Addr().String() + "; to restrict this, set --listen\n",
		"\ntry: curl -i http://127.0.0.1:" + port + "/v1/check ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("banner without %q:\n%s", want, got)
		}
	}
	if got := banner(&process{check: local, ops: local}); strings.Contains(got, "all interfaces") {
		t.Errorf("listeners on one interface:\n%s", got)
	}
}

func TestCurlCommand_WithoutPolicies(t *testing.T) {
	want := `curl -i http://127.0.0.1:8080/v1/check -d '{"domain":"default","clientIP":"203.0.113.7"}'`
	if got := curlCommand("http://127.0.0.1:8080", rules.Set{}); got != want {
		t.Errorf("got %s", got)
	}
}

func TestExampleRequest_MatchesEachSample(t *testing.T) {
	schema, err := apischema.New()
	if err != nil {
		t.Fatal(err)
	}
	loader := policyfile.NewLoader(compile.DefaultIdentity().WithHashKey(testHashKey()), schema)
	samples, err := filepath.Glob("../../config/samples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	met := 0
	for _, sample := range samples {
		result, err := loader.Load(nil, sample)
		if err != nil {
			t.Fatal(err)
		}
		index, err := matching.NewIndex(result.Rules, "", "weir:", matching.WithHashKey(testHashKey()))
		if err != nil {
			t.Fatal(err)
		}
		for i := range result.Rules.Rules {
			rule := &result.Rules.Rules[i]
			if rule.Match.Expression != "" || rule.Identifier.From == rules.FromExpression {
				continue
			}
			met++
			r := requestOf(t, rule)
			matched := index.Match(nil, r)
			at := slices.IndexFunc(matched, func(m matching.Matched) bool { return m.Rule.Policy == rule.Policy })
			if at < 0 || matched[at].Identify(r) == "" {
				t.Errorf("%s: %+v matches %+v", rule.Policy, exampleRequest(rule), matched)
			}
		}
	}
	if met < 8 {
		t.Errorf("%d samples were tested, want at least 8", met)
	}
}

// requestOf returns the request that a limiter reads from the example for rule.
func requestOf(t *testing.T, rule *rules.Rule) *rules.Request {
	t.Helper()
	e := exampleRequest(rule)
	r := &rules.Request{
		Domain: e.Domain, Method: e.Method, Host: e.Host, Path: e.Path, Query: e.Query, Headers: e.Headers, Claims: e.Claims,
	}
	if e.ClientIP != "" {
		r.ClientIP = netip.MustParseAddr(e.ClientIP)
	}
	for _, entries := range e.Descriptors {
		var d rules.Descriptor
		for _, entry := range entries {
			d = append(d, rules.Entry{Key: entry["key"], Value: entry["value"]})
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}

// testHashKey returns the key with which the tests of this package hash secrets.
func testHashKey() *limiter.HashKey {
	key, err := limiter.NewHashKey([]byte("a key of at least thirty-two bytes"))
	if err != nil {
		panic(err)
	}
	return key
}
