package policyfile

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fieldIndex finds fields of one document. It remembers where the keys of large mappings are: a document can have a problem in each of them.
type fieldIndex struct {
	keys map[*yaml.Node]map[string]int
}

// largeMapping is the number of keys from which on fieldIndex remembers them.
const largeMapping = 32

// find returns the index of a key in a mapping, or -1.
func (x *fieldIndex) find(node *yaml.Node, key string) int {
	if len(node.Content) < 2*largeMapping {
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == key {
				return i
			}
		}
		return -1
	}
	indexes, ok := x.keys[node]
	if !ok {
		indexes = make(map[string]int, len(node.Content)/2)
		for i := len(node.Content) - 2; i >= 0; i -= 2 {
			indexes[node.Content[i].Value] = i
		}
		if x.keys == nil {
			x.keys = map[*yaml.Node]map[string]int{}
		}
		x.keys[node] = indexes
	}
	if i, found := indexes[key]; found {
		return i
	}
	return -1
}

// nearest returns the node of a field such as "spec.match.http.paths[0].value": the key in a mapping or the item in a list. If the field does
// not exist, it returns the nearest enclosing node.
func (x *fieldIndex) nearest(root *yaml.Node, field string) *yaml.Node {
	node, _ := x.descend(root, field)
	return node
}

// valueAt returns the node of the value of a field, or of the nearest enclosing field.
func (x *fieldIndex) valueAt(root *yaml.Node, field string) *yaml.Node {
	_, value := x.descend(root, field)
	return value
}

func (x *fieldIndex) descend(root *yaml.Node, field string) (position, value *yaml.Node) {
	position, value = root, root
	for _, step := range steps(field) {
		nextAt, nextValue := x.child(value, step)
		if nextAt == nil {
			break
		}
		position, value = nextAt, nextValue
	}
	return position, value
}

// steps splits "spec.paths[0].value" into names and numbers. The text in brackets is one step, including its dots.
func steps(field string) []string {
	var out []string
	for field != "" {
		if inner, ok := strings.CutPrefix(field, "["); ok {
			step, rest, _ := strings.Cut(inner, "]")
			out, field = append(out, step), strings.TrimPrefix(rest, ".")
			continue
		}
		end := strings.IndexAny(field, ".[")
		if end < 0 {
			return append(out, field)
		}
		out, field = append(out, field[:end]), strings.TrimPrefix(field[end:], ".")
	}
	return out
}

// child returns the key and the value of step in node, or nil if there is no such step. It follows aliases and merged mappings.
func (x *fieldIndex) child(node *yaml.Node, step string) (position, value *yaml.Node) {
	switch node.Kind {
	case yaml.AliasNode:
		return x.child(node.Alias, step)
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && 0 <= i && i < len(node.Content) {
			return node.Content[i], node.Content[i]
		}
	case yaml.MappingNode:
		if i := x.find(node, step); i >= 0 {
			return node.Content[i], node.Content[i+1]
		}
		if i := x.find(node, "<<"); i >= 0 && node.Content[i].Tag == "!!merge" {
			return x.child(node.Content[i+1], step)
		}
	}
	return nil, nil
}
