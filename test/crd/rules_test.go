package crd

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestSchema_EnforcesEveryRule(t *testing.T) {
	n := newNamespace(t)
	for _, k := range testedKinds() {
		for _, c := range k.cases() {
			t.Run(strings.TrimSpace(k.kind+" "+c.at+" "+c.kind), func(t *testing.T) {
				try := n.tryCreateOf
				if c.before != "" {
					try = n.updates(t, k, c.before)
				}
				if err := try(t, k, c.accepted); err != nil {
					t.Errorf("rejected %s: %v", c.accepted, err)
				}
				field := c.field
				if field == "" {
					field = strings.ReplaceAll(c.at, "[]", "[0]")
				}
				checkRejection(t, try(t, k, c.rejected), field, c.message)
			})
		}
	}
}

// updates creates an object, and returns a function that updates it in a dry run.
func (n namespace) updates(t *testing.T, k testedKind, before string) func(t *testing.T, k testedKind, change string) error {
	t.Helper()
	stored := n.object(t, k, before)
	if err := n.Create(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Delete(context.Background(), stored); err != nil {
			t.Error(err)
		}
	})
	return func(t *testing.T, k testedKind, change string) error {
		t.Helper()
		object := n.object(t, k, change)
		object.SetName(stored.GetName())
		object.SetResourceVersion(stored.GetResourceVersion())
		return n.Update(t.Context(), object, client.DryRunAll)
	}
}

// rulesNotChecked is the notice that the API server adds if the object is invalid without the CEL rules, so that it does not evaluate them.
const rulesNotChecked = "some validation rules were not checked because the object was invalid"

// isScaleField reports whether a cause is for the scale subresource. The API server repeats errors in spec.replicas for it.
func isScaleField(field string) bool { return strings.HasPrefix(field, ".spec.") }

// checkRejection fails the test unless err is the API server's rejection of field with a message that ends with message. Other causes are
// allowed only for fields inside field.
func checkRejection(t *testing.T, err error, field, message string) {
	t.Helper()
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		t.Fatalf("got %v, want an error of an invalid object", err)
	}
	reported := false
	for _, cause := range status.Status().Details.Causes {
		switch {
		case strings.Contains(cause.Message, rulesNotChecked), isScaleField(cause.Field):
		case !strings.HasPrefix(cause.Field, field):
			t.Errorf("unexpected error in %s: %s", cause.Field, cause.Message)
		default:
			reported = reported || cause.Field == field && strings.HasSuffix(cause.Message, message)
		}
	}
	if !reported {
		t.Errorf("got %v\nwant %s: … %s", err, field, message)
	}
}

func TestSchema_ExplainsInvalidFields(t *testing.T) {
	n := newNamespace(t)
	const (
		window = "spec.window"
		host   = "spec.match.http.hosts[0]"
		value  = "spec.match.http.paths[0].value"
	)
	withWindow := func(w string) string { return `spec: {window: "` + w + `"}` }
	withHost := func(h string) string { return http(`{hosts: ["` + h + `"]}`) }
	withPath := func(p string) string { return path(`{value: "` + p + `"}`) }
	for _, c := range []struct{ name, change, field, message string }{
		{"a window of zero", withWindow("0s"), window, windowMessage},
		{"an empty window", withWindow(""), window, windowMessage},
		{"a window with a fraction", withWindow("1.5h"), window, windowMessage},
		{"a window shorter than a second", withWindow("100ms"), window, windowMessage},
		{"a window in weeks", withWindow("1w"), window, windowMessage},
		{"a window of 31 days", withWindow("31d"), window, "window must be at most 720h (30d), unless algorithm is FixedWindow; use a shorter window or FixedWindow"},
		{"a fixed window of 366 days", `spec: {window: 366d, algorithm: FixedWindow}`, "spec.window", windowMessage},
		{"a window of zero days", withWindow("0d"), window, windowMessage},
		{"a window of days and hours", withWindow("1d12h"), window, windowMessage},
		{"a negative window", withWindow("-1m"), window, windowMessage},
		{"a window without a unit", withWindow("24"), window, windowMessage},
		{"a window without a number", withWindow("h"), window, windowMessage},
		{"a window with its units in the wrong order", withWindow("30m1h"), window, windowMessage},
		{"a window with a space", withWindow("1 m"), window, windowMessage},
		{"a window with a line break", withWindow(`1m\n`), window, windowMessage},
		{"a window that overflows", withWindow("999999h9999999m"), window, windowMessage},
		{"a window that is a number", `spec: {window: 60}`, window, `must be of type string: "integer"`},
		{"a limit in quotes", `spec: {limit: "100"}`, "spec.limit", `must be of type integer: "string"`},
		{"an identifier without a source", `spec: {identifier: {}}`, "spec.identifier", "should have at least 1 properties"},
		{"a header without a name", `spec: {identifier: {header: ""}}`, "spec.identifier.header", "a header" + tokenMessage},
		{"an empty http match", `spec: {match: {http: {hosts: null}}}`, "spec.match.http", httpMessage},
		{"an http match with ignoreCase: false alone", http(`{ignoreCase: false}`), "spec.match.http", httpMessage},
		{"a host with a scheme", withHost("http://shop.example"), host, hostMessage},
		{"a host in upper case", withHost("Shop.example"), host, hostMessage},
		{"a host with a trailing dot", withHost("shop.example."), host, hostMessage},
		{"a host that is only a wildcard", withHost("*"), host, hostMessage},
		{"a wildcard in the middle of a host", withHost("api.*.example"), host, hostMessage},
		{"a host with an empty label", withHost("shop..example"), host, hostMessage},
		{"a host with a label of 64 characters", withHost(letters(64) + ".example"), host, hostMessage},
		{"an empty host", withHost(""), host, hostMessage},
		{"a path with a query", withPath("/v1?q=x"), value, pathMessage},
		{"a path with a fragment", withPath("/v1#top"), value, pathMessage},
		{"a path with a space", withPath("/v 1"), value, pathMessage},
		{"a path with a line break", withPath(`/v1\n`), value, pathMessage},
		{"a path with a dot segment", withPath("/v1/./search"), value, dotSegmentMessage},
		{"a path that ends with a dot segment", withPath("/v1/.."), value, dotSegmentMessage},
		{"a path with a double slash", withPath("/v1//search"), value, dotSegmentMessage},
		{"a path with a template", withPath("/v1/users/{id}"), value, wildcardMessage},
		{"a match with both http and descriptors", `spec: {match: {http: {methods: [GET]}, descriptors: [{key: k}]}}`, "spec.match", matchMessage},
		{"an IPv4 network written as IPv6", http(`{cidrs: ["::ffff:10.0.0.0/104"]}`), "spec.match.http.cidrs[0]", cidrMessage},
		{"a range of addresses", http(`{exceptCIDRs: ["10.0.0.0-10.0.0.9"]}`), "spec.match.http.exceptCIDRs[0]", cidrMessage},
		{"an empty network", http(`{cidrs: [""]}`), "spec.match.http.cidrs[0]", cidrMessage},
		{"an IPv6 network with bits after its prefix", http(`{cidrs: ["2001:db8::7/32"]}`), "spec.match.http.cidrs[0]", cidrBitsMessage},
		{"a tier without a limit", tier(`when: {groups: [a]}`), "spec.tiers[0]", tierLimitMessage},
		{"a tier with unlimited: false and without a limit", tier(`unlimited: false, when: {groups: [a]}`), "spec.tiers[0]", tierLimitMessage},
		{"a tier without a condition", tier(`limit: 1, when: {}`), "spec.tiers[0].when", whenMessage},
		{"a tier with an empty name", tiers(`{name: "", limit: 1, when: {groups: [a]}}`), "spec.tiers[0].name", tierNameMessage},
		{"a tier with a hyphen at the end", tiers(`{name: a-, limit: 1, when: {groups: [a]}}`), "spec.tiers[0].name", tierNameMessage},
		{"two tiers with the same name, not next to each other", tiers(`{name: a, limit: 1, when: {groups: [a]}}, {name: b, limit: 1, when: {groups: [a]}}, {name: a, limit: 1, when: {groups: [a]}}`), "spec.tiers", "tiers must have unique names, because responses identify a tier by its name; rename one of them"},
		{"an empty cost", `spec: {cost: {}}`, "spec.cost", costMessage},
		{"a cost above the burst of a token bucket", `spec: {algorithm: TokenBucket, burst: 4, cost: {value: 5}}`, "spec.cost.value", costTooHighMessage},
		{"a cost above 1 with a leaky bucket without a queue", `spec: {algorithm: LeakyBucket, cost: {value: 2}}`, "spec.cost.value", costTooHighMessage},
		{"a cost above the limit of every tier", `spec: {cost: {value: 50}, tiers: [{name: a, limit: 49, when: {groups: [a]}}]}`, "spec.cost.value", costTooHighMessage},
		{"a cost above the limit, with a tier that admits nothing", `spec: {algorithm: TokenBucket, cost: {value: 50}, tiers: [{name: a, limit: 0, burst: 90, when: {groups: [a]}}]}`, "spec.cost.value", costTooHighMessage},
		{"a cost above the burst of every tier", `spec: {algorithm: TokenBucket, cost: {value: 50}, tiers: [{name: a, limit: 90, burst: 49, when: {groups: [a]}}]}`, "spec.cost.value", costTooHighMessage},
		{"a header match of type Present with a value", header(`{name: x, type: Present, value: a}`), "spec.match.http.headers[0].value", headerMessage},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkRejection(t, n.tryCreate(t, c.change), c.field, c.message)
		})
	}
}

func TestSchema_AcceptsValidFields(t *testing.T) {
	n := newNamespace(t)
	for _, c := range []struct{ name, change string }{
		{"a window of one day, in days", `spec: {window: 1d}`},
		{"a window of 30 days", `spec: {window: 30d}`},
		{"a fixed window of 365 days", `spec: {window: 365d, algorithm: FixedWindow}`},
		{"a window of all units", `spec: {window: 1h30m15s}`},
		{"a window of many seconds", `spec: {window: 99999s}`},
		{"a window in the format of Go durations", `spec: {window: 24h0m0s}`},
		{"a match that is null, which is the same as no match", `spec: {match: null}`},
		{"an http match with ignoreCase alone", http(`{ignoreCase: true}`)},
		{"an address as host", http(`{hosts: ["203.0.113.7"]}`)},
		{"a prefix with a trailing slash, which is ignored", path(`{value: /v1/}`)},
		{"an exact path with a trailing slash, which is ignored", path(`{type: Exact, value: /v1/}`)},
		{"the root as an exact path", path(`{type: Exact, value: /}`)},
		{"a regular expression that is invalid in RE2, which the controller reports in status", path(`{type: RegularExpression, value: "("}`)},
		{"a header with an empty value", header(`{name: x, value: ""}`)},
		{"two matches for one header, which must both match", header(`{name: x, type: Present}, {name: x, value: a, invert: true}`)},
		{"an IPv6 network in upper case with explicit zeros", http(`{cidrs: ["2001:DB8:0:0::/32"]}`)},
		{"networks of all addresses", http(`{cidrs: [0.0.0.0/0, "::/0"]}`)},
		{"a tier with unlimited: false and a limit", tier(`unlimited: false, limit: 1, when: {groups: [a]}`)},
		{"a tier with a lower limit than the policy's", tier(`limit: 1, when: {groups: [a]}`)},
		{"a repeated identifier, which has no effect", tier(`limit: 1, when: {identifiers: [a, a]}`)},
		{"a cost that only the limit of a tier can admit", `spec: {cost: {value: 50}, tiers: [{name: a, limit: 50, when: {groups: [a]}}]}`},
		{"a cost that only an unlimited tier can admit", `spec: {cost: {value: 50}, tiers: [{name: a, unlimited: true, when: {groups: [a]}}]}`},
		{"a limit of 0 with a cost", `spec: {limit: 0, cost: {value: 50}}`},
		{"a limit of 0 with a burst that never drains", `spec: {algorithm: TokenBucket, limit: 0, window: 720h, burst: 1000000000}`},
		{"a limit of 0 with leases", `spec: {limit: 0, lease: {}}`},
		{"a limit of 0 with debts in compact counters", `spec: {limit: 0, overrun: Debt, storage: Compact, onStoreFailure: Deny}`},
		{"a limit of 0 with a tier whose burst is lower than the cost", `spec: {algorithm: TokenBucket, limit: 0, cost: {value: 50}, tiers: [{name: a, limit: 1, burst: 1, when: {groups: [a]}}]}`},
		{"a tier with limit 0 and a burst that never drains", bucket("LeakyBucket", `limit: 0, burst: 1000000000`)},
		{"a cost of the queue length and one more unit", `spec: {algorithm: LeakyBucket, burst: 4, cost: {value: 5}}`},
		{"a CEL expression that does not compile, which the controller reports in status", http(`{expression: "1 +"}`)},
		{"a descriptor with a key twice", `spec: {match: {descriptors: [{key: k}, {key: k, value: v}]}}`},
		{"an identifier for axis IP", `spec: {axis: IP, identifier: {header: X-Real-IP}}`},
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
		{"next to the spec", `sepc: {}`, `unknown field "sepc"`},
		{"in the spec", `spec: {quota: 20}`, `unknown field "spec.quota"`},
		{"deep in the spec", http(`{path: /v1}`), `unknown field "spec.match.http.path"`},
		{"in a list", path(`{value: /v1, kind: Exact}`), `unknown field "spec.match.http.paths[0].kind"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := n.tryCreate(t, c.change)
			if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), c.field) {
				t.Errorf("got %v, want an error that contains %s", err, c.field)
			}
		})
	}
}

func TestSchema_NeverQuotesAPIKeysInErrors(t *testing.T) {
	n := newNamespace(t)
	const key = "s3cr3t-of-acme"
	for name, text := range map[string]string{
		"two conditions in one tier":                 `limit: 1, when: {identifiers: [` + key + `], groups: [a]}`,
		"no limit in the tier":                       `when: {identifiers: [` + key + `]}`,
		"a burst with an algorithm without a bucket": `limit: 1, burst: 1, when: {identifiers: [` + key + `]}`,
		"an additional empty key":                    `limit: 1, when: {identifiers: [` + key + `, ""]}`,
		"a key that is too long":                     `limit: 1, when: {identifiers: [` + key + letters(253) + `]}`,
		"an unknown field":                           `limit: 1, when: {identifiers: [` + key + `], key: a}`,
		"two tiers with the same name":               `limit: 1, when: {identifiers: [` + key + `]}}, {name: a, limit: 1, when: {identifiers: [` + key + `]}`,
	} {
		t.Run(name, func(t *testing.T) {
			err := n.tryCreate(t, `spec: {axis: APIKey, tiers: [{name: a, `+text+`}]}`)
			if err == nil || strings.Contains(err.Error(), key) {
				t.Errorf("got error %v, want an error that does not contain the API key", err)
			}
		})
	}
}
