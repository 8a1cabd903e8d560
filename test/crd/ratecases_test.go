package crd

import "strings"

// rates returns the change that gives the minimal policy the rates in list, in place of its limit.
func rates(list string) string { return `spec: {limit: null, window: null, rates: [` + list + `]}` }

// tierRates returns the change that adds a tier with the rates in list.
func tierRates(list string) string { return tier(`when: {identifiers: [a]}, rates: [` + list + `]`) }

const ratesMessage = "a policy must have either limit and window, or rates; with rates, limit, window, algorithm and burst are in each rate"

// rateCases are the cases of a list of rates at a field.
func rateCases(at string, list func(string) string) []schemaCase {
	const five = `{limit: 1, window: 1s}, {limit: 1, window: 2s}, {limit: 1, window: 3s}, {limit: 1, window: 4s}, {limit: 1, window: 5s}`
	of, first := at+"[]", strings.ReplaceAll(at, "[]", "[0]")+"[0]"
	one := func(fields string) string { return list(`{` + fields + `}`) }
	return []schemaCase{
		{at: at, kind: "minItems", accepted: one(`limit: 1, window: 1s`), rejected: list(``), message: "should have at least 1 items"},
		{at: at, kind: "maxItems", accepted: list(five[:len(five)-len(`, {limit: 1, window: 5s}`)]), rejected: list(five), message: "must have at most 4 items"},
		{at: of + ".limit", kind: "required", accepted: one(`limit: 1, window: 1s`), rejected: one(`window: 1s`), message: "Required value"},
		{at: of + ".limit", kind: "minimum", accepted: one(`limit: 1, window: 1s`), rejected: one(`limit: 0, window: 1s`), message: "should be greater than or equal to 1"},
		{
			at: of + ".limit", kind: "maximum", accepted: one(`limit: 1000000000, window: 1s`), rejected: one(`limit: 1000000001, window: 1s`),
			message: "should be less than or equal to 1000000000",
		},
		{at: of + ".window", kind: "required", accepted: one(`limit: 1, window: 1s`), rejected: one(`limit: 1`), message: "Required value"},
		{
			at: of + ".window", kind: "maxLength", accepted: one(`limit: 1, window: 0001h00001m0001s`), rejected: one(`limit: 1, window: 00001h00001m0001s`),
			message: "may not be more than 16 bytes",
		},
		{
			at: of + ".window", kind: kindRule, accepted: one(`limit: 1, algorithm: FixedWindow, window: 8760h`),
			rejected: one(`limit: 1, algorithm: FixedWindow, window: 8760h1s`), message: windowMessage,
		},
		{at: of + ".algorithm", kind: "enum", accepted: one(`limit: 1, window: 1s, algorithm: FixedWindow`), rejected: one(`limit: 1, window: 1s, algorithm: GCRA`), message: `Unsupported value: "GCRA": supported values: "FixedWindow", "SlidingWindowLog", "SlidingWindowCounter", "TokenBucket", "LeakyBucket"`},
		{
			at: of + ".burst", kind: "minimum", accepted: one(`limit: 1, window: 1s, algorithm: LeakyBucket, burst: 0`),
			rejected: one(`limit: 1, window: 1s, algorithm: LeakyBucket, burst: -1`), message: "should be greater than or equal to 0",
		},
		{
			at: of + ".burst", kind: "maximum", accepted: one(`limit: 1000, window: 1s, algorithm: TokenBucket, burst: 1000000000`),
			rejected: one(`limit: 1000, window: 1s, algorithm: TokenBucket, burst: 1000000001`), message: "should be less than or equal to 1000000000",
		},
		{
			at: of, kind: kindRule, field: first + ".limit",
			accepted: one(`limit: 1000000, window: 1s, algorithm: SlidingWindowLog`), rejected: one(`limit: 1000001, window: 1s, algorithm: SlidingWindowLog`),
			message: "limit must be at most 1000000 with algorithm SlidingWindowLog, which stores every admitted unit; use SlidingWindowCounter for a higher limit",
		},
		{
			at: of, kind: kindRule, field: first + ".window",
			accepted: one(`limit: 1, window: 30d`), rejected: one(`limit: 1, window: 720h1s`),
			message: "window must be at most 720h (30d), unless algorithm is FixedWindow; use a shorter window or FixedWindow",
		},
		{
			at: of, kind: kindRule, field: first + ".burst",
			accepted: one(`limit: 1, window: 1s, algorithm: TokenBucket, burst: 1`), rejected: one(`limit: 1, window: 1s, algorithm: TokenBucket, burst: 0`),
			message: "burst is valid only with algorithm TokenBucket (capacity, at least 1) or LeakyBucket (queue length); remove burst or use one of these algorithms",
		},
		{
			at: of, kind: kindRule, field: first + ".burst",
			accepted: one(`limit: 1, window: 30d, algorithm: TokenBucket, burst: 121`), rejected: one(`limit: 1, window: 30d, algorithm: TokenBucket, burst: 122`),
			message: "burst takes longer than ten years to drain at this limit and window; use a lower burst",
		},
	}
}
