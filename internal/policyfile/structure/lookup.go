package structure

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Field is what the structure of a kind has at a field.
type Field struct{ schema *schema }

// Kind returns the object of a kind of the Weir API. It reports false if there is no such kind.
func Kind(kind string) (object Field, exists bool) {
	spec := schemas()[kind]
	if spec == nil {
		return Field{}, false
	}
	return Field{&schema{Type: "object", Properties: map[string]*schema{
		"apiVersion": {Type: "string"}, "kind": {Type: "string"}, "metadata": metadataSchema(), "spec": spec,
	}}}, true
}

// Lookup returns the field at a path of names and indexes below an object, such as "spec", "match", "http", "paths", "0". It reports false if
// there is no such field.
func (f Field) Lookup(path ...string) (at Field, exists bool) {
	of := f.schema
	for _, step := range path {
		if of == nil {
			return Field{}, false
		}
		if _, err := strconv.Atoi(step); err == nil && of.Items != nil {
			of = of.Items
			continue
		}
		next := of.Properties[step]
		if next == nil {
			next = of.AdditionalProperties
		}
		of = next
	}
	return Field{of}, of != nil
}

// Validate reports what is invalid in the structure of a value, and removes fields that are null.
func (f Field) Validate(field string, value any, report func(field, message string)) {
	validator{report}.validate(field, value, f.schema)
}

// metadataSchema is the structure of metadata, for names and types.
func metadataSchema() *schema {
	s := unreadMetadata()
	s.Properties = maps.Clone(s.Properties)
	s.Properties["name"], s.Properties["namespace"] = &schema{Type: "string"}, &schema{Type: "string"}
	s.Properties["labels"] = &schema{Type: "object", AdditionalProperties: &schema{Type: "string"}}
	return s
}

// Type returns "object", "array", "string", "integer", "number", "boolean", or "" for any type.
func (f Field) Type() string {
	if f.schema.IntOrString {
		return ""
	}
	return f.schema.Type
}

// Unit returns what a string measures: "duration", "percentage" or "".
func (f Field) Unit() string { return f.schema.Unit }

// Enum returns the possible values of a string, nil if it has no list of them.
func (f Field) Enum() (values []string) {
	for _, encoded := range f.schema.Enum {
		var text string
		if json.Unmarshal(encoded, &text) == nil && text != "" {
			values = append(values, text)
		}
	}
	return values
}

// Names returns the names of the fields of an object, sorted.
func (f Field) Names() []string { return slices.Sorted(maps.Keys(f.schema.Properties)) }

// Required returns the names of the required fields of an object.
func (f Field) Required() []string { return f.schema.Required }

// Child returns a field of an object, or the items of a list with the name "0".
func (f Field) Child(name string) (child Field, exists bool) {
	if s := f.schema.Properties[name]; s != nil {
		return Field{s}, true
	}
	if name == "0" && f.schema.Items != nil {
		return Field{f.schema.Items}, true
	}
	return Field{}, false
}

// Paths returns the paths below the field that end with a name, sorted, such as "spec.match.http.methods" for "methods". Items of lists
// have the suffix "[]".
func (f Field) Paths(name string) (paths []string) {
	var walk func(path string, s *schema)
	walk = func(path string, s *schema) {
		for _, child := range slices.Sorted(maps.Keys(s.Properties)) {
			at := strings.TrimPrefix(path+"."+child, ".")
			if child == name {
				paths = append(paths, at)
			}
			walk(at, s.Properties[child])
		}
		if s.Items != nil {
			walk(path+"[]", s.Items)
		}
	}
	walk("", f.schema)
	return paths
}

// TypeOf returns the type of a decoded value, as [Field.Type] names it, or "null".
func TypeOf(value any) string { return typeOf(value) }

// Text returns a decoded value as JSON, shortened for messages.
func Text(value any) string { return text(value) }
