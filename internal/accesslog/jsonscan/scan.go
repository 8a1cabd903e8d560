package jsonscan

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/weir-dev/weir/internal/accesslog/logtext"
)

// Visitor receives the values at the keys of a tree.
type Visitor interface {
	// Visit receives a value as it is written in the JSON, and the key that it has in its object. id is that of the key in the tree.
	Visit(id int, key, raw string) error
}

// errNoJSON is about a line that is no JSON object.
func errNoJSON(text string, position int, want string) error {
	return fmt.Errorf("no JSON object: expected %s at column %d, found %s", want, position+1, logtext.Quote(text[min(position, len(text)):]))
}

// Scan visits the values of a line that is one JSON object, in the order of the line. A key that is written twice is visited twice. Scan validates only
// what it needs to find the values. The error is about the line, with the column, or that of the visitor.
func (t *Tree) Scan(text string, v Visitor) error {
	position := skipSpace(text, 0)
	if position == len(text) || text[position] != '{' {
		return errNoJSON(text, position, "{")
	}
	end, err := t.root.scanObject(text, position, v)
	if err != nil {
		return err
	}
	if end = skipSpace(text, end); end != len(text) {
		return errNoJSON(text, end, "the end of the line")
	}
	return nil
}

// scanObject visits the values of the object at position, and returns where it ends. It calls itself only as deep as the tree is.
func (n *node) scanObject(text string, position int, v Visitor) (end int, err error) {
	position = skipSpace(text, position+1)
	if position < len(text) && text[position] == '}' {
		return position + 1, nil
	}
	last := &n.first
	for {
		var next int
		m := last.next
		if m != nil && strings.HasPrefix(text[position:], m.quoted) {
			next = position + len(m.quoted)
		} else if m, next, err = n.memberAt(text, position); err != nil {
			return 0, err
		} else if m.isKept {
			last.next = m
		}
		if m.isKept {
			last = m
		}
		if position = skipSpace(text, next); position >= len(text) || text[position] != ':' {
			return 0, errNoJSON(text, position, ":")
		}
		if position, err = m.scan(text, skipSpace(text, position+1), v); err != nil {
			return 0, err
		}
		position = skipSpace(text, position)
		switch {
		case position < len(text) && text[position] == ',':
			position = skipSpace(text, position+1)
		case position < len(text) && text[position] == '}':
			return position + 1, nil
		default:
			return 0, errNoJSON(text, position, ", or }")
		}
	}
}

// memberAt returns the member whose key is at position, and where the key ends.
func (n *node) memberAt(text string, position int) (m *member, end int, err error) {
	if position >= len(text) || text[position] != '"' {
		return nil, 0, errNoJSON(text, position, "a key in quotes")
	}
	if end = stringEnd(text, position); end < 0 {
		return nil, 0, errNoJSON(text, position, "a key in quotes")
	}
	quoted := text[position:end]
	if m := n.members[quoted]; m != nil {
		return m, end, nil
	}
	key, err := Unquote(quoted)
	if err != nil {
		return nil, 0, err
	}
	return n.memberOf(quoted, key), end, nil
}

// scan visits the value of a member at position, and returns where it ends.
func (m *member) scan(text string, position int, v Visitor) (end int, err error) {
	if m.child != nil && position < len(text) && text[position] == '{' {
		end, err = m.child.scanObject(text, position, v)
	} else {
		end, err = valueEnd(text, position)
	}
	if err != nil {
		return 0, err
	}
	for _, id := range m.ids {
		if err := v.Visit(id, m.key, text[position:end]); err != nil {
			return 0, err
		}
	}
	return end, nil
}

func skipSpace(text string, position int) int {
	for position < len(text) && (text[position] == ' ' || text[position] == '\t' || text[position] == '\r' || text[position] == '\n') {
		position++
	}
	return position
}

// stringEnd returns where the string at position ends, after its closing quote, and -1 if the quote is missing.
func stringEnd(text string, position int) int {
	for from := position + 1; ; {
		index := strings.IndexByte(text[from:], '"')
		if index < 0 {
			return -1
		}
		if end := from + index; text[end-1] != '\\' || !endsEscaped(text[position+1:end]) {
			return end + 1
		}
		from += index + 1
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

// valueEnd returns where the value at position ends.
func valueEnd(text string, position int) (int, error) {
	if position >= len(text) {
		return 0, errNoJSON(text, position, "a value")
	}
	switch c := text[position]; {
	case c == '"':
		if end := stringEnd(text, position); end > 0 {
			return end, nil
		}
		return 0, errNoJSON(text, position, "a closing quote")
	case c == '{' || c == '[':
		return nestedEnd(text, position)
	case c == '-' || logtext.IsDigit(c):
		end := position + 1
		for end < len(text) && (logtext.IsDigit(text[end]) || text[end] == '.' || text[end] == '-' || text[end] == '+' || text[end]|0x20 == 'e') {
			end++
		}
		return end, nil
	default:
		for _, word := range [...]string{"true", "false", "null"} {
			if strings.HasPrefix(text[position:], word) {
				return position + len(word), nil
			}
		}
		return 0, errNoJSON(text, position, "a value")
	}
}

// nestedEnd returns where the object or list at position ends.
func nestedEnd(text string, position int) (int, error) {
	depth := 0
	for i := position; i < len(text); {
		switch text[i] {
		case '"':
			end := stringEnd(text, i)
			if end < 0 {
				return 0, errNoJSON(text, i, "a closing quote")
			}
			i = end
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1, nil
			}
		}
		i++
	}
	return 0, errNoJSON(text, len(text), "} or ]")
}

// Unquote returns the text of a string of JSON with its quotes.
func Unquote(raw string) (string, error) {
	inner := raw[1 : len(raw)-1]
	if strings.IndexByte(inner, '\\') < 0 {
		return inner, nil
	}
	var text string
	if err := json.Unmarshal([]byte(raw), &text); err != nil {
		return "", fmt.Errorf("no JSON object: %s is no string", logtext.Quote(raw))
	}
	return text, nil
}

// Text returns a value as text: a string without quotes, a number or a bool as it is written, of a list its first element, and "" for null and
// objects.
func Text(raw string) (string, error) {
	for raw != "" && raw[0] == '[' {
		first := skipSpace(raw, 1)
		if first >= len(raw) || raw[first] == ']' {
			return "", nil
		}
		end, err := valueEnd(raw, first)
		if err != nil {
			return "", err
		}
		raw = raw[first:end]
	}
	switch {
	case raw == "" || raw == "null" || raw[0] == '{':
		return "", nil
	case raw[0] == '"':
		return Unquote(raw)
	default:
		return raw, nil
	}
}

// Elements returns the elements of a list as they are written. A value that is no list has no elements.
func Elements(raw string) (elements []string, err error) {
	if raw == "" || raw[0] != '[' {
		return nil, nil
	}
	position := skipSpace(raw, 1)
	if position < len(raw) && raw[position] == ']' {
		return nil, nil
	}
	for {
		end, err := valueEnd(raw, position)
		if err != nil {
			return nil, err
		}
		elements = append(elements, raw[position:end])
		switch position = skipSpace(raw, end); {
		case position < len(raw) && raw[position] == ',':
			position = skipSpace(raw, position+1)
		case position < len(raw) && raw[position] == ']':
			return elements, nil
		default:
			return nil, errNoJSON(raw, position, ", or ]")
		}
	}
}
