package server

import (
	"encoding/json"
	"iter"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonText is a cursor over a JSON text that json.Valid has accepted, so it does not check the syntax. Unlike encoding/json, it
// compares names exactly, detects repeated names, and reports which value has the wrong type. The strings that it returns
// share the memory of the text.
type jsonText struct {
	text   string
	offset int
}

// peek returns the first byte of the next token.
func (t *jsonText) peek() byte {
	for {
		switch c := t.text[t.offset]; c {
		case ' ', '\t', '\r', '\n':
			t.offset++
		default:
			return c
		}
	}
}

// next skips a token of one byte.
func (t *jsonText) next() {
	t.peek()
	t.offset++
}

// members yields the names in an object. The body of the loop must read the value of the member or leave the loop.
func (t *jsonText) members() iter.Seq[string] {
	return func(yield func(string) bool) {
		t.next() // {
		for t.peek() != '}' {
			name := t.str()
			t.next() // :
			if !yield(name) {
				return
			}
			t.comma()
		}
		t.next() // }
	}
}

// elements yields the indexes of a list. The body of the loop must read the element or leave the loop.
func (t *jsonText) elements() iter.Seq[int] {
	return func(yield func(int) bool) {
		t.next() // [
		for i := 0; t.peek() != ']'; i++ {
			if !yield(i) {
				return
			}
			t.comma()
		}
		t.next() // ]
	}
}

func (t *jsonText) comma() {
	if t.peek() == ',' {
		t.offset++
	}
}

// str reads a string.
func (t *jsonText) str() string {
	t.next() // "
	start := t.offset
	for ; t.text[t.offset] != '"'; t.offset++ {
		if t.text[t.offset] == '\\' {
			return t.escaped(start)
		}
	}
	t.offset++
	return t.text[start : t.offset-1]
}

// escaped reads the rest of a string that began at from and contains an escape.
func (t *jsonText) escaped(start int) string {
	for ; t.text[t.offset] != '"'; t.offset++ {
		if t.text[t.offset] == '\\' {
			t.offset++
		}
	}
	t.offset++
	return unescape(t.text[start : t.offset-1])
}

// unescape returns the text of a string of a valid JSON text. Unlike encoding/json, it keeps bytes that are not valid UTF-8.
func unescape(s string) string {
	b := make([]byte, 0, len(s))
	for {
		backslash := strings.IndexByte(s, '\\')
		if backslash < 0 {
			return string(append(b, s...))
		}
		b = append(b, s[:backslash]...)
		c := s[backslash+1]
		s = s[backslash+2:]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		}
		if c != 'u' {
			b = append(b, c)
			continue
		}
		r := hexRune(s)
		s = s[4:]
		if utf16.IsSurrogate(r) {
			low := utf8.RuneError
			if strings.HasPrefix(s, `\u`) {
				low = hexRune(s[2:])
			}
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				s = s[6:]
			}
		}
		b = utf8.AppendRune(b, r)
	}
}

// hexRune reads the four digits of an escape.
func hexRune(s string) rune {
	n, _ := strconv.ParseUint(s[:4], 16, 16) // of a valid JSON text
	return rune(n)
}

// literal reads a number, true, false or null, and returns its text. The caller has called kind, which skips white space.
func (t *jsonText) literal() string {
	start := t.offset
	for t.offset < len(t.text) {
		switch t.text[t.offset] {
		case ',', '}', ']', ' ', '\t', '\r', '\n':
			return t.text[start:t.offset]
		}
		t.offset++
	}
	return t.text[start:]
}

// value reads a value of any type, as encoding/json does into an any. Numbers become a json.Number.
func (t *jsonText) value() any {
	switch t.kind() {
	case kindObject:
		object := make(map[string]any)
		for name := range t.members() {
			object[name] = t.value()
		}
		return object
	case kindList:
		list := make([]any, 0)
		for range t.elements() {
			list = append(list, t.value())
		}
		return list
	case kindString:
		return t.str()
	case kindBool:
		return t.literal() == "true"
	case kindNull:
		t.literal()
		return nil
	default:
		return json.Number(t.literal())
	}
}

// The types of a JSON value, as messages name them.
const (
	kindObject = "an object"
	kindList   = "a list"
	kindString = "a string"
	kindNumber = "a number"
	kindBool   = "true or false"
	kindNull   = "null"
)

// kind returns the type of the next value.
func (t *jsonText) kind() string {
	switch t.peek() {
	case '{':
		return kindObject
	case '[':
		return kindList
	case '"':
		return kindString
	case 't', 'f':
		return kindBool
	case 'n':
		return kindNull
	default:
		return kindNumber
	}
}
