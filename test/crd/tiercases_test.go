package crd

import (
	"fmt"
	"strings"
)

// tier returns the change that adds one tier to the minimal policy, with a name and the fields in text.
func tier(text string) string { return tiers(`{name: a, ` + text + `}`) }

func tiers(list string) string { return `spec: {tiers: [` + list + `]}` }

// bucket returns the change that adds one tier to a policy with the given algorithm and 1 unit per 720h.
func bucket(algorithm, text string) string {
	return `spec: {algorithm: ` + algorithm + `, limit: 1, window: 720h, tiers: [{name: a, when: {identifiers: [a]}, ` + text + `}]}`
}

func when(text string) string { return tier(`limit: 1, when: {` + text + `}`) }

func tierCases() []schemaCase {
	const of = `when: {identifiers: [a]}`
	named := func(name string) string { return tiers(`{name: ` + name + `, limit: 1, ` + of + `}`) }
	return []schemaCase{
		{at: "spec.tiers", kind: "minItems", accepted: named("a"), rejected: `spec: {tiers: []}`, message: "should have at least 1 items"},
		{
			at: "spec.tiers", kind: "maxItems", accepted: tiers(tiersNamed(16)), rejected: tiers(tiersNamed(17)),
			message: "Too many: 17: must have at most 16 items",
		},
		{
			at: "spec.tiers", kind: kindRule,
			accepted: tiers(`{name: a, limit: 1, ` + of + `}, {name: b, limit: 1, ` + of + `}`),
			rejected: tiers(`{name: a, limit: 1, ` + of + `}, {name: a, limit: 2, ` + of + `}`),
			message:  "tiers must have unique names, because responses identify a tier by its name; rename one of them",
		},
		{at: "spec.tiers[].name", kind: "required", accepted: named("a"), rejected: tiers(`{limit: 1, ` + of + `}`), message: "Required value"},
		{
			at: "spec.tiers[].name", kind: "maxLength", accepted: named(letters(63)), rejected: named(letters(64)),
			message: "may not be more than 63 bytes",
		},
		{at: "spec.tiers[].name", kind: kindRule, accepted: named("tier-1"), rejected: named("Gold"), message: tierNameMessage},
		{at: "spec.tiers[].when", kind: "required", accepted: named("a"), rejected: tier(`limit: 1`), message: "Required value"},
		{
			at: "spec.tiers[]", kind: kindRule, accepted: tier(`unlimited: true, ` + of), rejected: tier(`unlimited: true, limit: 1, ` + of),
			message: tierLimitMessage,
		},
		{
			at: "spec.tiers[]", kind: kindRule, field: "spec.tiers[0].burst",
			accepted: bucket("TokenBucket", `limit: 1, burst: 1`), rejected: bucket("TokenBucket", `unlimited: true, burst: 1`),
			message: "burst requires limit; remove burst or set the limit of the tier",
		},
	}
}

const (
	tierNameMessage  = "the name of a tier must consist of lower-case letters, digits and hyphens, and must begin and end with a letter or digit"
	tierLimitMessage = "a tier must have exactly one of limit, rates and unlimited: true"
)

func tierLimitCases() []schemaCase {
	const of = `when: {identifiers: [a]}, `
	return []schemaCase{
		{
			at: "spec.tiers[].limit", kind: "minimum", accepted: tier(of + `limit: 0`), rejected: tier(of + `limit: -1`),
			message: "should be greater than or equal to 0",
		},
		{
			at: "spec.tiers[].limit", kind: "maximum", accepted: tier(of + `limit: 1000000000`), rejected: tier(of + `limit: 1000000001`),
			message: "should be less than or equal to 1000000000",
		},
		{
			at: "spec.tiers[].burst", kind: "minimum",
			accepted: bucket("LeakyBucket", `limit: 1, burst: 0`), rejected: bucket("LeakyBucket", `limit: 1, burst: -1`),
			message: "should be greater than or equal to 0",
		},
		{
			at: "spec.tiers[].burst", kind: "maximum",
			accepted: bucket("TokenBucket", `limit: 10000000, burst: 1000000000`), rejected: bucket("TokenBucket", `limit: 10000000, burst: 1000000001`),
			message: "should be less than or equal to 1000000000",
		},
		{
			at: "spec", kind: kindRule, field: "spec.tiers",
			accepted: `spec: {limit: null, window: null, rates: [{limit: 2, window: 1s}], tiers: [{name: a, ` + of + `limit: 0}]}`,
			rejected: `spec: {limit: null, window: null, rates: [{limit: 2, window: 1s}], tiers: [{name: a, ` + of + `limit: 1}]}`,
			message:  "a tier of a policy with rates must have rates, limit: 0 or unlimited: true, because a limit alone has no window; use rates",
		},
		{
			at: "spec", kind: kindRule, field: "spec.tiers",
			accepted: bucket("SlidingWindowLog", `limit: 1000000`), rejected: bucket("SlidingWindowLog", `limit: 1000001`),
			message: "the limit of a tier must be at most 1000000 with algorithm SlidingWindowLog, which stores every admitted unit; use SlidingWindowCounter for a higher limit",
		},
		{
			at: "spec", kind: kindRule, field: "spec.tiers",
			accepted: bucket("LeakyBucket", `limit: 1, burst: 1`), rejected: bucket("FixedWindow", `limit: 1, burst: 1`),
			message: "the burst of a tier is valid only with algorithm TokenBucket (capacity) or LeakyBucket (queue length); remove burst or use one of these algorithms",
		},
		{
			at: "spec", kind: kindRule, field: "spec.tiers",
			accepted: bucket("TokenBucket", `limit: 1, burst: 1`), rejected: bucket("TokenBucket", `limit: 1, burst: 0`),
			message: "the burst of a tier must be at least 1 with algorithm TokenBucket, because an empty bucket admits no request; omit burst to use the limit of the tier as the capacity",
		},
		{
			at: "spec", kind: kindRule, field: "spec.tiers",
			accepted: bucket("LeakyBucket", `limit: 1, burst: 121`), rejected: bucket("LeakyBucket", `limit: 1, burst: 122`),
			message: "the burst of a tier takes longer than ten years to drain at the limit of the tier and this window; use a lower burst",
		},
	}
}

func whenCases() []schemaCase {
	const at = "spec.tiers[].when"
	all := []schemaCase{
		{
			at: at, kind: kindRule, accepted: when(`groups: [a]`), rejected: when(`groups: [a], identifiers: [a]`),
			message: whenMessage,
		},
		{at: at + ".identifiers", kind: "minItems", accepted: when(`identifiers: [a]`), rejected: when(`identifiers: []`), message: "should have at least 1 items"},
		{
			at: at + ".identifiers", kind: "maxItems",
			accepted: when(`identifiers: [` + repeat("a", 256) + `]`), rejected: when(`identifiers: [` + repeat("a", 257) + `]`),
			message: "Too many: 257: must have at most 256 items",
		},
		{at: at + ".identifiers[]", kind: "minLength", accepted: when(`identifiers: [a]`), rejected: when(`identifiers: [""]`), message: "should be at least 1 chars long"},
		{
			at: at + ".identifiers[]", kind: "maxLength",
			accepted: when(`identifiers: [` + letters(253) + `]`), rejected: when(`identifiers: [` + letters(254) + `]`),
			message: "may not be more than 253 bytes",
		},
		{
			at: at + ".identifiers[]", kind: kindRule,
			accepted: when(`identifiers: ["hash:0123456789abcdef0123456789abcdef"]`), rejected: when(`identifiers: ["hash:0123456789ABCDEF0123456789abcdef"]`),
			message: "a hash must consist of hash: and 32 hexadecimal digits in lower case, as weir hash prints it",
		},
		{at: at + ".groups", kind: "minItems", accepted: when(`groups: [a]`), rejected: when(`groups: []`), message: "should have at least 1 items"},
		{
			at: at + ".groups", kind: "maxItems",
			accepted: when(`groups: [` + distinct("g%d", 64) + `]`), rejected: when(`groups: [` + distinct("g%d", 65) + `]`),
			message: "Too many: 65: must have at most 64 items",
		},
		{
			at: at + ".groups", kind: kindSet, field: "spec.tiers[0].when.groups[1]",
			accepted: when(`groups: [a, b]`), rejected: when(`groups: [a, a]`),
			message: `Duplicate value: "a"`,
		},
		{at: at + ".groups[]", kind: "minLength", accepted: when(`groups: [a]`), rejected: when(`groups: [""]`), message: "should be at least 1 chars long"},
		{
			at: at + ".groups[]", kind: "maxLength",
			accepted: when(`groups: [` + letters(253) + `]`), rejected: when(`groups: [` + letters(254) + `]`),
			message: "may not be more than 253 bytes",
		},
	}
	all = append(all, headerCases(at+".header", func(text string) string { return when(`header: ` + text) })...)
	all = append(all, networkCases(at+".cidrs", func(list string) string { return when(`cidrs: ` + list) })...)
	return append(all, expressionCases(at+".expression", "true", func(text string) string { return when(`expression: ` + text) })...)
}

const whenMessage = "exactly one of the fields in [header identifiers cidrs groups namespaceSelector expression] must be set"

func costCases() []schemaCase {
	const at = "spec.cost"
	cost := func(text string) string { return `spec: {limit: 1000000000, cost: {` + text + `}}` }
	all := []schemaCase{
		{
			at: at, kind: kindRule, accepted: cost(`value: 2`), rejected: cost(`value: 2, header: x-cost`),
			message: costMessage,
		},
		{at: at + ".value", kind: "minimum", accepted: cost(`value: 1`), rejected: cost(`value: 0`), message: "should be greater than or equal to 1"},
		{
			at: at + ".value", kind: "maximum", accepted: cost(`value: 1000000000`),
			rejected: `spec: {limit: 1, tiers: [{name: a, when: {groups: [a]}, unlimited: true}], cost: {value: 1000000001}}`,
			message:  "should be less than or equal to 1000000000",
		},
		{
			at: "spec", kind: kindRule, field: "spec.cost.value", accepted: `spec: {cost: {value: 10}}`, rejected: `spec: {cost: {value: 11}}`,
			message: costTooHighMessage,
		},
		{
			at: at + ".header", kind: "maxLength", accepted: cost(`header: ` + letters(128)), rejected: cost(`header: ` + letters(129)),
			message: "may not be more than 128 bytes",
		},
		{at: at + ".header", kind: kindRule, accepted: cost(`header: X-Cost`), rejected: cost(`header: X Cost`), message: "a header" + tokenMessage},
	}
	return append(all, expressionCases(at+".expression", "1", func(text string) string { return cost(`expression: ` + text) })...)
}

const (
	costMessage        = "exactly one of the fields in [value header expression] must be set"
	costTooHighMessage = "every request costs more than the policy can ever admit, so every request would be denied; use a lower cost or a higher limit " +
		"(for TokenBucket and LeakyBucket: a higher burst)"
)

func descriptorCases() []schemaCase {
	const at = "spec.match.descriptors"
	descriptors := func(list string) string { return `spec: {match: {descriptors: [` + list + `]}}` }
	return []schemaCase{
		{at: at, kind: "minItems", accepted: descriptors(`{key: k}`), rejected: descriptors(``), message: "should have at least 1 items"},
		{
			at: at, kind: "maxItems", accepted: descriptors(repeat(`{key: k}`, 16)), rejected: descriptors(repeat(`{key: k}`, 17)),
			message: "Too many: 17: must have at most 16 items",
		},
		{at: at + "[].key", kind: "required", accepted: descriptors(`{key: k}`), rejected: descriptors(`{value: v}`), message: "Required value"},
		{at: at + "[].key", kind: "minLength", accepted: descriptors(`{key: k}`), rejected: descriptors(`{key: ""}`), message: "should be at least 1 chars long"},
		{
			at: at + "[].key", kind: "maxLength", accepted: descriptors(`{key: ` + letters(128) + `}`), rejected: descriptors(`{key: ` + letters(129) + `}`),
			message: "may not be more than 128 bytes",
		},
		{at: at + "[].value", kind: "minLength", accepted: descriptors(`{key: k, value: v}`), rejected: descriptors(`{key: k, value: ""}`), message: "should be at least 1 chars long"},
		{
			at: at + "[].value", kind: "maxLength",
			accepted: descriptors(`{key: k, value: ` + letters(512) + `}`), rejected: descriptors(`{key: k, value: ` + letters(513) + `}`),
			message: "may not be more than 512 bytes",
		},
		{at: at + "[].pattern", kind: "minLength", accepted: descriptors(`{key: k, pattern: v}`), rejected: descriptors(`{key: k, pattern: ""}`), message: "should be at least 1 chars long"},
		{
			at: at + "[].pattern", kind: "maxLength",
			accepted: descriptors(`{key: k, pattern: ` + letters(512) + `}`), rejected: descriptors(`{key: k, pattern: ` + letters(513) + `}`),
			message: "may not be more than 512 bytes",
		},
		{at: at + "[].except", kind: "minItems", accepted: descriptors(`{key: k, except: [v]}`), rejected: descriptors(`{key: k, except: []}`), message: "should have at least 1 items"},
		{
			at: at + "[].except", kind: "maxItems", accepted: descriptors(`{key: k, except: [` + words(1024) + `]}`),
			rejected: descriptors(`{key: k, except: [` + words(1025) + `]}`), message: "Too many: 1025: must have at most 1024 items",
		},
		{at: at + "[].except", field: at + "[0].except[1]", kind: kindSet, accepted: descriptors(`{key: k, except: [v, w]}`), rejected: descriptors(`{key: k, except: [v, v]}`), message: `Duplicate value: "v"`},
		{at: at + "[].except[]", kind: "minLength", accepted: descriptors(`{key: k, except: [v]}`), rejected: descriptors(`{key: k, except: [""]}`), message: "should be at least 1 chars long"},
		{
			at: at + "[].except[]", kind: "maxLength",
			accepted: descriptors(`{key: k, except: [` + letters(512) + `]}`), rejected: descriptors(`{key: k, except: [` + letters(513) + `]}`),
			message: "may not be more than 512 bytes",
		},
		{
			at: at + "[]", kind: kindRule, field: at + "[0].value", accepted: descriptors(`{key: k, pattern: "v*", except: [vw]}`), rejected: descriptors(`{key: k, value: v, except: [vw]}`),
			message: "value must not be set together with pattern or except, because it already is one value; remove value or the others",
		},
	}
}

// networkCases returns the cases for a list of networks at a path of the schema. with returns the change that sets the list.
func networkCases(at string, with func(string) string) []schemaCase {
	first := strings.ReplaceAll(at, "[]", "[0]")
	return []schemaCase{
		{at: at, kind: "minItems", accepted: with(`[10.0.0.0/8]`), rejected: with(`[]`), message: "should have at least 1 items"},
		{
			at: at, kind: "maxItems", accepted: with(`[` + distinct("10.%d.0.0/16", 64) + `]`), rejected: with(`[` + distinct("10.%d.0.0/16", 65) + `]`),
			message: "Too many: 65: must have at most 64 items",
		},
		{
			at: at, kind: kindSet, field: first + "[1]", accepted: with(`["10.0.0.0/8", "2001:db8::/32"]`), rejected: with(`[10.0.0.0/8, 10.0.0.0/8]`),
			message: `Duplicate value: "10.0.0.0/8"`,
		},
		{
			at: at + "[]", kind: "maxLength",
			accepted: with(`["2001:0db8:0000:0000:0000:0000:203.100.113.107/128"]`),
			rejected: with(`["2001:0db8:0000:0000:0000:00000:203.100.113.107/128"]`),
			message:  "may not be more than 49 bytes",
		},
		{at: at + "[]", kind: kindRule, accepted: with(`["::/0"]`), rejected: with(`["203.0.113.7"]`), message: cidrMessage},
		{at: at + "[]", kind: kindRule, accepted: with(`[203.0.113.7/32]`), rejected: with(`[203.0.113.7/24]`), message: cidrBitsMessage},
	}
}

const (
	cidrMessage     = "a CIDR must be an IPv4 or IPv6 network with a prefix length, such as 203.0.113.0/24 or 2001:db8::/32; for a single address use /32 or /128"
	cidrBitsMessage = "a CIDR must not have bits set after its prefix; clear them (203.0.113.0/24 instead of 203.0.113.7/24), or use /32 or /128 for a single address"
)

// expressionCases returns the cases for a CEL expression at a path of the schema. text is an expression that compiles there.
func expressionCases(at, text string, with func(string) string) []schemaCase {
	quoted := func(size int) string { return `'` + text + strings.Repeat(" ", size-len(text)) + `'` }
	return []schemaCase{
		{at: at, kind: "minLength", accepted: with(quoted(len(text))), rejected: with(`""`), message: "should be at least 1 chars long"},
		{at: at, kind: "maxLength", accepted: with(quoted(4096)), rejected: with(quoted(4097)), message: "may not be more than 4096 bytes"},
	}
}

func tiersNamed(n int) string { return distinct("{name: t%d, limit: 1, when: {groups: [a]}}", n) }

// distinct returns n entries, each with its number in the format.
func distinct(format string, n int) string {
	entries := make([]string, n)
	for i := range entries {
		entries[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(entries, ", ")
}
