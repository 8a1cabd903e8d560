package crd

import (
	"fmt"
	"strings"
)

// tier is the change that gives the small policy one tier, with the parts of text besides a name.
func tier(text string) string { return tiers(`{name: a, ` + text + `}`) }

func tiers(list string) string { return `spec: {tiers: [` + list + `]}` }

// bucket is tier in a policy of 1 per 720h with the algorithm given.
func bucket(algorithm, text string) string {
	return `spec: {algorithm: ` + algorithm + `, limit: 1, window: 720h, tiers: [{name: a, when: {identifiers: [a]}, ` + text + `}]}`
}

func when(text string) string { return tier(`limit: 1, when: {` + text + `}`) }

func tierCases() []schemaCase {
	const of = `when: {identifiers: [a]}`
	named := func(name string) string { return tiers(`{name: ` + name + `, limit: 1, ` + of + `}`) }
	return []schemaCase{
		{at: "spec.tiers", kind: "minItems", accepted: named("a"), refused: `spec: {tiers: []}`, says: "should have at least 1 items"},
		{
			at: "spec.tiers", kind: "maxItems", accepted: tiers(tiersNamed(16)), refused: tiers(tiersNamed(17)),
			says: "Too many: 17: must have at most 16 items",
		},
		{
			at: "spec.tiers", kind: kindRule,
			accepted: tiers(`{name: a, limit: 1, ` + of + `}, {name: b, limit: 1, ` + of + `}`),
			refused:  tiers(`{name: a, limit: 1, ` + of + `}, {name: a, limit: 2, ` + of + `}`),
			says:     "tiers must have unique names, because responses identify a tier by its name; rename one of them",
		},
		{at: "spec.tiers[].name", kind: "required", accepted: named("a"), refused: tiers(`{limit: 1, ` + of + `}`), says: "Required value"},
		{
			at: "spec.tiers[].name", kind: "maxLength", accepted: named(letters(63)), refused: named(letters(64)),
			says: "may not be more than 63 bytes",
		},
		{at: "spec.tiers[].name", kind: kindRule, accepted: named("tier-1"), refused: named("Gold"), says: tierNameSays},
		{at: "spec.tiers[].when", kind: "required", accepted: named("a"), refused: tier(`limit: 1`), says: "Required value"},
		{
			at: "spec.tiers[]", kind: kindRule, accepted: tier(`unlimited: true, ` + of), refused: tier(`unlimited: true, limit: 1, ` + of),
			says: tierLimitSays,
		},
		{
			at: "spec.tiers[]", kind: kindRule, field: "spec.tiers[0].burst",
			accepted: bucket("TokenBucket", `limit: 1, burst: 1`), refused: bucket("TokenBucket", `unlimited: true, burst: 1`),
			says: "burst requires limit; remove burst or set the limit of the tier",
		},
	}
}

const (
	tierNameSays  = "the name of a tier must consist of lower-case letters, digits and hyphens, and must begin and end with a letter or digit"
	tierLimitSays = "a tier must have either limit or unlimited: true, but not both"
)

func tierLimitCases() []schemaCase {
	const of = `when: {identifiers: [a]}, `
	return []schemaCase{
		{
			at: "spec.tiers[].limit", kind: "minimum", accepted: tier(of + `limit: 1`), refused: tier(of + `limit: 0`),
			says: "should be greater than or equal to 1",
		},
		{
			at: "spec.tiers[].limit", kind: "maximum", accepted: tier(of + `limit: 1000000000`), refused: tier(of + `limit: 1000000001`),
			says: "should be less than or equal to 1000000000",
		},
		{
			at: "spec.tiers[].burst", kind: "minimum",
			accepted: bucket("LeakyBucket", `limit: 1, burst: 0`), refused: bucket("LeakyBucket", `limit: 1, burst: -1`),
			says: "should be greater than or equal to 0",
		},
		{
			at: "spec.tiers[].burst", kind: "maximum",
			accepted: bucket("TokenBucket", `limit: 10000000, burst: 1000000000`), refused: bucket("TokenBucket", `limit: 10000000, burst: 1000000001`),
			says: "should be less than or equal to 1000000000",
		},
		{
			at: "spec", kind: kindRule, field: "spec.tiers",
			accepted: bucket("SlidingWindowLog", `limit: 1000000`), refused: bucket("SlidingWindowLog", `limit: 1000001`),
			says: "the limit of a tier must be at most 1000000 with algorithm SlidingWindowLog, which stores every admitted unit; use SlidingWindowCounter for a higher limit",
		},
		{
			at: "spec", kind: kindRule, field: "spec.tiers",
			accepted: bucket("LeakyBucket", `limit: 1, burst: 1`), refused: bucket("FixedWindow", `limit: 1, burst: 1`),
			says: "the burst of a tier is valid only with algorithm TokenBucket (capacity) or LeakyBucket (queue length); remove burst or use one of these algorithms",
		},
		{
			at: "spec", kind: kindRule, field: "spec.tiers",
			accepted: bucket("TokenBucket", `limit: 1, burst: 1`), refused: bucket("TokenBucket", `limit: 1, burst: 0`),
			says: "the burst of a tier must be at least 1 with algorithm TokenBucket, because an empty bucket admits no request; omit burst to use the limit of the tier as the capacity",
		},
		{
			at: "spec", kind: kindRule, field: "spec.tiers",
			accepted: bucket("LeakyBucket", `limit: 1, burst: 121`), refused: bucket("LeakyBucket", `limit: 1, burst: 122`),
			says: "the burst of a tier takes longer than ten years to drain at the limit of the tier and this window; use a lower burst",
		},
	}
}

func whenCases() []schemaCase {
	const at = "spec.tiers[].when"
	all := []schemaCase{
		{
			at: at, kind: kindRule, accepted: when(`groups: [a]`), refused: when(`groups: [a], identifiers: [a]`),
			says: whenSays,
		},
		{at: at + ".identifiers", kind: "minItems", accepted: when(`identifiers: [a]`), refused: when(`identifiers: []`), says: "should have at least 1 items"},
		{
			at: at + ".identifiers", kind: "maxItems",
			accepted: when(`identifiers: [` + repeat("a", 256) + `]`), refused: when(`identifiers: [` + repeat("a", 257) + `]`),
			says: "Too many: 257: must have at most 256 items",
		},
		{at: at + ".identifiers[]", kind: "minLength", accepted: when(`identifiers: [a]`), refused: when(`identifiers: [""]`), says: "should be at least 1 chars long"},
		{
			at: at + ".identifiers[]", kind: "maxLength",
			accepted: when(`identifiers: [` + letters(253) + `]`), refused: when(`identifiers: [` + letters(254) + `]`),
			says: "may not be more than 253 bytes",
		},
		{at: at + ".groups", kind: "minItems", accepted: when(`groups: [a]`), refused: when(`groups: []`), says: "should have at least 1 items"},
		{
			at: at + ".groups", kind: "maxItems",
			accepted: when(`groups: [` + distinct("g%d", 64) + `]`), refused: when(`groups: [` + distinct("g%d", 65) + `]`),
			says: "Too many: 65: must have at most 64 items",
		},
		{
			at: at + ".groups", kind: kindSet, field: "spec.tiers[0].when.groups[1]",
			accepted: when(`groups: [a, b]`), refused: when(`groups: [a, a]`),
			says: `Duplicate value: "a"`,
		},
		{at: at + ".groups[]", kind: "minLength", accepted: when(`groups: [a]`), refused: when(`groups: [""]`), says: "should be at least 1 chars long"},
		{
			at: at + ".groups[]", kind: "maxLength",
			accepted: when(`groups: [` + letters(253) + `]`), refused: when(`groups: [` + letters(254) + `]`),
			says: "may not be more than 253 bytes",
		},
	}
	all = append(all, headerCases(at+".header", func(text string) string { return when(`header: ` + text) })...)
	all = append(all, networkCases(at+".cidrs", func(list string) string { return when(`cidrs: ` + list) })...)
	return append(all, expressionCases(at+".expression", "true", func(text string) string { return when(`expression: ` + text) })...)
}

const whenSays = "exactly one of the fields in [header identifiers cidrs groups namespaceSelector expression] must be set"

func costCases() []schemaCase {
	const at = "spec.cost"
	cost := func(text string) string { return `spec: {limit: 1000000000, cost: {` + text + `}}` }
	all := []schemaCase{
		{
			at: at, kind: kindRule, accepted: cost(`value: 2`), refused: cost(`value: 2, header: x-cost`),
			says: costSays,
		},
		{at: at + ".value", kind: "minimum", accepted: cost(`value: 1`), refused: cost(`value: 0`), says: "should be greater than or equal to 1"},
		{
			at: at + ".value", kind: "maximum", accepted: cost(`value: 1000000000`),
			refused: `spec: {limit: 1, tiers: [{name: a, when: {groups: [a]}, unlimited: true}], cost: {value: 1000000001}}`,
			says:    "should be less than or equal to 1000000000",
		},
		{
			at: "spec", kind: kindRule, field: "spec.cost.value", accepted: `spec: {cost: {value: 10}}`, refused: `spec: {cost: {value: 11}}`,
			says: neverSays,
		},
		{
			at: at + ".header", kind: "maxLength", accepted: cost(`header: ` + letters(128)), refused: cost(`header: ` + letters(129)),
			says: "may not be more than 128 bytes",
		},
		{at: at + ".header", kind: kindRule, accepted: cost(`header: X-Cost`), refused: cost(`header: X Cost`), says: "a header" + tokenSays},
	}
	return append(all, expressionCases(at+".expression", "1", func(text string) string { return cost(`expression: ` + text) })...)
}

const (
	costSays  = "exactly one of the fields in [value header expression] must be set"
	neverSays = "every request costs more than the policy can ever admit, so every request would be denied; use a lower cost or a higher limit " +
		"(for TokenBucket and LeakyBucket: a higher burst)"
)

func descriptorCases() []schemaCase {
	const at = "spec.match.descriptors"
	descriptors := func(list string) string { return `spec: {match: {descriptors: [` + list + `]}}` }
	return []schemaCase{
		{at: at, kind: "minItems", accepted: descriptors(`{key: k}`), refused: descriptors(``), says: "should have at least 1 items"},
		{
			at: at, kind: "maxItems", accepted: descriptors(repeat(`{key: k}`, 16)), refused: descriptors(repeat(`{key: k}`, 17)),
			says: "Too many: 17: must have at most 16 items",
		},
		{at: at + "[].key", kind: "required", accepted: descriptors(`{key: k}`), refused: descriptors(`{value: v}`), says: "Required value"},
		{at: at + "[].key", kind: "minLength", accepted: descriptors(`{key: k}`), refused: descriptors(`{key: ""}`), says: "should be at least 1 chars long"},
		{
			at: at + "[].key", kind: "maxLength", accepted: descriptors(`{key: ` + letters(128) + `}`), refused: descriptors(`{key: ` + letters(129) + `}`),
			says: "may not be more than 128 bytes",
		},
		{at: at + "[].value", kind: "minLength", accepted: descriptors(`{key: k, value: v}`), refused: descriptors(`{key: k, value: ""}`), says: "should be at least 1 chars long"},
		{
			at: at + "[].value", kind: "maxLength",
			accepted: descriptors(`{key: k, value: ` + letters(512) + `}`), refused: descriptors(`{key: k, value: ` + letters(513) + `}`),
			says: "may not be more than 512 bytes",
		},
	}
}

// networkCases are those of a list of networks that stands at a place of the schema; with makes the change that puts it there.
func networkCases(at string, with func(string) string) []schemaCase {
	first := strings.ReplaceAll(at, "[]", "[0]")
	return []schemaCase{
		{at: at, kind: "minItems", accepted: with(`[10.0.0.0/8]`), refused: with(`[]`), says: "should have at least 1 items"},
		{
			at: at, kind: "maxItems", accepted: with(`[` + distinct("10.%d.0.0/16", 64) + `]`), refused: with(`[` + distinct("10.%d.0.0/16", 65) + `]`),
			says: "Too many: 65: must have at most 64 items",
		},
		{
			at: at, kind: kindSet, field: first + "[1]", accepted: with(`["10.0.0.0/8", "2001:db8::/32"]`), refused: with(`[10.0.0.0/8, 10.0.0.0/8]`),
			says: `Duplicate value: "10.0.0.0/8"`,
		},
		{
			at: at + "[]", kind: "maxLength",
			accepted: with(`["2001:0db8:0000:0000:0000:0000:203.100.113.107/128"]`),
			refused:  with(`["2001:0db8:0000:0000:0000:00000:203.100.113.107/128"]`),
			says:     "may not be more than 49 bytes",
		},
		{at: at + "[]", kind: kindRule, accepted: with(`["::/0"]`), refused: with(`["203.0.113.7"]`), says: cidrSays},
		{at: at + "[]", kind: kindRule, accepted: with(`[203.0.113.7/32]`), refused: with(`[203.0.113.7/24]`), says: bitsSays},
	}
}

const (
	cidrSays = "a CIDR must be an IPv4 or IPv6 network with a prefix length, such as 203.0.113.0/24 or 2001:db8::/32; for a single address use /32 or /128"
	bitsSays = "a CIDR must not have bits set after its prefix; clear them (203.0.113.0/24 instead of 203.0.113.7/24), or use /32 or /128 for a single address"
)

// expressionCases are those of an expression that stands at a place of the schema; text is one that compiles there.
func expressionCases(at, text string, with func(string) string) []schemaCase {
	quoted := func(size int) string { return `'` + text + strings.Repeat(" ", size-len(text)) + `'` }
	return []schemaCase{
		{at: at, kind: "minLength", accepted: with(quoted(len(text))), refused: with(`""`), says: "should be at least 1 chars long"},
		{at: at, kind: "maxLength", accepted: with(quoted(4096)), refused: with(quoted(4097)), says: "may not be more than 4096 bytes"},
	}
}

func tiersNamed(n int) string { return distinct("{name: t%d, limit: 1, when: {groups: [a]}}", n) }

// distinct is a list of n entries that differ by their number.
func distinct(format string, n int) string {
	entries := make([]string, n)
	for i := range entries {
		entries[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(entries, ", ")
}
