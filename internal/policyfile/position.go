package policyfile

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// nearest returns the node of a field such as "spec.match.http.paths[0].value": the key in a mapping or the item in a list. If the field does
// not exist, it returns the nearest enclosing node.
func nearest(root *yaml.Node, field string) *yaml.Node {
	at, _ := descend(root, field)
	return at
}

// valueAt returns the node of the value of a field, or of the nearest enclosing field.
func valueAt(root *yaml.Node, field string) *yaml.Node {
	_, value := descend(root, field)
	return value
}

func descend(root *yaml.Node, field string) (at, value *yaml.Node) {
	at, value = root, root
	for _, step := range steps(field) {
		nextAt, nextValue := child(value, step)
		if nextAt == nil {
			break
		}
		at, value = nextAt, nextValue
	}
	return at, value
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
func child(node *yaml.Node, step string) (at, value *yaml.Node) {
	switch node.Kind {
	case yaml.AliasNode:
		return child(node.Alias, step)
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && 0 <= i && i < len(node.Content) {
			return node.Content[i], node.Content[i]
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i], node.Content[i+1]
			}
		}
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Tag == "!!merge" {
				return child(node.Content[i+1], step)
			}
		}
	}
	return nil, nil
}
