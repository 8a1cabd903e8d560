package limiter_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
)

func hashKey(t testing.TB, text string) *limiter.HashKey {
	t.Helper()
	key, err := limiter.NewHashKey([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

const compactKeyText = "a key of at least thirty-two bytes"

// compactSum returns the hash of a compact counter, computed independently of the package: 64 bits of an HMAC with a derived key.
func compactSum(identifier, endpoint string) string {
	derive := hmac.New(sha256.New, []byte(compactKeyText))
	derive.Write([]byte("weir: hash key for compact counters"))
	mac := hmac.New(sha256.New, []byte(hex.EncodeToString(derive.Sum(nil))))
	mac.Write([]byte(identifier + "\x00" + endpoint))
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

func TestCompact_KeysHaveTheDocumentedForm(t *testing.T) {
	daily := mustLimit(t, limiter.SlidingWindowCounter, 100, 24*time.Hour)
	exact := limiter.NewKeySpace("weir:", "Tenant", "shop/tenant-daily", daily)
	keys := exact.Compact(hashKey(t, compactKeyText))
	for _, test := range []struct{ identifier, endpoint, hashed string }{
		{"acme", "", "acme"}, {"acme", "/v1/search", "acme"}, {"", "", "-"}, {"-", "", "%2D"}, {"a b", "", "a%20b"},
	} {
		sum := compactSum(test.hashed, test.endpoint)
		want := regexp.MustCompile(`^weir:throttle:tenant:\{` + sum[:4] + `\}:shop/tenant-daily:[a-z2-7]{8}:0#` + sum[4:] + `$`)
		got := keys.Key(test.identifier, test.endpoint)
		if !want.MatchString(got) {
			t.Errorf("%+v: got %s, want %s", test, got, want)
		}
		block, field, isCompact := limiter.CompactKey(got)
		if !isCompact || block+"#"+hex.EncodeToString(field[:]) != got {
			t.Errorf("%s: block %s, field %x, compact: %t", got, block, field, isCompact)
		}
	}
	if got, want := keys.Pattern(), exact.Pattern(); got != want {
		t.Errorf("pattern %s, want %s as of other counters", got, want)
	}
}

// Counters of another storage, window or algorithm are others.
func TestCompact_TailDependsOnStorageAlgorithmAndWindow(t *testing.T) {
	key := hashKey(t, compactKeyText)
	tails := map[string]string{}
	for name, limit := range map[string]limiter.Limit{
		"a minute":       mustLimit(t, limiter.SlidingWindowCounter, 100, time.Minute),
		"an hour":        mustLimit(t, limiter.SlidingWindowCounter, 100, time.Hour),
		"a fixed minute": mustLimit(t, limiter.FixedWindow, 100, time.Minute),
	} {
		block, _, _ := limiter.CompactKey(limiter.NewKeySpace("weir:", "IP", "a/b", limit).Compact(key).Key("x", ""))
		if other, found := tails[block]; found {
			t.Errorf("%s and %s have the same block %s", name, other, block)
		}
		tails[block] = name
	}
	limit := mustLimit(t, limiter.SlidingWindowCounter, 100, time.Minute)
	space := limiter.NewKeySpace("weir:", "IP", "a/b", limit)
	if a, b := space.Compact(key).Key("x", ""), space.Compact(hashKey(t, compactKeyText+"!")).Key("x", ""); a == b {
		t.Errorf("two hash keys have the same key %s", a)
	}
}

func TestCompactKey_AcceptsOnlyKeysOfCompactCounters(t *testing.T) {
	limit := mustLimit(t, limiter.FixedWindow, 10, time.Minute)
	exact := limiter.NewKeySpace("weir:", "Tenant", "a/b", limit)
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[#0-9a-f]{0,16}`))
	rapid.Check(t, func(t *rapid.T) {
		key := exact.Key(text.Draw(t, "identifier"), "/"+text.Draw(t, "endpoint"))
		if _, _, isCompact := limiter.CompactKey(key); isCompact {
			t.Errorf("%s is the key of a compact counter", key)
		}
	})
	for _, key := range []string{"", "#", "weir:#12345", "weir:#1234567890ag", "weir:123456789012"} {
		if _, _, isCompact := limiter.CompactKey(key); isCompact {
			t.Errorf("%q is the key of a compact counter", key)
		}
	}
}

func BenchmarkCompact_Key(b *testing.B) {
	limit := mustLimit(b, limiter.FixedWindow, 10, time.Minute)
	keys := limiter.NewKeySpace("weir:weir-system/default:", "Tenant", "shop/tenant-daily", limit)
	for name, keys := range map[string]limiter.KeySpace{"Exact": keys, "Compact": keys.Compact(hashKey(b, compactKeyText))} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if keys.Key("tenant-0000001", "") == "" {
					b.Fatal("no key")
				}
			}
		})
	}
}
