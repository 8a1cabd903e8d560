package pattern_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter/rules/pattern"
)

func TestLengths_AreThoseOfTheKeysThatAreLeft(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var keys []string
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 300), 1, 20).Draw(rt, "lengths") {
			keys = append(keys, strings.Repeat("x", n))
		}
		var l pattern.Lengths
		versions := []pattern.Lengths{l}
		for _, key := range keys {
			l = l.With(len(key))
			versions = append(versions, l)
		}
		for i, key := range slices.Backward(keys) {
			l = l.Without(len(key), slices.Values(keys[:i]))
			if !slices.Equal(l, versions[i]) {
				rt.Fatalf("without %d: %v, want %v", len(key), l, versions[i])
			}
			for n := range 400 {
				has := slices.ContainsFunc(keys[:i], func(key string) bool { return len(key) == n })
				if l.Has(n) != has || has && n > l.Longest() {
					rt.Errorf("length %d of %d keys: %t", n, i, !has)
				}
			}
		}
	})
}

func TestLengths_IgnoreKeysThatAreNotLookedUp(t *testing.T) {
	var l pattern.Lengths
	if l = l.With(1<<30).Without(1<<30, slices.Values([]string(nil))); len(l) > 0 {
		t.Errorf("%d words", len(l))
	}
}
