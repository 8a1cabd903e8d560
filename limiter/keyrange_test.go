package limiter_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

func keys(t *testing.T) limiter.KeySpace {
	t.Helper()
	limit, err := limiter.NewLimit(limiter.FixedWindow, 10, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return limiter.NewKeySpace("weir:", "Tenant", "shop/daily", limit)
}

func TestKeySpaceParse_ReversesKey(t *testing.T) {
	k := keys(t)
	for _, identifier := range []string{"acme", "-", "?", "%", "a}:shop/daily:b", "ä b*", "192.0.2.1", "%41", "%sha256-x", strings.Repeat("x", 128)} {
		for _, endpoint := range []string{"", "/", "/v1:x", "*", "/ä"} {
			key := k.Key(identifier, endpoint)
			gotIdentifier, gotEndpoint, ok := k.Parse(key)
			if !ok || gotIdentifier != identifier || gotEndpoint != endpoint {
				t.Errorf("%s: %q %q %v, want %q %q", key, gotIdentifier, gotEndpoint, ok, identifier, endpoint)
			}
			if !k.All("").Contains(key) || !k.All(identifier[:1]).Contains(key) && identifier != "-" && identifier != "?" && identifier[0] < 0x80 {
				t.Errorf("the key space does not contain %s", key)
			}
			if identifier != "-" && identifier != "?" && (!k.Of(identifier).Contains(key) || k.Of(identifier+"x").Contains(key)) {
				t.Errorf("the range of %q is wrong for %s", identifier, key)
			}
		}
	}
}

func TestKeySpaceParse_NamesHashesAndSharedCounters(t *testing.T) {
	k := keys(t)
	for key, want := range map[string]string{
		k.Key("", ""): "-", k.UnreadableKey(""): "?", k.SharedKey(""): "%overflow", k.Literal("-"): "-", k.Literal("?"): "?", k.Literal("a"): "a", k.Literal("%overflow"): "%overflow",
	} {
		if got, _, ok := k.Parse(key); !ok || got != want {
			t.Errorf("%s: %q %v, want %q", key, got, ok, want)
		}
	}
	if k.Literal("%overflow") != k.SharedKey("") || !k.Of("%overflow").Contains(k.SharedKey("/a")) {
		t.Error("the shared counter cannot be selected")
	}
	if got, _, ok := k.Parse(k.Key(strings.Repeat("x", 200), "")); !ok || !strings.HasPrefix(got, "%sha256-") {
		t.Errorf("a long identifier: %q %v", got, ok)
	}
}

func TestKeySpaceParse_RejectsOtherKeys(t *testing.T) {
	k := keys(t)
	other, err := limiter.NewLimit(limiter.FixedWindow, 10, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		"", "weir:rules:a", strings.Replace(k.Key("acme", ""), "daily", "daily2", 1), k.Key("acme", "") + "x",
		limiter.NewKeySpace("weir:", "Tenant", "shop/daily", other).Key("acme", ""), limiter.NewKeySpace("weir:", "User", "shop/daily", other).Key("acme", ""),
	} {
		if identifier, endpoint, ok := k.Parse(key); ok {
			t.Errorf("%s is parsed as %q %q", key, identifier, endpoint)
		}
	}
}
