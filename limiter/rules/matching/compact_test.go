package matching_test

import (
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

func compactRule(algorithm limiter.Algorithm) rules.Rule {
	r := ruleMatching(rules.Match{})
	r.Algorithm, r.Compact = algorithm, true
	return r
}

func TestNewIndex_CompactCountersRequireACountedWindowAndTheHashKey(t *testing.T) {
	id := testHashKey().ID()
	for _, test := range []struct {
		algorithm limiter.Algorithm
		keyID     string
		options   []matching.Option
		want      string // of the error; "" for no error
	}{
		{limiter.FixedWindow, id, []matching.Option{matching.WithHashKey(testHashKey())}, ""},
		{limiter.SlidingWindowCounter, id, []matching.Option{matching.WithHashKey(testHashKey())}, ""},
		{limiter.SlidingWindowLog, id, []matching.Option{matching.WithHashKey(testHashKey())}, "algorithm SlidingWindowLog must not have compact counters"},
		{limiter.TokenBucket, id, []matching.Option{matching.WithHashKey(testHashKey())}, "algorithm TokenBucket must not have compact counters"},
		{limiter.LeakyBucket, id, []matching.Option{matching.WithHashKey(testHashKey())}, "algorithm LeakyBucket must not have compact counters"},
		{limiter.FixedWindow, id, nil, "hashes identifiers, and there is no hash key"},
		{limiter.FixedWindow, "", []matching.Option{matching.WithHashKey(testHashKey())}, "both must be the same"},
	} {
		set := rules.Set{Rules: []rules.Rule{compactRule(test.algorithm)}, HashKey: test.keyID}
		_, err := matching.NewIndex(set, "sha256:test", "weir:", test.options...)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%+v: error %v, want %q", test, err, test.want)
		}
	}
}

// A limit that comes with a request has compact counters, too, if its algorithm has them.
func TestMatched_KeysOfACompactRuleAreCompact(t *testing.T) {
	x := index(t, compactRule(limiter.FixedWindow))
	m := x.Match(nil, request("GET - /"))
	if len(m) != 1 {
		t.Fatalf("%d rules match", len(m))
	}
	limit, err := limiter.NewLimit(limiter.FixedWindow, 7, limiter.MinWindow)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for name, key := range map[string]string{
		"an identifier": m[0].Key("acme"), "another one": m[0].Key("other"), "a missing one": m[0].Key(""), "an unreadable one": m[0].UnreadableKey(),
		"the shared counter": sharedKey(&m[0], limit, false), "another limit": m[0].KeyFor("acme", limit), "the shared counter of another limit": sharedKey(&m[0], limit, true),
	} {
		if _, _, isCompact := limiter.CompactKey(key); !isCompact || strings.Contains(key, "acme") {
			t.Errorf("%s: %s, want the key of a compact counter", name, key)
		}
		if other, found := seen[key]; found {
			t.Errorf("%s and %s share the counter %s", name, other, key)
		}
		seen[key] = name
	}
	bucket, err := limiter.NewLimit(limiter.TokenBucket, 7, limiter.MinWindow)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, isCompact := limiter.CompactKey(m[0].KeyFor("acme", bucket)); isCompact {
		t.Error("a TokenBucket has a compact counter")
	}
}
