package reply

import (
	"strings"
	"testing"
)

func TestGRPCMessage_HasAtMost1KiBAsItIsSent(t *testing.T) {
	for _, c := range []struct{ given, want string }{
		{"", ""},
		{strings.Repeat("~", 1024), strings.Repeat("~", 1024)},
		{strings.Repeat("~", 1025), strings.Repeat("~", 1015) + "…"},
		{strings.Repeat("%", 341) + " ", strings.Repeat("%", 341) + " "},
		{strings.Repeat("%", 342), strings.Repeat("%", 338) + "…"},
		{strings.Repeat("\n", 342), strings.Repeat("\n", 338) + "…"},
		{strings.Repeat("é", 170) + "abcd", strings.Repeat("é", 170) + "abcd"},
		{strings.Repeat("é", 171), strings.Repeat("é", 169) + "…"},
		{strings.Repeat("\x7f", 342), strings.Repeat("\x7f", 338) + "…"},
		{strings.Repeat("\xff", 342), "…"},
	} {
		if got := GRPCMessage(c.given); got != c.want {
			t.Errorf("%q: %q, want %q", c.given, got, c.want)
		}
	}
}
