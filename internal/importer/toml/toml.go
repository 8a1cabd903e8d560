// Package toml reads TOML as nodes of YAML, which have the lines of the document.
package toml

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
	"go.yaml.in/yaml/v3"
)

// SyntaxError is why a document is not TOML.
type SyntaxError struct {
	Line    int
	Message string
}

// Error implements error.
func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Message) }

// Parse returns a document as a mapping. The fields of a table are in the order in which the document has them. The error is a *[SyntaxError].
func Parse(content []byte) (*yaml.Node, error) {
	var document map[string]any
	if err := toml.Unmarshal(content, &document); err != nil {
		line := 1
		if decode, is := errors.AsType[*toml.DecodeError](err); is {
			line, _ = decode.Position()
		}
		return nil, &SyntaxError{line, strings.TrimPrefix(err.Error(), "toml: ")}
	}
	l := lines{at: map[string]int{}, items: map[string]int{}}
	l.read(content)
	return l.node("", document, 1), nil
}

// lines are where the values of a document are.
type lines struct {
	at    map[string]int // the line of the first mention of a path
	items map[string]int // the number of tables in an array of tables
}

// join adds a step to a path. The separator is in no key of a valid document.
func join(path, step string) string { return path + "\x00" + step }

func (l *lines) set(path string, line int) {
	if l.at[path] == 0 {
		l.at[path] = line
	}
}

// read finds the lines of a valid document.
func (l *lines) read(content []byte) {
	var p unstable.Parser
	p.Reset(content)
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table:
			table, _ = l.key(&p, "", e.Key(), false)
		case unstable.ArrayTable:
			table, _ = l.key(&p, "", e.Key(), true)
		case unstable.KeyValue:
			l.keyValue(&p, table, e)
		}
	}
}

// key returns the path of a key below another path, and its line. A table in an array of tables is in the last one, and isItem begins another one.
func (l *lines) key(p *unstable.Parser, path string, parts unstable.Iterator, isItem bool) (_ string, line int) {
	for parts.Next() {
		part := parts.Node()
		line = p.Shape(part.Raw).Start.Line
		path = join(path, string(part.Data))
		l.set(path, line)
		n := l.items[path]
		if isItem && parts.IsLast() {
			n++
			l.items[path] = n
		}
		if n > 0 {
			path = join(path, strconv.Itoa(n-1))
			l.set(path, line)
		}
	}
	return path, line
}

func (l *lines) keyValue(p *unstable.Parser, table string, e *unstable.Node) {
	path, line := l.key(p, table, e.Key(), false)
	l.value(p, path, line, e.Value())
}

// value finds the lines of the fields of inline tables. Other values are on the line of their key.
func (l *lines) value(p *unstable.Parser, path string, line int, value *unstable.Node) {
	l.set(path, line)
	switch value.Kind {
	case unstable.InlineTable:
		for fields := value.Children(); fields.Next(); {
			l.keyValue(p, path, fields.Node())
		}
	case unstable.Array:
		i := 0
		for items := value.Children(); items.Next(); {
			l.value(p, join(path, strconv.Itoa(i)), line, items.Node())
			i++
		}
	}
}

// node returns the node of a value.
func (l *lines) node(path string, value any, line int) *yaml.Node {
	line = cmp.Or(l.at[path], line)
	scalar := func(tag, text string) *yaml.Node {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text, Line: line}
	}
	switch value := value.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: line}
		keys := slices.SortedFunc(maps.Keys(value), func(a, b string) int {
			return cmp.Or(cmp.Compare(l.at[join(path, a)], l.at[join(path, b)]), strings.Compare(a, b))
		})
		for _, key := range keys {
			child := l.node(join(path, key), value[key], line)
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key, Line: cmp.Or(l.at[join(path, key)], line)}, child)
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: line}
		for i, item := range value {
			n.Content = append(n.Content, l.node(join(path, strconv.Itoa(i)), item, line))
		}
		return n
	case int64:
		return scalar("!!int", strconv.FormatInt(value, 10))
	case float64:
		return scalar("!!float", strconv.FormatFloat(value, 'g', -1, 64))
	case bool:
		return scalar("!!bool", strconv.FormatBool(value))
	default:
		return scalar("!!str", fmt.Sprint(value))
	}
}
