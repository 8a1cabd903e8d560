package crd

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestSchema_EnforcesEveryRule(t *testing.T) {
	n := newNamespace(t)
	for _, d := range definitions() {
		for _, c := range d.cases() {
			t.Run(strings.TrimSpace(d.kind+" "+c.at+" "+c.kind), func(t *testing.T) {
				if err := n.tryCreateOf(t, d, c.accepted); err != nil {
					t.Errorf("refused %s: %v", c.accepted, err)
				}
				field := c.field
				if field == "" {
					field = strings.ReplaceAll(c.at, "[]", "[0]")
				}
				checkRefusal(t, n.tryCreateOf(t, d, c.refused), field, c.says)
			})
		}
	}
}

// postponed is what the API server adds when a refusal keeps it from asking the CEL rules.
const postponed = "some validation rules were not checked because the object was invalid"

// isOfScale: what is wrong with the replicas, the API server says once more for the scale subresource.
func isOfScale(field string) bool { return strings.HasPrefix(field, ".spec.") }

// checkRefusal wants err to be the API server's refusal of one field, or of what is in it, for the reason that says.
func checkRefusal(t *testing.T, err error, field, says string) {
	t.Helper()
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		t.Fatalf("got %v, want a refusal", err)
	}
	told := false
	for _, cause := range status.Status().Details.Causes {
		switch {
		case strings.Contains(cause.Message, postponed), isOfScale(cause.Field):
		case !strings.HasPrefix(cause.Field, field):
			t.Errorf("speaks of %s too: %s", cause.Field, cause.Message)
		default:
			told = told || cause.Field == field && strings.HasSuffix(cause.Message, says)
		}
	}
	if !told {
		t.Errorf("got %v\nwant %s: … %s", err, field, says)
	}
}

func TestSchema_ExplainsInvalidFields(t *testing.T) {
	n := newNamespace(t)
	const (
		window = "spec.window"
		host   = "spec.match.http.hosts[0]"
		value  = "spec.match.http.paths[0].value"
	)
	of := func(w string) string { return `spec: {window: "` + w + `"}` }
	on := func(h string) string { return http(`{hosts: ["` + h + `"]}`) }
	to := func(p string) string { return path(`{value: "` + p + `"}`) }
	for _, c := range []struct{ name, change, field, says string }{
		{"a window of nothing", of("0s"), window, windowSays},
		{"an empty window", of(""), window, windowSays},
		{"a window with a fraction", of("1.5h"), window, windowSays},
		{"a window below a second", of("100ms"), window, windowSays},
		{"a window of weeks", of("1w"), window, windowSays},
		{"a window of 31 days", of("31d"), window, windowSays},
		{"a window of no days", of("0d"), window, windowSays},
		{"a window of days and hours", of("1d12h"), window, windowSays},
		{"a window before now", of("-1m"), window, windowSays},
		{"a window without a unit", of("24"), window, windowSays},
		{"a window without a number", of("h"), window, windowSays},
		{"a window with its units the wrong way round", of("30m1h"), window, windowSays},
		{"a window with a space", of("1 m"), window, windowSays},
		{"a window with a line break", of(`1m\n`), window, windowSays},
		{"a window that overflows", of("999999h9999999m"), window, windowSays},
		{"a window of a number", `spec: {window: 60}`, window, `must be of type string: "integer"`},
		{"a limit in quotes", `spec: {limit: "100"}`, "spec.limit", `must be of type integer: "string"`},
		{"an identifier that is nowhere", `spec: {identifier: {}}`, "spec.identifier", identifierSays},
		{"a header without a name", `spec: {identifier: {header: ""}}`, "spec.identifier.header", "a header" + tokenSays},
		{"a match with nothing in it", `spec: {match: {http: {hosts: null}}}`, "spec.match.http", httpSays},
		{"a host with a scheme", on("http://shop.example"), host, hostSays},
		{"a host in upper case", on("Shop.example"), host, hostSays},
		{"a host with a trailing dot", on("shop.example."), host, hostSays},
		{"a host that is everything", on("*"), host, hostSays},
		{"a wildcard in the middle of a host", on("api.*.example"), host, hostSays},
		{"a host with an empty label", on("shop..example"), host, hostSays},
		{"a host with a label of 64 characters", on(letters(64) + ".example"), host, hostSays},
		{"an empty host", on(""), host, hostSays},
		{"a path with a query", to("/v1?q=x"), value, pathSays},
		{"a path with a fragment", to("/v1#top"), value, pathSays},
		{"a path with a space", to("/v 1"), value, pathSays},
		{"a path with a line break", to(`/v1\n`), value, pathSays},
		{"a path with a dot segment", to("/v1/./search"), value, dotSays},
		{"a path that ends with a dot segment", to("/v1/.."), value, dotSays},
		{"a path with a double slash", to("/v1//search"), value, dotSays},
		{"a path with a template", to("/v1/users/{id}"), value, wildcardSays},
		{"a match of both kinds", `spec: {match: {http: {methods: [GET]}, descriptors: [{key: k}]}}`, "spec.match", matchSays},
		{"a network within a network's notation", http(`{cidrs: ["::ffff:10.0.0.0/104"]}`), "spec.match.http.cidrs[0]", cidrSays},
		{"a range of addresses", http(`{exceptCIDRs: ["10.0.0.0-10.0.0.9"]}`), "spec.match.http.exceptCIDRs[0]", cidrSays},
		{"an empty network", http(`{cidrs: [""]}`), "spec.match.http.cidrs[0]", cidrSays},
		{"an IPv6 network with bits after its prefix", http(`{cidrs: ["2001:db8::7/32"]}`), "spec.match.http.cidrs[0]", bitsSays},
		{"a tier with no limit", tier(`when: {groups: [a]}`), "spec.tiers[0]", tierLimitSays},
		{"a tier that is not unlimited, and has no limit", tier(`unlimited: false, when: {groups: [a]}`), "spec.tiers[0]", tierLimitSays},
		{"a tier of nobody", tier(`limit: 1, when: {}`), "spec.tiers[0].when", whenSays},
		{"a tier with an empty name", tiers(`{name: "", limit: 1, when: {groups: [a]}}`), "spec.tiers[0].name", tierNameSays},
		{"a tier with a hyphen at the end", tiers(`{name: a-, limit: 1, when: {groups: [a]}}`), "spec.tiers[0].name", tierNameSays},
		{"the same name twice, but not in a row", tiers(`{name: a, limit: 1, when: {groups: [a]}}, {name: b, limit: 1, when: {groups: [a]}}, {name: a, limit: 1, when: {groups: [a]}}`), "spec.tiers", "tiers must have unique names, because responses identify a tier by its name; rename one of them"},
		{"a cost that is nowhere", `spec: {cost: {}}`, "spec.cost", costSays},
		{"a cost above the burst of a bucket", `spec: {algorithm: TokenBucket, burst: 4, cost: {value: 5}}`, "spec.cost.value", neverSays},
		{"a cost above one without a queue", `spec: {algorithm: LeakyBucket, cost: {value: 2}}`, "spec.cost.value", neverSays},
		{"a cost above the limit of every tier", `spec: {cost: {value: 50}, tiers: [{name: a, limit: 49, when: {groups: [a]}}]}`, "spec.cost.value", neverSays},
		{"a cost above the burst of every tier", `spec: {algorithm: TokenBucket, cost: {value: 50}, tiers: [{name: a, limit: 90, burst: 49, when: {groups: [a]}}]}`, "spec.cost.value", neverSays},
		{"a header that is present with a value", header(`{name: x, type: Present, value: a}`), "spec.match.http.headers[0].value", headerSays},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkRefusal(t, n.tryCreate(t, c.change), c.field, c.says)
		})
	}
}

func TestSchema_AcceptsValidFields(t *testing.T) {
	n := newNamespace(t)
	for _, c := range []struct{ name, change string }{
		{"a window of a day, as days", `spec: {window: 1d}`},
		{"a window of 30 days", `spec: {window: 30d}`},
		{"a window of all units", `spec: {window: 1h30m15s}`},
		{"a window of many seconds", `spec: {window: 2592000s}`},
		{"a window as Go writes it", `spec: {window: 24h0m0s}`},
		{"a match that is null, as if it were absent", `spec: {match: null}`},
		{"an address as host", http(`{hosts: ["203.0.113.7"]}`)},
		{"a prefix with a slash at the end, the same as without", path(`{value: /v1/}`)},
		{"an exact path with a slash at the end, the same as without", path(`{type: Exact, value: /v1/}`)},
		{"the root, exactly", path(`{type: Exact, value: /}`)},
		{"an expression that RE2 refuses, which the compiler tells in status", path(`{type: RegularExpression, value: "("}`)},
		{"a header with an empty value", header(`{name: x, value: ""}`)},
		{"one header twice, both must match", header(`{name: x, type: Present}, {name: x, value: a, invert: true}`)},
		{"a network in another spelling", http(`{cidrs: ["2001:DB8:0:0::/32"]}`)},
		{"every address", http(`{cidrs: [0.0.0.0/0, "::/0"]}`)},
		{"a tier that is said not to be unlimited", tier(`unlimited: false, limit: 1, when: {groups: [a]}`)},
		{"a tier with a lower limit than the policy's", tier(`limit: 1, when: {groups: [a]}`)},
		{"one identifier twice, which means the same", tier(`limit: 1, when: {identifiers: [a, a]}`)},
		{"a cost that only a tier can pay", `spec: {cost: {value: 50}, tiers: [{name: a, limit: 50, when: {groups: [a]}}]}`},
		{"a cost that only the unlimited are spared", `spec: {cost: {value: 50}, tiers: [{name: a, unlimited: true, when: {groups: [a]}}]}`},
		{"a cost as high as a queue and the unit on its way out", `spec: {algorithm: LeakyBucket, burst: 4, cost: {value: 5}}`},
		{"an expression that does not compile, which the compiler tells in status", http(`{expression: "1 +"}`)},
		{"a descriptor with a key twice", `spec: {match: {descriptors: [{key: k}, {key: k, value: v}]}}`},
		{"an identifier of its own for an address", `spec: {axis: IP, identifier: {header: X-Real-IP}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := n.tryCreate(t, c.change); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSchema_RejectsUnknownFields(t *testing.T) {
	n := newNamespace(t)
	for _, c := range []struct{ name, change, field string }{
		{"beside the spec", `sepc: {}`, `unknown field "sepc"`},
		{"in the spec", `spec: {quota: 20}`, `unknown field "spec.quota"`},
		{"deep in the spec", http(`{path: /v1}`), `unknown field "spec.match.http.path"`},
		{"in a list", path(`{value: /v1, kind: Exact}`), `unknown field "spec.match.http.paths[0].kind"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := n.tryCreate(t, c.change)
			if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), c.field) {
				t.Errorf("got %v, want a refusal with %s", err, c.field)
			}
		})
	}
}

func TestSchema_NeverQuotesAPIKeysInErrors(t *testing.T) {
	n := newNamespace(t)
	const key = "s3cr3t-of-acme"
	for name, text := range map[string]string{
		"two ways to be of a tier": `limit: 1, when: {identifiers: [` + key + `], groups: [a]}`,
		"no limit":                 `when: {identifiers: [` + key + `]}`,
		"a burst without a bucket": `limit: 1, burst: 1, when: {identifiers: [` + key + `]}`,
		"an empty key beside it":   `limit: 1, when: {identifiers: [` + key + `, ""]}`,
		"a key that is too long":   `limit: 1, when: {identifiers: [` + key + letters(253) + `]}`,
		"an unknown field":         `limit: 1, when: {identifiers: [` + key + `], key: a}`,
		"two tiers of one name":    `limit: 1, when: {identifiers: [` + key + `]}}, {name: a, limit: 1, when: {identifiers: [` + key + `]}`,
	} {
		t.Run(name, func(t *testing.T) {
			err := n.tryCreate(t, `spec: {axis: APIKey, tiers: [{name: a, `+text+`}]}`)
			if err == nil || strings.Contains(err.Error(), key) {
				t.Errorf("got %v", err)
			}
		})
	}
}
