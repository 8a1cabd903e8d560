package structure

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const unknownField = "unknown field"

type validator struct {
	report func(field, message string)
}

func (v validator) reportf(field, format string, args ...any) {
	v.report(field, fmt.Sprintf(format, args...))
}

// validate reports what is invalid in a value, and removes fields that are null, which are absent for an API server.
func (v validator) validate(field string, value any, s *schema) {
	switch {
	case s.IntOrString:
		v.intOrString(field, value, s)
		return
	case s.check != nil:
		if err := s.check(value); err != nil {
			v.report(field, err.Error())
		}
		return
	case s.Type == "":
		return
	}
	if given := typeOf(value); given != s.Type && (s.Type != "integer" || !isInteger(value)) && (s.Type != "number" || given != "integer") {
		v.reportf(field, "must be of type %s, and is the %s %s", s.Type, given, text(value))
		return
	}
	switch value := value.(type) {
	case map[string]any:
		v.object(field, value, s)
	case []any:
		v.list(field, value, s)
	case string:
		v.string(field, value, s)
	default:
		v.number(field, value, s)
	}
}

func (v validator) object(field string, value map[string]any, s *schema) {
	for _, name := range slices.Sorted(maps.Keys(value)) {
		at := strings.TrimPrefix(field+"."+name, ".")
		of := s.Properties[name]
		if of == nil {
			of = s.AdditionalProperties
			v.form(field, name, s.keys)
		}
		switch {
		case of == nil:
			v.report(at, unknownField)
		case value[name] == nil:
			delete(value, name)
		default:
			v.validate(at, value[name], of)
		}
	}
	for _, name := range s.Required {
		if _, exists := value[name]; !exists {
			v.report(strings.TrimPrefix(field+"."+name, "."), "is required")
		}
	}
	v.size(field, len(value), s.MinProperties, s.MaxProperties, "entries")
}

func (v validator) list(field string, value []any, s *schema) {
	v.size(field, len(value), s.MinItems, s.MaxItems, "items")
	seen := map[string]bool{}
	for i, item := range value {
		at := fmt.Sprintf("%s[%d]", field, i)
		v.validate(at, item, s.Items)
		if key, unique := keyOf(item, s); unique {
			if whole := encode(key); seen[whole] {
				v.reportf(at, "the list must not have %s twice", text(key))
			} else {
				seen[whole] = true
			}
		}
	}
}

// keyOf returns what an item of a list must not share with another, and whether there is such a thing.
func keyOf(item any, s *schema) (key any, unique bool) {
	switch s.ListType {
	case "set":
		return item, true
	case "map":
		object, _ := item.(map[string]any)
		keys := map[string]any{}
		for _, name := range s.ListMapKeys {
			keys[name] = object[name]
		}
		return keys, true
	default:
		return nil, false
	}
}

func (v validator) string(field, value string, s *schema) {
	v.size(field, utf8.RuneCountInString(value), s.MinLength, s.MaxLength, "characters")
	v.enum(field, value, s)
	v.pattern(field, value, s)
	v.form(field, value, s.form)
}

func (v validator) intOrString(field string, value any, s *schema) {
	switch value := value.(type) {
	case string:
		v.string(field, value, s)
	default:
		if !isInteger(value) {
			v.reportf(field, "must be an integer or a string, and is the %s %s", typeOf(value), text(value))
		}
	}
}

// pattern compiles the pattern of a string where a value has one: few fields have a pattern.
func (v validator) pattern(field, value string, s *schema) {
	if s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(value) {
		v.reportf(field, "%s must match %s", text(value), s.Pattern)
	}
}

func (v validator) form(field, value string, form func(string) error) {
	if form == nil {
		return
	}
	if err := form(value); err != nil {
		v.reportf(field, "%s %s", text(value), err)
	}
}

func (v validator) enum(field string, value any, s *schema) {
	isValue := func(allowed json.RawMessage) bool { return string(allowed) == encode(value) }
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, isValue) {
		v.reportf(field, "must be %s, and is %s", alternatives(s.Enum), text(value))
	}
}

func (v validator) number(field string, value any, s *schema) {
	v.enum(field, value, s)
	n, isNumber := number(value)
	switch {
	case !isNumber:
	case s.Minimum != nil && n < float64(*s.Minimum):
		v.reportf(field, "must be at least %d, and is %s", *s.Minimum, text(value))
	case s.Maximum != nil && n > float64(*s.Maximum):
		v.reportf(field, "must be at most %d, and is %s", *s.Maximum, text(value))
	}
}

func (v validator) size(field string, size int, least, most *int, unit string) {
	switch {
	case least != nil && size < *least:
		v.reportf(field, "must have at least %d %s, and has %d", *least, unit, size)
	case most != nil && size > *most:
		v.reportf(field, "must have at most %d %s, and has %d", *most, unit, size)
	}
}

func typeOf(value any) string {
	switch value := value.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case nil:
		return "null"
	default:
		if isInteger(value) {
			return "integer"
		}
		return "number"
	}
}

// number returns a number as sigs.k8s.io/json decodes it.
func number(value any) (n float64, isNumber bool) {
	switch n := value.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	default:
		return 0, false
	}
}

// isInteger reports whether a number is one that fits into an int64.
func isInteger(value any) bool {
	switch n := value.(type) {
	case int64:
		return true
	case float64:
		return n == float64(int64(n))
	default:
		return false
	}
}

// maxText bounds a value in a message, in characters.
const maxText = 64

// text returns a value as it is in messages: its beginning if it is long. To compare values, use encode.
func text(value any) string {
	encoded := encode(value)
	if utf8.RuneCountInString(encoded) > maxText {
		return fmt.Sprintf("%.*s…", maxText, encoded)
	}
	return encoded
}

// encode returns a decoded value as JSON, with the keys of objects sorted.
func encode(value any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("encode %v: %v", value, err)) // it was decoded from JSON
	}
	return string(encoded)
}

// alternatives joins what a value can be.
func alternatives(list []json.RawMessage) string {
	texts := make([]string, len(list))
	for i := range list {
		texts[i] = strings.Trim(string(list[i]), `"`)
	}
	if last := len(texts) - 1; last > 0 {
		return strings.Join(texts[:last], ", ") + " or " + texts[last]
	}
	return texts[0]
}
