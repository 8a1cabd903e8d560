package logtext_test

import (
	"strings"
	"testing"

	"github.com/weir-dev/weir/internal/accesslog/logtext"
)

func TestQuote_ShortensToValidText(t *testing.T) {
	x := strings.Repeat("x", 59)
	for text, want := range map[string]string{
		"": `""`, "a\nb": `"a\nb"`, x + "y": `"` + x + `y"`, x + "yz": `"` + x + `y"…`, x + "é": `"` + x + `"…`,
	} {
		if got := logtext.Quote(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestIsDigit(t *testing.T) {
	for c := range 256 {
		if got, want := logtext.IsDigit(byte(c)), strings.ContainsRune("0123456789", rune(c)); got != want {
			t.Errorf("%q: %t", rune(c), got)
		}
	}
}
