package limiter_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// FuzzKey passes identifiers and endpoints as clients may choose them. None changes the form of a key or exceeds its length, and two
// identifiers never have the same key.
func FuzzKey(f *testing.F) {
	for _, seed := range []string{
		"", "-", "acme", "{}", "}{", "a:b", "a%2Db", "%sha256-00", "\x00", "\n", "\xff\xfe", "\u65e5\u672c", "*", " ",
		strings.Repeat("x", 128), strings.Repeat("{", 1<<14),
	} {
		f.Add(seed, "", "acme")
		f.Add("acme", seed, seed)
	}
	limit, err := limiter.NewLimit(limiter.FixedWindow, 1, time.Minute)
	if err != nil {
		f.Fatal(err)
	}
	space := limiter.NewKeySpace("weir:", "User", "shop/login", limit)
	tail := space.Key("acme", "")[len("weir:throttle:user:{acme}:shop/login"):]
	f.Fuzz(func(t *testing.T, identifier, endpoint, other string) {
		key := space.Key(identifier, endpoint)
		tag, scope := parse(t, key, tail)
		if len(key) > 400 {
			t.Errorf("a key of %d bytes: %s", len(key), key)
		}
		if hasEndpoint := scope != "shop/login"; hasEndpoint != (endpoint != "") {
			t.Errorf("%q with endpoint %q is %s", identifier, endpoint, key)
		}
		if other != identifier && space.Key(other, endpoint) == key {
			t.Errorf("%q and %q share %s", identifier, other, key)
		}
		if got, err := url.PathUnescape(tag); err != nil && !strings.HasPrefix(tag, "%sha256") {
			t.Errorf("cannot unescape %s: %v", tag, err)
		} else if err == nil && got != identifier && identifier != "" {
			t.Errorf("%s is unescaped as %q, want %q", tag, got, identifier)
		}
		if again, _ := parse(t, space.Key(identifier, other), tail); again != tag {
			t.Errorf("another endpoint of %q has the hash tag %s, want %s", identifier, again, tag)
		}
	})
}

// parse returns the hash tag and the scope of a key of the form weir:throttle:user:{tag}:scope:tail.
func parse(t *testing.T, key, tail string) (tag, scope string) {
	t.Helper()
	rest, ok := strings.CutPrefix(key, "weir:throttle:user:{")
	tag, rest, found := strings.Cut(rest, "}:")
	scope, ended := strings.CutSuffix(rest, tail)
	if !ok || !found || !ended || tag == "" || strings.ContainsAny(tag+scope, "{} \x00\n*") || strings.Count(scope, ":") > 1 {
		t.Fatalf("malformed key %q", key)
	}
	return tag, scope
}
