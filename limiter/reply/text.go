package reply

import (
	"fmt"
	"strconv"
)

// text builds the values of header fields in one allocation: every decision has some. Lists and strings are those of RFC 9651 (structured
// field values).
type text struct {
	short  [usualText]byte // the text if it fits, so that only its string is allocated
	length int
	long   []byte // otherwise
	begin  int    // where the current value begins
	fields [maxFields]struct {
		name, lower string
		begin, end  int // of the value
	}
	n int // fields that are complete
}

// usualText is the length of the values of a few policies, in bytes.
const usualText = 256

func (t *text) raw(s string) {
	if t.length+len(s) <= len(t.short) {
		copy(t.short[t.length:], s)
	} else {
		if t.long == nil {
			t.long = append(make([]byte, 0, 4*usualText), t.short[:t.length]...)
		}
		t.long = append(t.long[:t.length], s...)
	}
	t.length += len(s)
}

// String returns what is written.
func (t *text) String() string {
	if t.long != nil {
		return string(t.long)
	}
	return string(t.short[:t.length])
}

func (t *text) number(n int64) {
	var room [20]byte
	t.raw(string(strconv.AppendInt(room[:0], n, 10)))
}

// quoted writes a string, which must be printable ASCII.
func (t *text) quoted(s string) error {
	t.raw(`"`)
	unwritten := 0 // of what is not written yet
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c > '~':
			return fmt.Errorf("%q contains a character that is not printable ASCII", s)
		case c == '"' || c == '\\':
			t.raw(s[unwritten:i])
			t.raw(`\`)
			unwritten = i
		}
	}
	t.raw(s[unwritten:])
	t.raw(`"`)
	return nil
}

// item writes a member of a list: a string with two parameters.
func (t *text) item(name, first string, a int64) error {
	if t.length > t.begin {
		t.raw(", ")
	}
	if err := t.quoted(name); err != nil {
		return err
	}
	t.raw(first)
	t.number(a)
	return nil
}

// field completes the current value: it is the value of the named field.
func (t *text) field(name, lower string) {
	end := t.length
	f := &t.fields[t.n]
	f.name, f.lower, f.begin, f.end = name, lower, t.begin, end
	t.begin = end
	t.n++
}

// fail drops the current value.
func (t *text) fail(name string, err error) error {
	t.begin = t.length
	return fmt.Errorf("write header %s: %w", name, err)
}

// appendTo appends the fields that are complete to dst.
func (t *text) appendTo(dst []Field) []Field {
	built := t.String()
	for i := range t.fields[:t.n] {
		f := &t.fields[i]
		dst = append(dst, Field{Name: f.name, Lower: f.lower, Value: built[f.begin:f.end]})
	}
	return dst
}
