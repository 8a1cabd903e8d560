package format

import (
	"fmt"
	"strings"

	"github.com/weir-dev/weir/internal/accesslog/logtext"
	"github.com/weir-dev/weir/internal/accesslog/logtime"
)

// layout is a compiled description of text lines: fields and the text between them.
type layout struct {
	prefix string // before the first field
	steps  []step
	// required is the number of steps that each line has. The others are absent together, with the text before them.
	required int
	escape   escape
	rest     bool // whether text may follow the last field
}

// step is one field of a layout.
type step struct {
	field field
	name  string // of a header or claim
	label string // in messages, as the format calls the field
	until string // the text after the field, "" for the rest of the line
	// quoted is true if the field is in double quotes, so that an escaped quote does not end it.
	quoted bool
}

// escape is how a format writes quotes inside of quotes.
type escape uint8

const (
	unescaped   escape = iota // not at all, as Envoy and Traefik
	backslashes               // as nginx and Apache
)

// expected is an error about a line that differs from its layout.
type expected struct {
	column        int
	literal, from string
	label         string
}

func (e *expected) Error() string {
	return fmt.Sprintf("expected %q after %s at column %d, found %s", e.literal, e.label, e.column, logtext.Quote(e.from))
}

// parse sets the values of a line.
func (l *layout) parse(line string, v *values, c *logtime.Clock) error {
	if !strings.HasPrefix(line, l.prefix) {
		return &expected{column: 1, literal: l.prefix, label: "the start of the line", from: line}
	}
	position := len(l.prefix)
	var skip error // the rest of the line is checked too: other formats begin in the same way
	for i := range l.steps {
		s := &l.steps[i]
		end, next := l.end(line, position, s)
		if end < 0 {
			if i+1 != l.required || l.required == len(l.steps) {
				return &expected{column: position + 1, literal: s.until, label: s.label, from: line[position:]}
			}
			end, next = len(line), len(line) // the line ends before what is optional
		}
		text := line[position:end]
		if err := l.set(s, text, v, c); err != nil {
			var isSkip bool
			if skip, isSkip = err.(SkipError); !isSkip { //nolint:errorlint // set returns it unwrapped
				return err
			}
		}
		if position = next; position == len(line) && i+1 >= l.required {
			return skip
		}
	}
	if !l.rest {
		return fmt.Errorf("expected the end of the line at column %d, found %s", position+1, logtext.Quote(line[position:]))
	}
	return skip
}

// set sets the value of one field.
func (l *layout) set(s *step, text string, v *values, c *logtime.Clock) error {
	if s.field == ignored {
		return nil
	}
	if l.escape == backslashes && s.quoted && strings.IndexByte(text, '\\') >= 0 {
		text = unescapeBackslashes(text)
	}
	err := v.set(s.field, s.name, text, c)
	if err == nil {
		return nil
	}
	if skip, ok := err.(SkipError); ok { //nolint:errorlint // set returns it unwrapped
		return skip
	}
	return fmt.Errorf("%s: %w", s.label, err)
}

// end returns where the field of a step ends, and where the next one begins. end is -1 if the text after the field is missing.
func (l *layout) end(line string, position int, s *step) (end, next int) {
	if s.until == "" {
		return len(line), len(line)
	}
	rest := line[position:]
	if !s.quoted || l.escape == unescaped {
		if len(s.until) == 1 {
			end = strings.IndexByte(rest, s.until[0])
		} else {
			end = strings.Index(rest, s.until)
		}
		if end < 0 {
			return -1, -1
		}
		return position + end, position + end + len(s.until)
	}
	for from := 0; ; {
		quoteAt := strings.IndexByte(rest[from:], '"')
		if quoteAt < 0 {
			return -1, -1
		}
		at := from + quoteAt
		from = at + 1
		if endsEscaped(rest[:at]) || !strings.HasPrefix(rest[at:], s.until) {
			continue
		}
		return position + at, position + at + len(s.until)
	}
}

// endsEscaped reports whether text ends with an odd number of backslashes.
func endsEscaped(text string) bool {
	odd := false
	for i := len(text) - 1; i >= 0 && text[i] == '\\'; i-- {
		odd = !odd
	}
	return odd
}

// unescapeBackslashes returns text without the escapes of nginx and Apache: \x22, \", \\, \n, \t and others. Unknown escapes remain.
func unescapeBackslashes(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		switch c := text[i]; c {
		case '"', '\\':
			b.WriteByte(c)
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		case 'x':
			if value, ok := hexByte(text[i+1:]); ok {
				b.WriteByte(value)
				i += 2
				continue
			}
			b.WriteString(`\x`)
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String()
}

// hexByte returns the byte of the two hexadecimal digits that text begins with.
func hexByte(text string) (value byte, ok bool) {
	if len(text) < 2 {
		return 0, false
	}
	for i := range 2 {
		c := text[i]
		switch {
		case logtext.IsDigit(c):
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		value = value<<4 | c
	}
	return value, true
}

// variable is what a variable of a layout means.
type variable struct {
	field field
	name  string
}

// compileLayout compiles the text of a layout. next cuts the first variable: it returns the text before it, its label, its meaning, and the rest.
func compileLayout(text string, next func(text string) (before, label string, v variable, rest string, err error)) (*layout, error) {
	l := &layout{}
	before, label, v, rest, err := next(text)
	if err != nil {
		return nil, err
	}
	if label == "" {
		return nil, fmt.Errorf("%s has no variable", logtext.Quote(text))
	}
	l.prefix = before
	for label != "" {
		following, nextLabel, nextVariable, nextRest, err := next(rest)
		if err != nil {
			return nil, err
		}
		if following == "" && nextLabel != "" {
			return nil, fmt.Errorf("%s and %s have no text between them, so that it is unknown where one ends", label, nextLabel)
		}
		previous := before
		l.steps = append(l.steps, step{
			field: v.field, name: v.name, label: label, until: following,
			quoted: strings.HasSuffix(previous, `"`) && strings.HasPrefix(following, `"`),
		})
		before, label, v, rest = following, nextLabel, nextVariable, nextRest
	}
	l.required = len(l.steps)
	return l, nil
}
