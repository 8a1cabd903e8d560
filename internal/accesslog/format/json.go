package format

import (
	"encoding/json"
	"fmt"
	"strings"
)

// node is a set of keys of JSON objects that a format reads, as a tree.
type node struct {
	children map[string]*node
	leaves   []leaf
	prefixes []leaf // of keys that begin with leaf.prefix; the rest of the key is the name
}

// leaf is what a value at a key means.
type leaf struct {
	field  field
	name   string // of a header or claim
	label  string // the path, for messages
	prefix string
	rank   uint8 // keys with a lower one win; 0 for keys without others
	mapped int   // the index of an assignment of a Map, plus 1; 0 for keys of the format itself
}

// at returns the node of a path, which it creates.
func (n *node) at(path ...string) *node {
	for _, key := range path {
		if n.children == nil {
			n.children = map[string]*node{}
		}
		child := n.children[key]
		if child == nil {
			child = &node{}
			n.children[key] = child
		}
		n = child
	}
	return n
}

// add adds a leaf at a path.
func (n *node) add(l leaf, path ...string) {
	if l.label == "" {
		l.label = "." + strings.Join(path, ".")
	}
	to := n.at(path...)
	to.leaves = append(to.leaves, l)
}

// visitor receives the values at the leaves, as JSON, in the order of the line. A key that is written twice is visited twice.
type visitor interface {
	visit(l *leaf, key, raw string) error
}

// errNoJSON is about a line that is no JSON object.
func errNoJSON(text string, position int, want string) error {
	return fmt.Errorf("no JSON object: expected %s at column %d, found %s", want, position+1, quote(text[min(position, len(text)):]))
}

// scan visits the values of a line that is one JSON object. It validates only what it needs to find them.
func scan(text string, root *node, v visitor) error {
	position := skipSpace(text, 0)
	if position == len(text) || text[position] != '{' {
		return errNoJSON(text, position, "{")
	}
	end, err := scanObject(text, position, root, v)
	if err != nil {
		return err
	}
	if end = skipSpace(text, end); end != len(text) {
		return errNoJSON(text, end, "the end of the line")
	}
	return nil
}

// scanObject visits the values of the object at position, and returns where it ends. It calls itself only as deep as the tree is.
func scanObject(text string, position int, n *node, v visitor) (end int, err error) {
	position = skipSpace(text, position+1)
	if position < len(text) && text[position] == '}' {
		return position + 1, nil
	}
	for {
		if position >= len(text) || text[position] != '"' {
			return 0, errNoJSON(text, position, "a key in quotes")
		}
		if end = stringEnd(text, position); end < 0 {
			return 0, errNoJSON(text, position, "a key in quotes")
		}
		key, err := unquote(text[position:end])
		if err != nil {
			return 0, err
		}
		if position = skipSpace(text, end); position >= len(text) || text[position] != ':' {
			return 0, errNoJSON(text, position, ":")
		}
		if position, err = scanMember(text, skipSpace(text, position+1), n, key, v); err != nil {
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

// scanMember visits the value of a key.
func scanMember(text string, position int, n *node, key string, v visitor) (end int, err error) {
	child := n.children[key]
	if child != nil && len(child.children)+len(child.prefixes) > 0 && position < len(text) && text[position] == '{' {
		end, err = scanObject(text, position, child, v)
	} else {
		end, err = valueEnd(text, position)
	}
	if err != nil {
		return 0, err
	}
	raw := text[position:end]
	if child != nil {
		for i := range child.leaves {
			if err := v.visit(&child.leaves[i], key, raw); err != nil {
				return 0, err
			}
		}
		return end, nil
	}
	for i := range n.prefixes {
		if strings.HasPrefix(key, n.prefixes[i].prefix) {
			return end, v.visit(&n.prefixes[i], key, raw)
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
		if !endsEscaped(text[position+1 : from+index]) {
			return from + index + 1
		}
		from += index + 1
	}
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
	case c == '-' || isDigit(c):
		end := position + 1
		for end < len(text) && (isDigit(text[end]) || strings.IndexByte("+-.eE", text[end]) >= 0) {
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

// unquote returns the text of a string of JSON with its quotes.
func unquote(raw string) (string, error) {
	inner := raw[1 : len(raw)-1]
	if strings.IndexByte(inner, '\\') < 0 {
		return inner, nil
	}
	var text string
	if err := json.Unmarshal([]byte(raw), &text); err != nil {
		return "", fmt.Errorf("no JSON object: %s is no string", quote(raw))
	}
	return text, nil
}

// textOf returns a value as text: a string without quotes, a number or a bool as it is written, of a list its first element, and "" for null and
// objects.
func textOf(raw string) (string, error) {
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
		return unquote(raw)
	default:
		return raw, nil
	}
}
