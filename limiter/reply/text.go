package reply

import (
	"fmt"
	"strconv"
)

// text builds the values of header fields in one buffer, to save allocations: every decision has some. Lists and strings are those
// of RFC 9651 (structured field values).
type text struct {
	bytes  []byte
	begin  int     // where the current value begins in bytes
	fields []Field // end sets their values
	ends   [maxFields]int
	n      int // values that are complete
}

func (t *text) raw(s string) { t.bytes = append(t.bytes, s...) }

func (t *text) number(n int64) { t.bytes = strconv.AppendInt(t.bytes, n, 10) }

// quoted writes a string, which must be printable ASCII.
func (t *text) quoted(s string) error {
	t.bytes = append(t.bytes, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c > '~':
			return fmt.Errorf("%q contains a character that is not printable ASCII", s)
		case c == '"' || c == '\\':
			t.bytes = append(t.bytes, '\\', c)
		default:
			t.bytes = append(t.bytes, c)
		}
	}
	t.bytes = append(t.bytes, '"')
	return nil
}

// item writes a member of a list: a string with two parameters.
func (t *text) item(name, first string, a int64, second string, b int64) error {
	if len(t.bytes) > t.begin {
		t.raw(", ")
	}
	if err := t.quoted(name); err != nil {
		return err
	}
	t.raw(first)
	t.number(a)
	t.raw(second)
	t.number(b)
	return nil
}

// field completes the current value: it is the value of the named field.
func (t *text) field(name, lower string) {
	t.fields = append(t.fields, Field{Name: name, Lower: lower})
	t.begin = len(t.bytes)
	t.ends[t.n] = t.begin
	t.n++
}

// fail drops the current value.
func (t *text) fail(name string, err error) error {
	t.bytes = t.bytes[:t.begin]
	return fmt.Errorf("write header %s: %w", name, err)
}

// end sets the values of the fields from index first on, and returns all fields.
func (t *text) end(first int) []Field {
	all, begin := string(t.bytes), 0
	for i := range t.n {
		t.fields[first+i].Value = all[begin:t.ends[i]]
		begin = t.ends[i]
	}
	return t.fields
}
