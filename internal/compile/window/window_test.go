package window_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/window"
)

func TestParse_AcceptsValidWindows(t *testing.T) {
	for text, want := range map[policyapi.Duration]time.Duration{
		"1s":         time.Second,
		"30s":        30 * time.Second,
		"1m":         time.Minute,
		"90m":        90 * time.Minute,
		"1h30m":      90 * time.Minute,
		"1h0m5s":     time.Hour + 5*time.Second,
		"0h1s":       time.Second,
		"24h":        24 * time.Hour,
		"1d":         24 * time.Hour,
		"30d":        720 * time.Hour,
		"720h":       720 * time.Hour,
		"719h59m60s": 720 * time.Hour,
		"99999s":     99999 * time.Second,
		"100d":       2400 * time.Hour,
		"365d":       8760 * time.Hour,
		"8760h":      8760 * time.Hour,
	} {
		got, err := window.Parse(text)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParse_RejectsInvalidWindows(t *testing.T) {
	const reason = " must be from 1s to 8760h, in whole hours, minutes and seconds (90s, 1h30m, 24h) or in days alone (1d to 365d)"
	for _, text := range []policyapi.Duration{
		"", "1", "s", "d", "1.5h", "-1s", "+1s", "500ms", "1m1h", "1s1s", "1d12h", "01d", "0d", "1w", " 1m", "1m ", "1M",
		"0s", "0h0m0s", "366d", "0365d", "8760h1s",
		"9999999h",                      // exceeds the range of time.Duration
		"123456s",                       // more digits than the API allows
		"99999999999999999999999999h1s", // exceeds the range of an integer
	} {
		got, err := window.Parse(text)
		if want := fmt.Sprintf("window %q", text) + reason; err == nil || err.Error() != want {
			t.Errorf("Parse(%q) = %v, %v; want error %s", text, got, err, want)
		}
	}
}

func TestParse_AcceptsEveryCanonicalDuration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := time.Duration(rapid.IntRange(1, 8760*3600).Draw(t, "seconds")) * time.Second
		got, err := window.Parse(policyapi.Duration(want.String()))
		if err != nil || got != want {
			t.Fatalf("Parse(%q) = %v, %v", want, got, err)
		}
	})
}
