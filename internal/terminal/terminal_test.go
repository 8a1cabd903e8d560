package terminal_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/internal/terminal"
)

func TestWriter_EscapesWhatIsNotPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"plain, 1 % …\tlist\n":        "plain, 1 % …\tlist\n",
		"Jürgen Ω 🙂":                  "Jürgen Ω 🙂",
		"\x1b[2J\x1b]0;title\a":       `\u001b[2J\u001b]0;title\u0007`,
		"a\rb\x00\x7f\v\f\b":          `a\rb\u0000\u007f\u000b\u000c\u0008`,
		"\u009b31m \u0085":            `\u009b31m \u0085`,
		"\x9b31m \xc3":                `\x9b31m \xc3`,
		"\u202egpj.exe\u2066\u200f":   `\u202egpj.exe\u2066\u200f`,
		"\u200b\ufeff\u00ad\u2028":    `\u200b\ufeff\u00ad\u2028`,
		"\u00a0\u3000":                `\u00a0\u3000`,
		"\U000e0041":                  `\udb40\udc41`,
		"\xed\xa0\x80":                `\xed\xa0\x80`, // a surrogate
		"\ufffd":                      "\ufffd",
		"":                            "",
		"\xff\xfe\xf0\x9f\x99\x82end": `\xff\xfe🙂end`,
	} {
		var out bytes.Buffer
		w := terminal.NewWriter(&out)
		n, err := w.Write([]byte(text))
		w.Flush()
		if out.String() != want || n != len(text) || err != nil {
			t.Errorf("%q: %q, %d, %v, want %q", text, out.String(), n, err, want)
		}
	}
	if terminal.Line("a\nb\tc\x1b") != `a\nb\tc\u001b` || terminal.Escape("a\nb\tc\x1b") != "a\nb\tc\\u001b" {
		t.Error("a line has line feeds, or text has none")
	}
}

// Writers in front of this one, such as a tab writer, write any pieces.
func TestWriter_WritesTheSameInPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		var out bytes.Buffer
		w := terminal.NewWriter(&out)
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			if written, err := w.Write([]byte(rest[:n])); written != n || err != nil {
				t.Fatal(written, err)
			}
			rest = rest[n:]
		}
		w.Flush()
		if out.String() != terminal.Escape(text) {
			t.Errorf("%q: in pieces %q, want %q", text, out.String(), terminal.Escape(text))
		}
		for _, r := range out.String() {
			if !unicode.IsPrint(r) && r != '\n' && r != '\t' {
				t.Errorf("%q: %q is not printable", text, r)
			}
		}
	})
}

func TestWriter_KeepsTheValueOfJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "value")
		var out bytes.Buffer
		w := terminal.NewWriter(&out)
		if err := json.NewEncoder(w).Encode(want); err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	})
}

func TestMarshalYAML_IsPrintableAndKeepsTheValue(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		"\u202eabc", "a\nb\u0085\nc", `\x01m0n202e\x01`, "\x01m0n202e\x01", "\u009b: #", "x01m0 x01m1 \u2066", "a line\nb\n\u200b", "\U000e0041", "\x1b[2J", "- \u2028", "\u00a0",
	}))
	rapid.Check(t, func(t *rapid.T) {
		want := map[string]any{"a": text.Draw(t, "text"), "b": []any{text.Draw(t, "item")}, text.Draw(t, "key"): "c"}
		out, err := terminal.MarshalYAML(want)
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsFunc(string(out), func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' }) {
			t.Errorf("%q is not printable", out)
		}
		var got map[string]any
		if err := yaml.Unmarshal(out, &got); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q from %q, %v, want %q", got, out, err, want)
		}
	})
}

func TestShorten_KeepsWholeCharacters(t *testing.T) {
	for _, test := range []struct {
		text string
		most int
		want string
	}{{"shop", 4, "shop"}, {"shops", 4, "s…"}, {"\u65e5\u672c\u65e5\u672c", 9, "\u65e5\u672c…"}, {"\u65e5\u672c\u65e5\u672c", 10, "\u65e5\u672c…"}, {"\u65e5\u672c\u65e5\u672c", 12, "\u65e5\u672c\u65e5\u672c"}, {"\u65e5\u672c", 4, "…"}} {
		if got := terminal.Shorten(test.text, test.most); got != test.want {
			t.Errorf("%s in %d bytes: %s, want %s", test.text, test.most, got, test.want)
		}
	}
}
