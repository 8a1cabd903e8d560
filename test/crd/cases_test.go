package crd

import (
	"fmt"
	"strings"

	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
)

// schemaCase tests one constraint of the schema at its boundary: an object that is still valid, and an invalid object with the error that
// the API server returns for it.
type schemaCase struct {
	at       string // the path of the constrained field in the schema, with [] for the items of a list and {} for the values of a map
	kind     string // the keyword of the constraint, for example maxLength, kindRule or kindSet
	before   string // changes that turn the minimal object into one that accepted and rejected update; if it is empty, these are created
	accepted string // changes that turn the minimal object into a valid object, see namespace.object
	rejected string // changes that turn the minimal object into an invalid object
	field    string // the field that the error names; if it is empty, at with [0] instead of []
	message  string // the end of the error message; for a CEL rule, the complete message of the rule
}

func cases() []schemaCase {
	all := specCases()
	all = append(all, identifierCases()...)
	all = append(all, matchCases()...)
	all = append(all, pathCases()...)
	all = append(all, headersCases()...)
	all = append(all, headerCases("spec.match.http.headers[]", header)...)
	all = append(all, networkCases("spec.match.http.cidrs", func(list string) string { return http(`{cidrs: ` + list + `}`) })...)
	all = append(all, networkCases("spec.match.http.exceptCIDRs", func(list string) string { return http(`{exceptCIDRs: ` + list + `}`) })...)
	all = append(all, expressionCases("spec.match.http.expression", "true", func(text string) string { return http(`{expression: ` + text + `}`) })...)
	all = append(all, descriptorCases()...)
	all = append(all, tierCases()...)
	all = append(all, rateCases("spec.rates", rates)...)
	all = append(all, rateCases("spec.tiers[].rates", tierRates)...)
	all = append(all, tierLimitCases()...)
	all = append(all, whenCases()...)
	all = append(all, kubernetesCases()...)
	all = append(all, leaseCases()...)
	all = append(all, localShareCases()...)
	all = append(all, storageCases()...)
	all = append(all, overrunCases()...)
	all = append(all, denialCases()...)
	all = append(all, targetCases()...)
	return append(all, costCases()...)
}

func specCases() []schemaCase {
	return []schemaCase{
		{
			at: "", kind: kindRule,
			accepted: `metadata: {name: ` + strings.Repeat("a", 63) + `}`,
			rejected: `metadata: {name: ` + strings.Repeat("a", 64) + `}`,
			field:    "<nil>",
			message:  "metadata.name must be at most 63 characters, because rate-limit headers, counter keys and metrics contain it",
		},
		{
			at: "", kind: kindRule, before: `{metadata: {name: day}, spec: {counterName: today}}`,
			accepted: `spec: {counterName: today, limit: 7}`,
			rejected: `spec: {counterName: day}`,
			field:    "spec.counterName",
			message: "counterName must not change, because all counters of the policy would start again; to start them again, delete the policy and " +
				"create it with another counterName",
		},
		{at: "spec.replaces", kind: "minItems", accepted: `spec: {replaces: [a]}`, rejected: `spec: {replaces: []}`, message: "should have at least 1 items"},
		{
			at: "spec.replaces", kind: "maxItems", accepted: `spec: {replaces: ` + numbered("d", 16) + `}`, rejected: `spec: {replaces: ` + numbered("d", 17) + `}`,
			message: "Too many: 17: must have at most 16 items",
		},
		{
			at: "spec.replaces", kind: kindSet, field: "spec.replaces[1]", accepted: `spec: {replaces: [a, b]}`, rejected: `spec: {replaces: [a, a]}`,
			message: `Duplicate value: "a"`,
		},
		{
			at: "spec.replaces[]", kind: "maxLength", accepted: `spec: {replaces: [` + letters(63) + `]}`, rejected: `spec: {replaces: [` + letters(64) + `]}`,
			message: "may not be more than 63 bytes",
		},
		{
			at: "spec.replaces[]", kind: kindRule, accepted: `spec: {replaces: [a-1.b]}`, rejected: `spec: {replaces: [_cluster/a]}`,
			message: "replaces must have names of ClusterRateLimitPolicies: lower-case letters, digits, hyphens and dots, with a letter or digit at both ends",
		},
		{at: "spec.counterName", kind: "minLength", accepted: `spec: {counterName: a}`, rejected: `spec: {counterName: ""}`, message: "should be at least 1 chars long"},
		{
			at: "spec.counterName", kind: "maxLength", accepted: `spec: {counterName: ` + letters(63) + `}`, rejected: `spec: {counterName: ` + letters(64) + `}`,
			message: "may not be more than 63 bytes",
		},
		{
			at: "spec.counterName", kind: kindRule, accepted: `spec: {counterName: a-1.b}`, rejected: `spec: {counterName: shop/a}`,
			message: "counterName must be the name of a policy: lower-case letters, digits, hyphens and dots, with a letter or digit at both ends",
		},
		{at: "spec", kind: "required", accepted: `{}`, rejected: `spec: null`, message: "Required value"},
		{at: "spec.axis", kind: "required", accepted: `{}`, rejected: `spec: {axis: null}`, message: "Required value"},
		{
			at: "spec.axis", kind: "enum", accepted: `spec: {axis: IP}`, rejected: `spec: {axis: ip}`,
			message: `Unsupported value: "ip": supported values: "IP", "Tenant", "User", "APIKey", "Endpoint", "Namespace", "ServiceAccount", "Custom"`,
		},
		{
			at: "spec", kind: kindRule, accepted: rates(`{limit: 1, window: 1s}, {limit: 2, window: 1m}`), rejected: `spec: {limit: null, window: null}`,
			message: ratesMessage,
		},
		{
			at: "spec.limit", kind: "minimum", accepted: `spec: {limit: 0}`, rejected: `spec: {limit: -1}`,
			message: "Invalid value: -1: spec.limit in body should be greater than or equal to 0",
		},
		{
			at: "spec.limit", kind: "maximum", accepted: `spec: {limit: 1000000000}`, rejected: `spec: {limit: 1000000001}`,
			message: "Invalid value: 1000000001: spec.limit in body should be less than or equal to 1000000000",
		},
		{
			at: "spec", kind: kindRule, field: "spec.limit",
			accepted: `spec: {limit: 1000000, algorithm: SlidingWindowLog}`,
			rejected: `spec: {limit: 1000001, algorithm: SlidingWindowLog}`,
			message:  "limit must be at most 1000000 with algorithm SlidingWindowLog, which stores every admitted unit; use SlidingWindowCounter for a higher limit",
		},
		{
			at: "spec.window", kind: "maxLength", accepted: `spec: {window: 0001h00001m0001s}`, rejected: `spec: {window: 00001h00001m0001s}`,
			message: "may not be more than 16 bytes",
		},
		{at: "spec.window", kind: kindRule, accepted: `spec: {algorithm: FixedWindow, window: 8760h}`, rejected: `spec: {algorithm: FixedWindow, window: 8760h1s}`, message: windowMessage},
		{
			at: "spec", kind: kindRule, field: "spec.window", accepted: `spec: {algorithm: TokenBucket, window: 720h}`, rejected: `spec: {algorithm: TokenBucket, window: 720h1s}`,
			message: "window must be at most 720h (30d), unless algorithm is FixedWindow; use a shorter window or FixedWindow",
		},
		{
			at: "spec.algorithm", kind: "enum", accepted: `spec: {algorithm: FixedWindow}`, rejected: `spec: {algorithm: GCRA}`,
			message: `Unsupported value: "GCRA": supported values: "FixedWindow", "SlidingWindowLog", "SlidingWindowCounter", "TokenBucket", "LeakyBucket"`,
		},
		{
			at: "spec.burst", kind: "minimum", accepted: `spec: {algorithm: LeakyBucket, burst: 0}`, rejected: `spec: {algorithm: LeakyBucket, burst: -1}`,
			message: "Invalid value: -1: spec.burst in body should be greater than or equal to 0",
		},
		{
			at: "spec.burst", kind: "maximum",
			accepted: `spec: {algorithm: TokenBucket, limit: 1000, burst: 1000000000}`,
			rejected: `spec: {algorithm: TokenBucket, limit: 1000, burst: 1000000001}`,
			message:  "Invalid value: 1000000001: spec.burst in body should be less than or equal to 1000000000",
		},
		{
			at: "spec", kind: kindRule, field: "spec.burst",
			accepted: `spec: {algorithm: LeakyBucket, burst: 1}`,
			rejected: `spec: {algorithm: SlidingWindowLog, burst: 1}`,
			message:  "burst is valid only with algorithm TokenBucket (capacity) or LeakyBucket (queue length); remove burst or use one of these algorithms",
		},
		{
			at: "spec", kind: kindRule, field: "spec.burst",
			accepted: `spec: {algorithm: TokenBucket, burst: 1}`,
			rejected: `spec: {algorithm: TokenBucket, burst: 0}`,
			message:  "burst must be at least 1 with algorithm TokenBucket, because an empty bucket admits no request; omit burst to use limit as the capacity",
		},
		{
			at: "spec", kind: kindRule, field: "spec.burst",
			accepted: `spec: {algorithm: TokenBucket, limit: 1, window: 30d, burst: 121}`,
			rejected: `spec: {algorithm: TokenBucket, limit: 1, window: 720h, burst: 122}`,
			message:  "burst takes longer than ten years to drain at this limit and window; use a lower burst",
		},
		{
			at: "spec.scope", kind: "enum", accepted: `spec: {scope: Endpoint}`, rejected: `spec: {scope: Route}`,
			message: `Unsupported value: "Route": supported values: "Policy", "Endpoint"`,
		},
		{
			at: "spec", kind: kindRule, field: "spec.scope",
			accepted: `spec: {axis: Endpoint, scope: Policy}`,
			rejected: `spec: {axis: Endpoint, scope: Endpoint}`,
			message:  "scope: Endpoint must not be set with axis Endpoint, which already has one counter per endpoint; remove scope",
		},
		{
			at: "spec.enforcement", kind: "enum", accepted: `spec: {enforcement: Shadow}`, rejected: `spec: {enforcement: "Off"}`,
			message: `Unsupported value: "Off": supported values: "Enforce", "Shadow"`,
		},
		{
			at: "spec.onStoreFailure", kind: "enum", accepted: `spec: {onStoreFailure: Deny}`, rejected: `spec: {onStoreFailure: Hope}`,
			message: `Unsupported value: "Hope": supported values: "Local", "Allow", "Deny"`,
		},
	}
}

const (
	windowMessage     = "window must be from 1s to 8760h, in whole hours, minutes and seconds (90s, 1h30m, 24h) or in days alone (1d to 365d)"
	identifierMessage = "at most one of the fields in [header query cookie claim descriptor expression] may be set"
	tokenMessage      = " name must be one or more letters, digits or characters of !#$%&*+-.^_|~"
)

func identifierCases() []schemaCase {
	identifier := func(text string) string { return `spec: {identifier: ` + text + `}` }
	fallback := func(text string) string { return identifier(`{fallbacks: [` + text + `]}`) }
	all := []schemaCase{
		{
			at: "spec.identifier", kind: "minProperties", accepted: identifier(`{onMissing: Skip}`), rejected: identifier(`{}`),
			message: "should have at least 1 properties",
		},
		{
			at: "spec.identifier.onMissing", kind: "enum", accepted: identifier(`{onMissing: Deny}`), rejected: identifier(`{onMissing: Allow}`),
			message: `Unsupported value: "Allow": supported values: "ClientAddress", "Shared", "Skip", "Deny"`,
		},
		{
			at: "spec.identifier.fallbacks", kind: "minItems", accepted: fallback(`{query: key}`), rejected: fallback(``),
			message: "should have at least 1 items",
		},
		{
			at: "spec.identifier.fallbacks", kind: "maxItems",
			accepted: fallback(`{query: a}, {query: b}, {query: c}, {query: d}`),
			rejected: fallback(`{query: a}, {query: b}, {query: c}, {query: d}, {query: e}`),
			message:  "Too many: 5: must have at most 4 items",
		},
		{
			at: "spec.identifier.fallbacks", kind: kindRule, accepted: fallback(`{query: key}, {cookie: sid}`), rejected: fallback(`{query: key}, {}`),
			message: "each fallback must have a source: header, query, cookie, claim, descriptor or expression",
		},
		{
			at: "spec", kind: kindRule, field: "spec.identifier",
			accepted: `spec: {axis: Custom, identifier: {header: X-Device}}`,
			rejected: `spec: {axis: Custom}`,
			message:  "identifier is required with axis Custom; set the source of the identifier, or use an axis that has a default identifier",
		},
		{
			at: "spec", kind: kindRule, field: "spec.identifier",
			accepted: `spec: {axis: User, identifier: {header: X-User}}`,
			rejected: `spec: {axis: Endpoint, identifier: {header: X-User}}`,
			message:  "identifier must not be set with axis Endpoint, because the endpoint is the identifier; remove identifier, or use the axis of the identifier with scope: Endpoint",
		},
	}
	all = append(all, sourceCases("spec.identifier", identifier)...)
	return append(all, sourceCases("spec.identifier.fallbacks[]", fallback)...)
}

// sourceCases returns the cases of a source of identifiers.
func sourceCases(at string, source func(text string) string) []schemaCase {
	return append([]schemaCase{
		{
			at: at, kind: kindRule, accepted: source(`{query: tenant}`), rejected: source(`{header: x-tenant, query: tenant}`),
			message: identifierMessage,
		},
		{
			at: at + ".header", kind: "maxLength", accepted: source(`{header: ` + letters(128) + `}`), rejected: source(`{header: ` + letters(129) + `}`),
			message: "may not be more than 128 bytes",
		},
		{
			at: at + ".header", kind: kindRule, accepted: source(`{header: "X-Tenant!#$%&*+.^_|~"}`), rejected: source(`{header: "X Tenant"}`),
			message: "a header" + tokenMessage,
		},
		{
			at: at + ".query", kind: "minLength", accepted: source(`{query: t}`), rejected: source(`{query: ""}`),
			message: "should be at least 1 chars long",
		},
		{
			at: at + ".query", kind: "maxLength", accepted: source(`{query: ` + letters(128) + `}`), rejected: source(`{query: ` + letters(129) + `}`),
			message: "may not be more than 128 bytes",
		},
		{
			at: at + ".cookie", kind: "maxLength", accepted: source(`{cookie: ` + letters(128) + `}`), rejected: source(`{cookie: ` + letters(129) + `}`),
			message: "may not be more than 128 bytes",
		},
		{
			at: at + ".cookie", kind: kindRule, accepted: source(`{cookie: __Host-session}`), rejected: source(`{cookie: "session=1"}`),
			message: "a cookie" + tokenMessage,
		},
		{
			at: at + ".claim", kind: "minLength", accepted: source(`{claim: s}`), rejected: source(`{claim: ""}`),
			message: "should be at least 1 chars long",
		},
		{
			at: at + ".claim", kind: "maxLength", accepted: source(`{claim: ` + letters(253) + `}`), rejected: source(`{claim: ` + letters(254) + `}`),
			message: "may not be more than 253 bytes",
		},
		{
			at: at + ".descriptor", kind: "minLength", accepted: source(`{descriptor: k}`), rejected: source(`{descriptor: ""}`),
			message: "should be at least 1 chars long",
		},
		{
			at: at + ".descriptor", kind: "maxLength", accepted: source(`{descriptor: ` + letters(128) + `}`), rejected: source(`{descriptor: ` + letters(129) + `}`),
			message: "may not be more than 128 bytes",
		},
	}, expressionCases(at+".expression", `"a"`, func(text string) string { return source(`{expression: ` + text + `}`) })...)
}

func matchCases() []schemaCase {
	return []schemaCase{
		{
			at: "spec.match", kind: kindRule, accepted: `{}`, rejected: `spec: {match: {}}`,
			message: matchMessage,
		},
		{
			at: "spec.match.http", kind: kindRule, accepted: http(`{methods: [GET]}`), rejected: http(`{}`),
			message: httpMessage,
		},
		{
			at: "spec.match.http.hosts", kind: "minItems", accepted: http(`{hosts: [shop.example]}`), rejected: http(`{hosts: []}`),
			message: "should have at least 1 items",
		},
		{
			at: "spec.match.http.hosts", kind: "maxItems", accepted: hosts(16), rejected: hosts(17),
			message: "Too many: 17: must have at most 16 items",
		},
		{
			at: "spec.match.http.hosts", kind: kindSet, field: "spec.match.http.hosts[1]",
			accepted: http(`{hosts: [shop.example, "*.shop.example"]}`),
			rejected: http(`{hosts: [shop.example, shop.example]}`),
			message:  `Duplicate value: "shop.example"`,
		},
		{
			at: "spec.match.http.hosts[]", kind: "maxLength", accepted: http(`{hosts: [` + longHost(253) + `]}`), rejected: http(`{hosts: [` + longHost(254) + `]}`),
			message: "may not be more than 253 bytes",
		},
		{
			at: "spec.match.http.hosts[]", kind: kindRule, accepted: http(`{hosts: ["*.shop.example"]}`), rejected: http(`{hosts: ["shop.example:8080"]}`),
			message: hostMessage,
		},
		{
			at: "spec.match.http.methods", kind: "minItems", accepted: http(`{methods: [GET]}`), rejected: http(`{methods: []}`),
			message: "should have at least 1 items",
		},
		{
			at: "spec.match.http.methods", kind: "maxItems",
			accepted: http(`{methods: [GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, CONNECT, TRACE]}`),
			rejected: http(`{methods: [GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, CONNECT, TRACE, GET]}`),
			message:  "Too many: 10: must have at most 9 items",
		},
		{
			at: "spec.match.http.methods", kind: kindSet, field: "spec.match.http.methods[1]",
			accepted: http(`{methods: [GET, HEAD]}`), rejected: http(`{methods: [GET, GET]}`),
			message: `Duplicate value: "GET"`,
		},
		{
			at: "spec.match.http.methods[]", kind: "enum", accepted: http(`{methods: [PATCH]}`), rejected: http(`{methods: [get]}`),
			message: `Unsupported value: "get": supported values: "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"`,
		},
	}
}

const (
	matchMessage = "match must have exactly one of http, descriptors and kubernetes; omit match to limit every request of the domain"
	httpMessage  = "http must not be empty: set hosts, paths, methods, headers, cidrs, exceptCIDRs or expression, or omit match to limit every request of the domain"
)

const hostMessage = "a host must be a DNS name in lower case without scheme, port and trailing dot, such as api.shop.example, " +
	"or *.shop.example for every name below it; omit hosts to match every host"

func pathCases() []schemaCase {
	return []schemaCase{
		{
			at: "spec.match.http.paths", kind: "minItems", accepted: path(`{value: /}`), rejected: http(`{paths: []}`),
			message: "should have at least 1 items",
		},
		{
			at: "spec.match.http.paths", kind: "maxItems", accepted: path(repeat(`{value: /v1}`, 16)), rejected: path(repeat(`{value: /v1}`, 17)),
			message: "Too many: 17: must have at most 16 items",
		},
		{
			at: "spec.match.http.paths[].type", kind: "enum", accepted: path(`{type: Exact, value: /v1}`), rejected: path(`{type: Prefix, value: /v1}`),
			message: `Unsupported value: "Prefix": supported values: "Exact", "PathPrefix", "RegularExpression"`,
		},
		{
			at: "spec.match.http.paths[].value", kind: "required", accepted: path(`{value: /v1}`), rejected: path(`{type: Exact}`),
			message: "Required value",
		},
		{
			at: "spec.match.http.paths[].value", kind: "minLength",
			accepted: path(`{type: RegularExpression, value: "."}`), rejected: path(`{type: RegularExpression, value: ""}`),
			message: "should be at least 1 chars long",
		},
		{
			at: "spec.match.http.paths[].value", kind: "maxLength",
			accepted: path(`{value: /` + letters(511) + `}`), rejected: path(`{value: /` + letters(512) + `}`),
			message: "may not be more than 512 bytes",
		},
		{
			at: "spec.match.http.paths[]", kind: kindRule, field: "spec.match.http.paths[0].value",
			accepted: path(`{value: /v1/search}`), rejected: path(`{value: v1/search}`),
			message: pathMessage,
		},
		{
			at: "spec.match.http.paths[]", kind: kindRule, field: "spec.match.http.paths[0].value",
			accepted: path(`{value: /.well-known/...}`), rejected: path(`{value: /v1/../admin}`),
			message: dotSegmentMessage,
		},
		{
			at: "spec.match.http.paths[]", kind: kindRule, field: "spec.match.http.paths[0].value",
			accepted: path(`{type: RegularExpression, value: "/v1/[a-z]{2}/.*"}`), rejected: path(`{type: Exact, value: "/v1/*"}`),
			message: wildcardMessage,
		},
	}
}

const (
	pathMessage       = "a path must begin with a slash and must not have a query, a fragment or spaces"
	dotSegmentMessage = "a path must not have double slashes or dot segments, because Weir resolves them in the request before the comparison"
	wildcardMessage   = "a path must not have wildcards (*) or templates ({id}); use type PathPrefix to match everything below a path, or type RegularExpression"
)

func headersCases() []schemaCase {
	return []schemaCase{
		{
			at: "spec.match.http.headers", kind: "minItems", accepted: header(`{name: x, type: Present}`), rejected: http(`{headers: []}`),
			message: "should have at least 1 items",
		},
		{
			at: "spec.match.http.headers", kind: "maxItems",
			accepted: header(repeat(`{name: x, type: Present}`, 16)), rejected: header(repeat(`{name: x, type: Present}`, 17)),
			message: "Too many: 17: must have at most 16 items",
		},
	}
}

// headerCases returns the cases for a header match at a path of the schema. with returns the change that sets the header match.
func headerCases(at string, with func(string) string) []schemaCase {
	return []schemaCase{
		{
			at: at + ".name", kind: "required", accepted: with(`{name: x, type: Present}`), rejected: with(`{type: Present}`),
			message: "Required value",
		},
		{
			at: at + ".name", kind: "maxLength",
			accepted: with(`{type: Present, name: ` + letters(128) + `}`), rejected: with(`{type: Present, name: ` + letters(129) + `}`),
			message: "may not be more than 128 bytes",
		},
		{
			at: at + ".name", kind: kindRule,
			accepted: with(`{type: Present, name: X-Plan}`), rejected: with(`{type: Present, name: ":authority"}`),
			message: "a header" + tokenMessage,
		},
		{
			at: at + ".type", kind: "enum",
			accepted: with(`{name: x, type: RegularExpression, value: a+}`), rejected: with(`{name: x, type: Regex, value: a+}`),
			message: `Unsupported value: "Regex": supported values: "Exact", "Present", "RegularExpression"`,
		},
		{
			at: at + ".value", kind: "maxLength",
			accepted: with(`{name: x, value: ` + letters(512) + `}`), rejected: with(`{name: x, value: ` + letters(513) + `}`),
			message: "may not be more than 512 bytes",
		},
		{
			at: at, kind: kindRule, field: strings.ReplaceAll(at, "[]", "[0]") + ".value",
			accepted: with(`{name: x, value: free}`), rejected: with(`{name: x}`),
			message: headerMessage,
		},
	}
}

const headerMessage = "value is required with type Exact or RegularExpression, and must not be set with type Present"

func http(text string) string   { return `spec: {match: {http: ` + text + `}}` }
func path(text string) string   { return http(`{paths: [` + text + `]}`) }
func header(text string) string { return http(`{headers: [` + text + `]}`) }

func letters(n int) string { return strings.Repeat("a", n) }

func repeat(text string, n int) string { return strings.Repeat(text+", ", n-1) + text }

// words returns n different words, separated by commas.
func words(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint("w", i)
	}
	return strings.Join(list, ", ")
}

func hosts(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "h%d.shop.example, ", i)
	}
	return http(`{hosts: [` + strings.TrimSuffix(b.String(), ", ") + `]}`)
}

// longHost returns a host name of n bytes with labels of at most 63 bytes.
func longHost(n int) string {
	name := strings.Repeat(letters(49)+".", n/50)
	return name + letters(n-len(name))
}
