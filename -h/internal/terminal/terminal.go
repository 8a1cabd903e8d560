// Package terminal makes text safe for a person who reads it in a terminal, a review or a log.
//
// Texts from policies, requests, and answers of a compromised limiter can contain characters that control a terminal, or change the order in which
// it shows others. A [Writer] replaces them in everything that a program prints. [Line] replaces line breaks too, in one value of many.
package terminal

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Writer writes text with an escape sequence in place of each character that is not printable, but for line feed and tab: control characters of C0
// and C1, bidirectional and other invisible formats, unusual spaces, and bytes that are no UTF-8. The sequences are those of JSON: JSON text stays the
// same value. It is safe for concurrent use.
type Writer struct {
	out io.Writer

	lock sync.Mutex
	rest []byte // the beginning of a character, whose other bytes have not been written
}

// NewWriter returns a Writer to another one.
func NewWriter(out io.Writer) *Writer {
	if w, ok := out.(*Writer); ok {
		return w
	}
	return &Writer{out: out}
}

// Write implements io.Writer.
func (w *Writer) Write(text []byte) (int, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	n := len(text)
	if len(w.rest) > 0 {
		text = append(w.rest, text...)
		w.rest = nil
	}
	if end := incomplete(text); end < len(text) {
		w.rest, text = bytes.Clone(text[end:]), text[:end]
	}
	if err := w.write(text); err != nil {
		return 0, err
	}
	return n, nil
}

// Flush writes the beginning of a character that never ended.
func (w *Writer) Flush() {
	w.lock.Lock()
	defer w.lock.Unlock()
	rest := w.rest
	w.rest = nil
	_ = w.write(rest)
}

func (w *Writer) write(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	if isHarmless(text) {
		_, err := w.out.Write(text)
		return err
	}
	_, err := io.WriteString(w.out, escape(string(text), "\n\t"))
	return err
}

// Raw returns what w writes to, for a command that controls the terminal itself. Such a command writes only what [Escape] returns.
func Raw(w io.Writer) io.Writer {
	if w, ok := w.(*Writer); ok {
		return w.out
	}
	return w
}

// incomplete returns the index of an incomplete character at the end of text, or the length of text.
func incomplete(text []byte) int {
	for i := len(text) - 1; i >= 0 && i > len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}

// isHarmless reports whether text is printable ASCII with line feeds and tabs.
func isHarmless(text []byte) bool {
	for _, c := range text {
		if (c < ' ' && c != '\n' && c != '\t') || c >= utf8.RuneSelf-1 {
			return false
		}
	}
	return true
}

// Escape returns text as a [Writer] writes it.
func Escape(text string) string { return escape(text, "\n\t") }

// Line returns text in one line and one cell of a table: it replaces line feeds and tabs too.
func Line(text string) string { return escape(text, "") }

// Shorten returns text, or the part of it that fits into a number of bytes, with "…" at the end.
func Shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most - len("…")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end]) + "…"
}

// escape replaces all characters that are not printable and not in kept.
func escape(text, kept string) string {
	isKept := func(r rune) bool { return unicode.IsPrint(r) && r != utf8.RuneError || strings.ContainsRune(kept, r) }
	if strings.IndexFunc(text, func(r rune) bool { return !isKept(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
				fmt.Fprintf(&b, `\x%02x`, text[i])
				continue
			}
			b.WriteRune(r)
			continue
		}
		if isKept(r) {
			b.WriteRune(r)
			continue
		}
		b.WriteString(sequence(r))
	}
	return b.String()
}

// sequence returns the escape sequence of JSON for a character.
func sequence(r rune) string {
	switch r {
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune{r}) {
		fmt.Fprintf(&b, `\u%04x`, unit)
	}
	return b.String()
}

// Printf prints as [fmt.Fprintf]. Each value that is a text or prints as one is a [Line]: only the format has line feeds and tabs.
func Printf(w io.Writer, format string, values ...any) (int, error) {
	return fmt.Fprintf(w, format, lines(values)...)
}

// Println prints as [fmt.Fprintln], and values as [Printf] does.
func Println(w io.Writer, values ...any) (int, error) { return fmt.Fprintln(w, lines(values)...) }

func lines(values []any) []any {
	shown := make([]any, len(values))
	for i, value := range values {
		switch v := value.(type) {
		case error:
			shown[i] = Line(v.Error())
		case fmt.Stringer:
			shown[i] = Line(v.String())
		default:
			shown[i] = value
			if reflect.ValueOf(value).Kind() == reflect.String {
				shown[i] = Line(reflect.ValueOf(value).String())
			}
		}
	}
	return shown
}

// Row prints a row of a table to a tab writer: each cell is a [Line].
func Row(w io.Writer, cells ...string) {
	for i, cell := range cells {
		if i > 0 {
			_, _ = io.WriteString(w, "\t") // a tab writer keeps the error until Flush
		}
		_, _ = io.WriteString(w, Line(cell))
	}
	_, _ = io.WriteString(w, "\n")
}
