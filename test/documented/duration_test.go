package documented

import (
	"testing"
	"time"
)

func TestParse_ReadsNumbersAndWords(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10 s": 10 * time.Second, "750ms": 750 * time.Millisecond, "0.5 s": time.Second / 2, "ten minutes": 10 * time.Minute,
		"half a minute": 30 * time.Second, "one second": time.Second, "five seconds": 5 * time.Second,
	} {
		if got, err := parse(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "ten", "minutes", "some minutes", "ten moons", "half"} {
		if got, err := parse(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

func TestDuration_FindsASentenceAcrossLines(t *testing.T) {
	if got := Duration(t, "how-to/operate-a-limiter.md", `A stopping pod answers for (\w+ seconds) after SIGTERM`); got != 5*time.Second {
		t.Errorf("%v, want 5s", got)
	}
}
