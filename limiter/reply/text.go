package reply

import (
	"fmt"
	"strconv"
	"strings"
)

// text builds the values of header fields in one allocation: every decision has some. Lists and strings are those of RFC 9651 (structured
// field values).
type text struct {
	built  strings.Builder
	begin  int     // where the current value begins
	fields []Field // end sets their values
	places [maxFields]struct{ begin, end int }
	n      int // values that are complete
}

// usualText is the length of the values of one or two policies.
const usualText = 128

func (t *text) raw(s string) { t.built.WriteString(s) }

func (t *text) number(n int64) {
	var room [20]byte
	t.built.Write(strconv.AppendInt(room[:0], n, 10))
}

// quoted writes a string, which must be printable ASCII.
func (t *text) quoted(s string) error {
	t.built.WriteByte('"')
	unwritten := 0 // of what is not written yet
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c > '~':
			return fmt.Errorf("%q contains a character that is not printable ASCII", s)
		case c == '"' || c == '\\':
			t.raw(s[unwritten:i])
			t.built.WriteByte('\\')
			unwritten = i
		}
	}
	t.raw(s[unwritten:])
	t.built.WriteByte('"')
	return nil
}

// item writes a member of a list: a string with two parameters.
func (t *text) item(name, first string, a int64) error {
	if t.built.Len() > t.begin {
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
	t.fields = append(t.fields, Field{Name: name, Lower: lower})
	end := t.built.Len()
	t.places[t.n].begin, t.places[t.n].end = t.begin, end
	t.begin = end
	t.n++
}

// fail drops the current value.
func (t *text) fail(name string, err error) error {
	t.begin = t.built.Len()
	return fmt.Errorf("write header %s: %w", name, err)
}

// end sets the values of the fields from index first on, and returns all fields.
func (t *text) end(first int) []Field {
	built := t.built.String()
	for i, place := range t.places[:t.n] {
		t.fields[first+i].Value = built[place.begin:place.end]
	}
	return t.fields
}
