package limiter_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
)

func mustLimit(t testing.TB, algorithm limiter.Algorithm, units int64, window time.Duration) limiter.Limit {
	t.Helper()
	limit, err := limiter.NewLimit(algorithm, units, window)
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

func TestKey_HasTheDocumentedForm(t *testing.T) {
	daily := mustLimit(t, limiter.SlidingWindowCounter, 100, 24*time.Hour)
	keys := limiter.NewKeySpace("weir:", "APIKey", "shop/tenant-daily", daily)
	long := strings.Repeat("x", 129)
	tests := map[string]struct{ identifier, endpoint, want string }{
		"a plain identifier":              {"acme", "", "weir:throttle:apikey:{acme}:shop/tenant-daily:yejgfcuk"},
		"1024 bytes, hashed when escaped": {strings.Repeat(" ", 1024), "", "weir:throttle:apikey:{%sha256-f609c6c6b54ce446b3b1b1a809041ab4d2c2334d04292b6682617c54f199bc40}:shop/tenant-daily:yejgfcuk"},
		"1025 bytes, hashed as they are":  {strings.Repeat(" ", 1025), "", "weir:throttle:apikey:{%sha256u-3eaf89906b89a114e87304d01863806529f19d1910ef904e585cc0c2a3f170b9}:shop/tenant-daily:yejgfcuk"},
		"an endpoint of its own":          {"acme", "/v1/search", "weir:throttle:apikey:{acme}:shop/tenant-daily:/v1/search:yejgfcuk"},
		"no identifier":                   {"", "", "weir:throttle:apikey:{-}:shop/tenant-daily:yejgfcuk"},
		"a question mark as identifier":   {"?", "", "weir:throttle:apikey:{%3F}:shop/tenant-daily:yejgfcuk"},
		"a dash as identifier":            {"-", "", "weir:throttle:apikey:{%2D}:shop/tenant-daily:yejgfcuk"},
		"special characters":              {"a}:{b c%\n", "", "weir:throttle:apikey:{a%7D%3A%7Bb%20c%25%0A}:shop/tenant-daily:yejgfcuk"},
		"an IPv6 network":                 {"2001:db8::/64", "", "weir:throttle:apikey:{2001%3Adb8%3A%3A/64}:shop/tenant-daily:yejgfcuk"},
		"the longest unhashed identifier": {long[:128], "", "weir:throttle:apikey:{" + long[:128] + "}:shop/tenant-daily:yejgfcuk"},
		"an identifier that is too long":  {long, "", "weir:throttle:apikey:{%sha256-0ec9eb33e74510bcdd1f2ea55206e82f21649c5c2becbf2b433eb475b34c01bd}:shop/tenant-daily:yejgfcuk"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := keys.Key(test.identifier, test.endpoint); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if got := keys.AppendKey([]byte("a "), test.identifier, test.endpoint); string(got) != "a "+test.want {
				t.Errorf("appended: %s\nwant a %s", got, test.want)
			}
		})
	}
	if got, want := keys.Pattern(), "weir:throttle:apikey:{*}:shop/tenant-daily:*"; got != want {
		t.Errorf("pattern %s, want %s", got, want)
	}
}

func TestNewKeySpace_TailDependsOnAlgorithmAndWindowOnly(t *testing.T) {
	key := func(algorithm limiter.Algorithm, units int64, window time.Duration) string {
		return limiter.NewKeySpace("weir:", "IP", "a/b", mustLimit(t, algorithm, units, window)).Key("x", "")
	}
	base := key(limiter.SlidingWindowLog, 10, time.Minute)
	if got := key(limiter.SlidingWindowLog, 20, time.Minute); got != base {
		t.Errorf("another limit changes the key: %s, %s", got, base)
	}
	if got := key(limiter.SlidingWindowLog, 10, time.Hour); got == base {
		t.Errorf("another window keeps the key: %s", got)
	}
	if got := key(limiter.SlidingWindowCounter, 10, time.Minute); got == base {
		t.Errorf("another algorithm keeps the key: %s", got)
	}
}

func TestKey_IsUniqueAndWellFormedForEveryIdentifier(t *testing.T) {
	keys := limiter.NewKeySpace("weir:", "Tenant", "a/b", mustLimit(t, limiter.SlidingWindowLog, 10, time.Minute))
	shape := regexp.MustCompile(`^weir:throttle:tenant:\{([!-9;-z|~]+)\}:a/b:[!-9;-z|~]+:[a-z2-7]{8}$`)
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[-{}:% a*]{0,4}`), rapid.StringMatching(`[{a]{40,50}`), rapid.StringN(100, 200, -1))
	rapid.Check(t, func(t *rapid.T) {
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		endpoint := "/" + text.Draw(t, "endpoint")
		m := shape.FindStringSubmatch(keys.Key(a, endpoint))
		if m == nil {
			t.Fatalf("malformed key %q", keys.Key(a, endpoint))
		}
		if (keys.Key(a, "") == keys.Key(b, "")) != (a == b) {
			t.Fatalf("%q and %q: %s, %s", a, b, keys.Key(a, ""), keys.Key(b, ""))
		}
		if a != "" && !strings.HasPrefix(m[1], "%sha256") {
			if back, err := url.PathUnescape(m[1]); err != nil || back != a {
				t.Fatalf("%q is unescaped as %q (%v)", a, back, err)
			}
		}
	})
}

// A client chooses the identifier: long ones with bytes that are escaped must not cost more than the hash of them.
func TestKey_CostsTheSameWhateverBytesALongIdentifierHas(t *testing.T) {
	keys := limiter.NewKeySpace("weir:", "Tenant", "a/b", mustLimit(t, limiter.SlidingWindowLog, 10, time.Minute))
	fastest := func(identifier string) time.Duration {
		least := time.Hour
		for range 20 {
			began := time.Now()
			keys.Key(identifier, "")
			least = min(least, time.Since(began))
		}
		return least
	}
	plain, special := fastest(strings.Repeat("x", 60_000)), fastest(strings.Repeat("{", 60_000))
	t.Logf("60 KB: %v of plain bytes, %v of special bytes", plain, special)
	if special > 3*plain {
		t.Errorf("60 KB of special bytes take %v, of plain ones %v", special, plain)
	}
	if bytes := testing.AllocsPerRun(10, func() { keys.Key(strings.Repeat("{", 60_000), "") }); bytes > 8 {
		t.Errorf("%v allocations", bytes)
	}
}
