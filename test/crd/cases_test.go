package crd

import (
	"fmt"
	"strings"
)

// schemaCase shows one promise of the schema: an object just inside, and one just outside with what its author is told.
type schemaCase struct {
	at       string // where the schema promises it
	kind     string
	accepted string // changes of the small policy, see namespace.policy
	refused  string
	field    string // the field that the refusal names; empty: at, with [0] for []
	says     string // the refusal; for a rule its message
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
	all = append(all, tierLimitCases()...)
	all = append(all, whenCases()...)
	all = append(all, kubernetesCases()...)
	return append(all, costCases()...)
}

func specCases() []schemaCase {
	return []schemaCase{
		{
			at: "", kind: kindRule,
			accepted: `metadata: {name: ` + strings.Repeat("a", 63) + `}`,
			refused:  `metadata: {name: ` + strings.Repeat("a", 64) + `}`,
			field:    "<nil>",
			says:     "metadata.name must be at most 63 characters, because rate-limit headers, counter keys and metrics contain it",
		},
		{at: "spec", kind: "required", accepted: `{}`, refused: `spec: null`, says: "Required value"},
		{at: "spec.axis", kind: "required", accepted: `{}`, refused: `spec: {axis: null}`, says: "Required value"},
		{
			at: "spec.axis", kind: "enum", accepted: `spec: {axis: IP}`, refused: `spec: {axis: ip}`,
			says: `Unsupported value: "ip": supported values: "IP", "Tenant", "User", "APIKey", "Endpoint", "Namespace", "ServiceAccount", "Custom"`,
		},
		{at: "spec.limit", kind: "required", accepted: `{}`, refused: `spec: {limit: null}`, says: "Required value"},
		{
			at: "spec.limit", kind: "minimum", accepted: `spec: {limit: 1}`, refused: `spec: {limit: 0}`,
			says: "Invalid value: 0: spec.limit in body should be greater than or equal to 1",
		},
		{
			at: "spec.limit", kind: "maximum", accepted: `spec: {limit: 1000000000}`, refused: `spec: {limit: 1000000001}`,
			says: "Invalid value: 1000000001: spec.limit in body should be less than or equal to 1000000000",
		},
		{
			at: "spec", kind: kindRule, field: "spec.limit",
			accepted: `spec: {limit: 1000000, algorithm: SlidingWindowLog}`,
			refused:  `spec: {limit: 1000001, algorithm: SlidingWindowLog}`,
			says:     "limit must be at most 1000000 with algorithm SlidingWindowLog, which stores every admitted unit; use SlidingWindowCounter for a higher limit",
		},
		{at: "spec.window", kind: "required", accepted: `{}`, refused: `spec: {window: null}`, says: "Required value"},
		{
			at: "spec.window", kind: "maxLength", accepted: `spec: {window: 00001h0000001m1s}`, refused: `spec: {window: 00001h0000001m01s}`,
			says: "may not be more than 16 bytes",
		},
		{at: "spec.window", kind: kindRule, accepted: `spec: {window: 720h}`, refused: `spec: {window: 720h1s}`, says: windowSays},
		{
			at: "spec.algorithm", kind: "enum", accepted: `spec: {algorithm: FixedWindow}`, refused: `spec: {algorithm: GCRA}`,
			says: `Unsupported value: "GCRA": supported values: "FixedWindow", "SlidingWindowLog", "SlidingWindowCounter", "TokenBucket", "LeakyBucket"`,
		},
		{
			at: "spec.burst", kind: "minimum", accepted: `spec: {algorithm: LeakyBucket, burst: 0}`, refused: `spec: {algorithm: LeakyBucket, burst: -1}`,
			says: "Invalid value: -1: spec.burst in body should be greater than or equal to 0",
		},
		{
			at: "spec.burst", kind: "maximum",
			accepted: `spec: {algorithm: TokenBucket, limit: 1000, burst: 1000000000}`,
			refused:  `spec: {algorithm: TokenBucket, limit: 1000, burst: 1000000001}`,
			says:     "Invalid value: 1000000001: spec.burst in body should be less than or equal to 1000000000",
		},
		{
			at: "spec", kind: kindRule, field: "spec.burst",
			accepted: `spec: {algorithm: LeakyBucket, burst: 1}`,
			refused:  `spec: {algorithm: SlidingWindowLog, burst: 1}`,
			says:     "burst is valid only with algorithm TokenBucket (capacity) or LeakyBucket (queue length); remove burst or use one of these algorithms",
		},
		{
			at: "spec", kind: kindRule, field: "spec.burst",
			accepted: `spec: {algorithm: TokenBucket, burst: 1}`,
			refused:  `spec: {algorithm: TokenBucket, burst: 0}`,
			says:     "burst must be at least 1 with algorithm TokenBucket, because an empty bucket admits no request; omit burst to use limit as the capacity",
		},
		{
			at: "spec", kind: kindRule, field: "spec.burst",
			accepted: `spec: {algorithm: TokenBucket, limit: 1, window: 30d, burst: 121}`,
			refused:  `spec: {algorithm: TokenBucket, limit: 1, window: 720h, burst: 122}`,
			says:     "burst takes longer than ten years to drain at this limit and window; use a lower burst",
		},
		{
			at: "spec.scope", kind: "enum", accepted: `spec: {scope: Endpoint}`, refused: `spec: {scope: Route}`,
			says: `Unsupported value: "Route": supported values: "Policy", "Endpoint"`,
		},
		{
			at: "spec", kind: kindRule, field: "spec.scope",
			accepted: `spec: {axis: Endpoint, scope: Policy}`,
			refused:  `spec: {axis: Endpoint, scope: Endpoint}`,
			says:     "scope: Endpoint must not be set with axis Endpoint, which already has one counter per endpoint; remove scope",
		},
		{
			at: "spec.enforcement", kind: "enum", accepted: `spec: {enforcement: Shadow}`, refused: `spec: {enforcement: "Off"}`,
			says: `Unsupported value: "Off": supported values: "Enforce", "Shadow"`,
		},
		{
			at: "spec.onStoreFailure", kind: "enum", accepted: `spec: {onStoreFailure: Deny}`, refused: `spec: {onStoreFailure: Hope}`,
			says: `Unsupported value: "Hope": supported values: "Local", "Allow", "Deny"`,
		},
	}
}

const (
	windowSays     = "window must be from 1s to 720h, in whole hours, minutes and seconds (90s, 1h30m, 24h) or in days alone (1d to 30d)"
	identifierSays = "exactly one of the fields in [header query cookie claim descriptor expression] must be set"
	tokenSays      = " name must be one or more letters, digits or characters of !#$%&*+-.^_|~"
)

func identifierCases() []schemaCase {
	identifier := func(text string) string { return `spec: {identifier: ` + text + `}` }
	return append([]schemaCase{
		{
			at: "spec", kind: kindRule, field: "spec.identifier",
			accepted: `spec: {axis: Custom, identifier: {header: X-Device}}`,
			refused:  `spec: {axis: Custom}`,
			says:     "identifier is required with axis Custom; set identifier, or use an axis that has a default identifier",
		},
		{
			at: "spec", kind: kindRule, field: "spec.identifier",
			accepted: `spec: {axis: User, identifier: {header: X-User}}`,
			refused:  `spec: {axis: Endpoint, identifier: {header: X-User}}`,
			says:     "identifier must not be set with axis Endpoint, because the endpoint is the identifier; remove identifier, or use the axis of the identifier with scope: Endpoint",
		},
		{
			at: "spec.identifier", kind: kindRule, accepted: identifier(`{query: tenant}`), refused: identifier(`{header: x-tenant, query: tenant}`),
			says: identifierSays,
		},
		{
			at: "spec.identifier.header", kind: "maxLength", accepted: identifier(`{header: ` + letters(128) + `}`), refused: identifier(`{header: ` + letters(129) + `}`),
			says: "may not be more than 128 bytes",
		},
		{
			at: "spec.identifier.header", kind: kindRule, accepted: identifier(`{header: "X-Tenant!#$%&*+.^_|~"}`), refused: identifier(`{header: "X Tenant"}`),
			says: "a header" + tokenSays,
		},
		{
			at: "spec.identifier.query", kind: "minLength", accepted: identifier(`{query: t}`), refused: identifier(`{query: ""}`),
			says: "should be at least 1 chars long",
		},
		{
			at: "spec.identifier.query", kind: "maxLength", accepted: identifier(`{query: ` + letters(128) + `}`), refused: identifier(`{query: ` + letters(129) + `}`),
			says: "may not be more than 128 bytes",
		},
		{
			at: "spec.identifier.cookie", kind: "maxLength", accepted: identifier(`{cookie: ` + letters(128) + `}`), refused: identifier(`{cookie: ` + letters(129) + `}`),
			says: "may not be more than 128 bytes",
		},
		{
			at: "spec.identifier.cookie", kind: kindRule, accepted: identifier(`{cookie: __Host-session}`), refused: identifier(`{cookie: "session=1"}`),
			says: "a cookie" + tokenSays,
		},
		{
			at: "spec.identifier.claim", kind: "minLength", accepted: identifier(`{claim: s}`), refused: identifier(`{claim: ""}`),
			says: "should be at least 1 chars long",
		},
		{
			at: "spec.identifier.claim", kind: "maxLength", accepted: identifier(`{claim: ` + letters(253) + `}`), refused: identifier(`{claim: ` + letters(254) + `}`),
			says: "may not be more than 253 bytes",
		},
		{
			at: "spec.identifier.descriptor", kind: "minLength", accepted: identifier(`{descriptor: k}`), refused: identifier(`{descriptor: ""}`),
			says: "should be at least 1 chars long",
		},
		{
			at: "spec.identifier.descriptor", kind: "maxLength", accepted: identifier(`{descriptor: ` + letters(128) + `}`), refused: identifier(`{descriptor: ` + letters(129) + `}`),
			says: "may not be more than 128 bytes",
		},
	}, expressionCases("spec.identifier.expression", `"a"`, func(text string) string { return identifier(`{expression: ` + text + `}`) })...)
}

func matchCases() []schemaCase {
	return []schemaCase{
		{
			at: "spec.match", kind: kindRule, accepted: `{}`, refused: `spec: {match: {}}`,
			says: matchSays,
		},
		{
			at: "spec.match.http", kind: kindRule, accepted: http(`{methods: [GET]}`), refused: http(`{}`),
			says: httpSays,
		},
		{
			at: "spec.match.http.hosts", kind: "minItems", accepted: http(`{hosts: [shop.example]}`), refused: http(`{hosts: []}`),
			says: "should have at least 1 items",
		},
		{
			at: "spec.match.http.hosts", kind: "maxItems", accepted: hosts(16), refused: hosts(17),
			says: "Too many: 17: must have at most 16 items",
		},
		{
			at: "spec.match.http.hosts", kind: kindSet, field: "spec.match.http.hosts[1]",
			accepted: http(`{hosts: [shop.example, "*.shop.example"]}`),
			refused:  http(`{hosts: [shop.example, shop.example]}`),
			says:     `Duplicate value: "shop.example"`,
		},
		{
			at: "spec.match.http.hosts[]", kind: "maxLength", accepted: http(`{hosts: [` + longHost(253) + `]}`), refused: http(`{hosts: [` + longHost(254) + `]}`),
			says: "may not be more than 253 bytes",
		},
		{
			at: "spec.match.http.hosts[]", kind: kindRule, accepted: http(`{hosts: ["*.shop.example"]}`), refused: http(`{hosts: ["shop.example:8080"]}`),
			says: hostSays,
		},
		{
			at: "spec.match.http.methods", kind: "minItems", accepted: http(`{methods: [GET]}`), refused: http(`{methods: []}`),
			says: "should have at least 1 items",
		},
		{
			at: "spec.match.http.methods", kind: "maxItems",
			accepted: http(`{methods: [GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, CONNECT, TRACE]}`),
			refused:  http(`{methods: [GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, CONNECT, TRACE, GET]}`),
			says:     "Too many: 10: must have at most 9 items",
		},
		{
			at: "spec.match.http.methods", kind: kindSet, field: "spec.match.http.methods[1]",
			accepted: http(`{methods: [GET, HEAD]}`), refused: http(`{methods: [GET, GET]}`),
			says: `Duplicate value: "GET"`,
		},
		{
			at: "spec.match.http.methods[]", kind: "enum", accepted: http(`{methods: [PATCH]}`), refused: http(`{methods: [get]}`),
			says: `Unsupported value: "get": supported values: "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"`,
		},
	}
}

const (
	matchSays = "match must have exactly one of http, descriptors and kubernetes; omit match to limit every request of the domain"
	httpSays  = "http must not be empty: set hosts, paths, methods, headers, cidrs, exceptCIDRs or expression, or omit match to limit every request of the domain"
)

const hostSays = "a host must be a DNS name in lower case without scheme, port and trailing dot, such as api.shop.example, " +
	"or *.shop.example for every name below it; omit hosts to match every host"

func pathCases() []schemaCase {
	return []schemaCase{
		{
			at: "spec.match.http.paths", kind: "minItems", accepted: path(`{value: /}`), refused: http(`{paths: []}`),
			says: "should have at least 1 items",
		},
		{
			at: "spec.match.http.paths", kind: "maxItems", accepted: path(repeat(`{value: /v1}`, 16)), refused: path(repeat(`{value: /v1}`, 17)),
			says: "Too many: 17: must have at most 16 items",
		},
		{
			at: "spec.match.http.paths[].type", kind: "enum", accepted: path(`{type: Exact, value: /v1}`), refused: path(`{type: Prefix, value: /v1}`),
			says: `Unsupported value: "Prefix": supported values: "Exact", "PathPrefix", "RegularExpression"`,
		},
		{
			at: "spec.match.http.paths[].value", kind: "required", accepted: path(`{value: /v1}`), refused: path(`{type: Exact}`),
			says: "Required value",
		},
		{
			at: "spec.match.http.paths[].value", kind: "minLength",
			accepted: path(`{type: RegularExpression, value: "."}`), refused: path(`{type: RegularExpression, value: ""}`),
			says: "should be at least 1 chars long",
		},
		{
			at: "spec.match.http.paths[].value", kind: "maxLength",
			accepted: path(`{value: /` + letters(511) + `}`), refused: path(`{value: /` + letters(512) + `}`),
			says: "may not be more than 512 bytes",
		},
		{
			at: "spec.match.http.paths[]", kind: kindRule, field: "spec.match.http.paths[0].value",
			accepted: path(`{value: /v1/search}`), refused: path(`{value: v1/search}`),
			says: pathSays,
		},
		{
			at: "spec.match.http.paths[]", kind: kindRule, field: "spec.match.http.paths[0].value",
			accepted: path(`{value: /.well-known/...}`), refused: path(`{value: /v1/../admin}`),
			says: dotSays,
		},
		{
			at: "spec.match.http.paths[]", kind: kindRule, field: "spec.match.http.paths[0].value",
			accepted: path(`{type: RegularExpression, value: "/v1/[a-z]{2}/.*"}`), refused: path(`{type: Exact, value: "/v1/*"}`),
			says: wildcardSays,
		},
	}
}

const (
	pathSays     = "a path must begin with a slash and must not have a query, a fragment or spaces"
	dotSays      = "a path must not have double slashes or dot segments, because Weir resolves them in the request before the comparison"
	wildcardSays = "a path must not have wildcards (*) or templates ({id}); use type PathPrefix to match everything below a path, or type RegularExpression"
)

func headersCases() []schemaCase {
	return []schemaCase{
		{
			at: "spec.match.http.headers", kind: "minItems", accepted: header(`{name: x, type: Present}`), refused: http(`{headers: []}`),
			says: "should have at least 1 items",
		},
		{
			at: "spec.match.http.headers", kind: "maxItems",
			accepted: header(repeat(`{name: x, type: Present}`, 16)), refused: header(repeat(`{name: x, type: Present}`, 17)),
			says: "Too many: 17: must have at most 16 items",
		},
	}
}

// headerCases are those of a header match that stands at a place of the schema; with makes the change that puts it there.
func headerCases(at string, with func(string) string) []schemaCase {
	return []schemaCase{
		{
			at: at + ".name", kind: "required", accepted: with(`{name: x, type: Present}`), refused: with(`{type: Present}`),
			says: "Required value",
		},
		{
			at: at + ".name", kind: "maxLength",
			accepted: with(`{type: Present, name: ` + letters(128) + `}`), refused: with(`{type: Present, name: ` + letters(129) + `}`),
			says: "may not be more than 128 bytes",
		},
		{
			at: at + ".name", kind: kindRule,
			accepted: with(`{type: Present, name: X-Plan}`), refused: with(`{type: Present, name: ":authority"}`),
			says: "a header" + tokenSays,
		},
		{
			at: at + ".type", kind: "enum",
			accepted: with(`{name: x, type: RegularExpression, value: a+}`), refused: with(`{name: x, type: Regex, value: a+}`),
			says: `Unsupported value: "Regex": supported values: "Exact", "Present", "RegularExpression"`,
		},
		{
			at: at + ".value", kind: "maxLength",
			accepted: with(`{name: x, value: ` + letters(512) + `}`), refused: with(`{name: x, value: ` + letters(513) + `}`),
			says: "may not be more than 512 bytes",
		},
		{
			at: at, kind: kindRule, field: strings.ReplaceAll(at, "[]", "[0]") + ".value",
			accepted: with(`{name: x, value: free}`), refused: with(`{name: x}`),
			says: headerSays,
		},
	}
}

const headerSays = "value is required with type Exact or RegularExpression, and must not be set with type Present"

func http(text string) string   { return `spec: {match: {http: ` + text + `}}` }
func path(text string) string   { return http(`{paths: [` + text + `]}`) }
func header(text string) string { return http(`{headers: [` + text + `]}`) }

func letters(n int) string { return strings.Repeat("a", n) }

func repeat(text string, n int) string { return strings.Repeat(text+", ", n-1) + text }

func hosts(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "h%d.shop.example, ", i)
	}
	return http(`{hosts: [` + strings.TrimSuffix(b.String(), ", ") + `]}`)
}

// longHost is a host name of n bytes, in labels of at most 63.
func longHost(n int) string {
	name := strings.Repeat(letters(49)+".", n/50)
	return name + letters(n-len(name))
}
