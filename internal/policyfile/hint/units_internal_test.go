package hint

import (
	"testing"

	"pgregory.net/rapid"
)

// What a hint proposes has the form of the Weir API, and no hint follows from it.
func TestParse_ReturnsTheFormOfTheAPI(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.StringMatching(`[0-9]{0,6}(\.[0-9]{1,3})? ?(ms|s|sec|m|min|minutes?|h|hours?|d|days?|w|weeks?|PT|%|percent)?( ?[0-9]{1,3} ?[a-z]{1,4})?`),
			rapid.String(),
		).Draw(t, "text")
		if canonical, ok := parseDuration(text); ok {
			if !apiDuration.MatchString(canonical) || canonical == "" {
				t.Errorf("%q becomes %q", text, canonical)
			}
			if again, ok := parseDuration(canonical); !ok || again != canonical {
				t.Errorf("%q becomes %q, which becomes %q, %t", text, canonical, again, ok)
			}
		}
		if canonical, ok := parsePercentage(text); ok && !apiPercentage.MatchString(canonical) {
			t.Errorf("%q becomes %q", text, canonical)
		}
		if limit, window, ok := parseRate(text); ok && (limit < 0 || !apiDuration.MatchString(window)) {
			t.Errorf("%q becomes %d per %q", text, limit, window)
		}
		parseInteger(text)
	})
}
