package importer

import (
	"fmt"
	"math"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weir-dev/weir/internal/terminal"
)

// maxNodes bounds the values of a document that are read, each as often as an importer reads it. A few aliases of aliases can stand for billions of
// values.
const maxNodes = 1_000_000

// document is one document of a file.
type document struct {
	file    string
	nodes   int  // that were read
	aliases bool // one was followed
	out     *Result
}

// Node is a value in a document. Its methods report what is invalid and return a zero value then.
type Node struct {
	*document

	yaml *yaml.Node
}

// Place returns the line of the value.
func (n Node) Place() Place { return Place{n.file, n.yaml.Line} }

// With returns the mappings in the value that have all keys: the value itself, or those inside of it.
func (n Node) With(keys ...string) (found []Node) {
	for _, part := range nested(n.yaml, func(part *yaml.Node) bool { return hasKeys(part, keys) }) {
		found = append(found, Node{n.document, part})
	}
	return found
}

// Has reports whether the value is a mapping with all keys.
func (n Node) Has(keys ...string) bool {
	return n.yaml.Kind == yaml.MappingNode && hasKeys(n.yaml, keys)
}

// IsList reports whether the value is a list.
func (n Node) IsList() bool { return n.yaml != nil && n.yaml.Kind == yaml.SequenceNode }

// Report reports a finding at the value.
func (n Node) Report(kind Kind, format string, a ...any) { n.out.Add(n.Place(), kind, format, a...) }

// Field is one field of a mapping.
type Field struct {
	Key   string
	Place Place // of the key
	Value Node
}

// IsNull reports whether the value is null or missing.
func (n Node) IsNull() bool {
	return n.yaml == nil || n.yaml.Kind == yaml.ScalarNode && n.yaml.ShortTag() == "!!null"
}

// Fields returns the fields of a mapping in their order. what names the mapping in messages. It reports duplicate fields, and all other
// values than a mapping or null.
func (n Node) Fields(what string) []Field {
	switch {
	case n.IsNull():
		return nil
	case n.yaml.Kind != yaml.MappingNode:
		n.Report(Invalid, "%s must be a mapping of fields, but is %s", what, kindOf(n.yaml))
		return nil
	}
	var fields []Field
	var merged []Node
	first := make(map[string]int, len(n.yaml.Content)/2) // the lines of keys
	for i := 0; i+1 < len(n.yaml.Content); i += 2 {
		key, value := n.child(n.yaml.Content[i]), n.child(n.yaml.Content[i+1])
		if key.yaml.Tag == "!!merge" {
			merged = append(merged, value)
			continue
		}
		field := Field{key.yaml.Value, key.Place(), value}
		if line, found := first[field.Key]; found {
			n.out.Add(field.Place, Invalid, "duplicate field %s of %s: it is already set in line %d; remove one of them", field.Key, what, line)
			continue
		}
		first[field.Key] = field.Place.Line
		fields = append(fields, field)
	}
	return n.withMerged(fields, merged, what)
}

// withMerged adds the fields of mappings that are merged with "<<", unless the mapping has them itself.
func (n Node) withMerged(fields []Field, merged []Node, what string) []Field {
	if len(merged) == 0 {
		return fields
	}
	set := make(map[string]bool, len(fields))
	for _, f := range fields {
		set[f.Key] = true
	}
	for _, m := range merged {
		parts := []Node{m}
		if m.yaml.Kind == yaml.SequenceNode {
			parts = m.Items(what)
		}
		for _, part := range parts {
			for _, field := range part.Fields(what) {
				if !set[field.Key] {
					set[field.Key] = true
					fields = append(fields, field)
				}
			}
		}
	}
	return fields
}

// Items returns the items of a list. what names an item in messages. It reports all other values than a list or null.
func (n Node) Items(what string) []Node {
	switch {
	case n.IsNull():
		return nil
	case n.yaml.Kind != yaml.SequenceNode:
		n.Report(Invalid, "expected a list of %s, but found %s", what, kindOf(n.yaml))
		return nil
	}
	var items []Node
	for _, item := range n.yaml.Content {
		items = append(items, n.child(item))
	}
	return items
}

// child returns a part of the document. It follows an alias.
func (n Node) child(part *yaml.Node) Node {
	if n.nodes++; n.nodes == maxNodes {
		remedy := "split the file"
		if n.aliases {
			remedy = "split the file, or write it without aliases"
		}
		n.Report(Invalid, "the document is too large: reading it takes more than %d steps; %s", maxNodes, remedy)
	}
	if n.nodes >= maxNodes {
		return Node{n.document, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: part.Line}}
	}
	if part.Kind == yaml.AliasNode {
		n.aliases = true
		return n.child(part.Alias)
	}
	return Node{n.document, part}
}

// Text returns the text of a scalar, for null "".
func (n Node) Text(what string) string {
	switch {
	case n.IsNull():
		return ""
	case n.yaml.Kind != yaml.ScalarNode:
		n.Report(Invalid, "%s must be a text, but is %s", what, kindOf(n.yaml))
		return ""
	}
	return n.yaml.Value
}

// Name returns the name of a Kubernetes object. Another text, such as a placeholder, is invalid.
func (n Node) Name(what string) string {
	name := n.Text(what)
	if name != "" && len(validation.IsDNS1123Subdomain(name)) > 0 {
		n.Report(Invalid, "%s is %s, which is not the name of an object; if it has a placeholder, fill it in first", what, n.quoted())
	}
	return name
}

// Bool returns a boolean, for null false.
func (n Node) Bool(what string) (value bool) {
	if !n.IsNull() && n.yaml.Decode(&value) != nil {
		n.Report(Invalid, "%s must be true or false, but is %s", what, n.quoted())
	}
	return value
}

// Int returns a whole number of at least 0, for null 0.
func (n Node) Int(what string) (value int64) {
	var number float64 // Decode cuts off a fraction
	if !n.IsNull() && (n.yaml.Decode(&value) != nil || value < 0 || n.yaml.Decode(&number) != nil || number != math.Trunc(number)) {
		n.Report(Invalid, "%s must be a whole number of at least 0, but is %s", what, n.quoted())
		return 0
	}
	return value
}

// Uint32 returns a whole number from 0 to 4294967295, for null 0. It cuts off a fraction, as the service does that reads the format.
func (n Node) Uint32(what string) (value uint32) {
	if !n.IsNull() && n.yaml.Decode(&value) != nil {
		n.Report(Invalid, "%s must be a whole number from 0 to 4294967295, but is %s", what, n.quoted())
	}
	return value
}

func (n Node) quoted() string {
	if n.yaml.Kind == yaml.ScalarNode {
		return fmt.Sprintf("%q", terminal.Shorten(n.yaml.Value, maxText))
	}
	return kindOf(n.yaml)
}

// Unknown reports a field that the format does not have.
func (n Node) Unknown(f Field, what string, fields ...string) {
	n.out.Add(f.Place, Invalid, "unknown field %s of %s; the fields are %s", f.Key, what, strings.Join(fields, ", "))
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default:
		return "a single value"
	}
}
