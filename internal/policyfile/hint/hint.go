// Package hint completes the message about an invalid field with what to write instead. Hints follow from the structure of the kind and the value: the
// type, the unit, the possible values and the names of the fields. They are the same for every field of a kind.
package hint

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/internal/policyfile/structure"
)

// Value is the value of a field in a document.
type Value struct {
	Decoded any    // as an API server reads it
	Raw     string // the text of a scalar in the document, "" for an object or a list
}

// typeError is the message of an API server about a value of another type. It has no value.
var typeError = regexp.MustCompile(`in body must be of type (\w+): "\w*"$`)

// formatError is a second message about a number that is not an integer. It has no field.
var formatError = regexp.MustCompile(`^Invalid value: "": Checked value must be of type `)

// IsAboutType reports whether a message of an API server is about the type of a value.
func IsAboutType(message string) bool {
	return typeError.MatchString(message) || strings.HasPrefix(message, "must be of type ")
}

// Repeats reports whether a message of an API server repeats one about the type of a field, without the field.
func Repeats(message string) bool { return formatError.MatchString(message) }

// Describe returns the type of a decoded value, and the value as JSON, shortened.
func Describe(value any) string { return structure.TypeOf(value) + " " + structure.Text(value) }

// Improve returns the message about the value of a field below an object, with the value and with a hint if there is one.
func Improve(object structure.Field, path []string, message string, v Value) string {
	f, exists := object.Lookup(path...)
	if !exists || len(path) == 0 {
		return message
	}
	if m := typeError.FindStringSubmatch(message); m != nil {
		name := m[1]
		if strings.HasPrefix(name, "int") { // the format of an integer, such as int64
			name = "integer"
		}
		message = fmt.Sprintf("must be of type %s, and is the %s", name, Describe(v.Decoded))
		if given := structure.TypeOf(v.Decoded); (given == "boolean" || given == "integer") && v.Raw != "" && v.Raw != structure.Text(v.Decoded) {
			message += ", as YAML reads " + v.Raw
		}
	}
	if v.Decoded == nil {
		return message
	}
	message = withValue(message, v)
	hint := hintOf(f, label(path), v)
	if _, hasWindow := object.Lookup(append(slices.Clone(path[:len(path)-1]), "window")...); path[len(path)-1] == "limit" && hasWindow {
		if limit, window, ok := parseRate(v.Decoded); ok {
			hint = fmt.Sprintf("write limit: %d and window: %s", limit, window)
		}
	}
	if text, isText := v.Decoded.(string); isText && hint == "" && isTemplate(text) {
		hint = "this is a template; check its output"
	}
	if hint == "" || strings.Contains(message, hint) {
		return message
	}
	return message + "; " + hint
}

// isTemplate reports whether a text has a placeholder of Helm, envsubst or Jinja.
func isTemplate(text string) bool {
	return strings.Contains(text, "{{") || strings.Contains(text, "${") || strings.Contains(text, "{%")
}

// withValue adds a scalar to a message of an API server that has no value: one of a rule of the object around it.
func withValue(message string, v Value) string {
	const prefix = "Invalid value: "
	reason, isInvalid := strings.CutPrefix(message, prefix)
	switch value := v.Decoded.(type) {
	case []any, map[string]any:
		return message
	case string:
		if strings.HasPrefix(reason, strconv.Quote(value)) {
			return message
		}
	}
	text := structure.Text(v.Decoded)
	if !isInvalid || strings.HasPrefix(reason, text) || strings.HasPrefix(reason, strings.TrimSuffix(text, `…`)) {
		return message
	}
	return prefix + text + ": " + reason
}

// Unknown returns a hint for an unknown field below an object: the name that is meant, where a field of this name is, or which fields there are.
func Unknown(object structure.Field, path []string) string {
	name := path[len(path)-1]
	parent, exists := object.Lookup(path[:len(path)-1]...)
	if !exists {
		return ""
	}
	if meant := Meant(name, parent.Names()); meant != "" {
		return "did you mean " + meant + "?"
	}
	if at := elsewhere(object, path); at != "" {
		return fmt.Sprintf("the field %s is at %s", name, at)
	}
	if names := parent.Names(); len(names) > 0 && len(names) <= maxListed {
		return "the fields are " + strings.Join(names, ", ")
	}
	return ""
}

// maxListed bounds the fields that a hint lists.
const maxListed = 24

// elsewhere returns the paths of the fields with the name of an unknown one, "" without one or if they are many.
func elsewhere(object structure.Field, path []string) string {
	prefix, within := "", object
	if spec, hasSpec := object.Lookup("spec"); hasSpec {
		if prefix, within = "spec.", spec; path[0] == "metadata" {
			return ""
		}
	}
	paths := slices.DeleteFunc(within.Paths(path[len(path)-1]), func(p string) bool { return strings.Contains(p, "[]") }) // those could be any item
	const most = 3
	if len(paths) == 0 || len(paths) > most {
		return ""
	}
	return prefix + strings.Join(paths, " or "+prefix)
}

// Misspelled returns a hint about a missing field of an object if another field has nearly its name, or "".
func Misspelled(content map[string]any, field string) string {
	for _, name := range slices.Sorted(maps.Keys(content)) {
		if Nearest(name, []string{field}) != "" {
			return fmt.Sprintf("; did you mean %s in place of %s?", field, name)
		}
	}
	return ""
}

// label returns the name of the field as its line in a document begins: "window: ", or "- " for an item of a list.
func label(path []string) string {
	last := path[len(path)-1]
	if _, err := strconv.Atoi(last); err == nil {
		return "- "
	}
	return last + ": "
}

// hintOf returns what to write in place of a value of a field, "" if that is unknown.
func hintOf(f structure.Field, label string, v Value) string {
	if f.Unit() == "duration" {
		if read := parseClock(scalar(v)); read != nil {
			return "write " + label + strings.Join(read, ", or "+label)
		}
	}
	if text, ok := written(f, v); ok {
		return "write " + label + text
	}
	text, isText := v.Decoded.(string)
	if meant := Meant(text, f.Enum()); isText && meant != "" {
		return "did you mean " + meant + "?"
	}
	switch given := structure.TypeOf(v.Decoded); {
	case f.Type() == given || f.Type() == "":
	case f.Type() == "array" && given == "object":
		if list, ok := named(f, v.Decoded); ok {
			return "write " + label + list
		}
		return "write a list: put a hyphen in front of each of its objects"
	case f.Type() == "object":
		if names := f.Names(); len(names) > 0 {
			return "write an object with " + alternatives(names)
		}
	case given == "array" || given == "object":
		return "write a single value"
	case f.Type() == "integer" && isNumber(v.Decoded):
		if n, _ := v.Decoded.(float64); math.Abs(n) > math.MaxInt64 {
			return "write a smaller number"
		}
		return "write a whole number"
	}
	return ""
}

// The forms of durations and percentages in the Weir API. The value of one of these forms is out of its bounds, and no other form of it is better.
var (
	apiDuration   = regexp.MustCompile(`^([0-9]+d|([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$`)
	apiPercentage = regexp.MustCompile(`^[0-9]+%$`)
)

// written returns the value that is probably meant, as YAML.
func written(f structure.Field, v Value) (text string, ok bool) {
	switch f.Unit() {
	case "duration":
		if d, isDuration := parseDuration(scalar(v)); isDuration && !apiDuration.MatchString(scalar(v)) {
			return d, true
		}
	case "percentage":
		if p, isPercentage := parsePercentage(scalar(v)); isPercentage && !apiPercentage.MatchString(scalar(v)) {
			return p, true
		}
	}
	given := structure.TypeOf(v.Decoded)
	if f.Type() == given || f.Type() == "" {
		return "", false
	}
	switch f.Type() {
	case "integer":
		n, isInteger := parseInteger(scalar(v))
		return strconv.FormatInt(n, 10), isInteger && given != "boolean"
	case "boolean":
		return parseBoolean(scalar(v))
	case "string":
		return writtenText(f, v)
	case "array":
		return writtenList(f, v)
	case "object":
		return writtenObject(f, v)
	default:
		return "", false
	}
}

// writtenText returns a text for a value of another type: a number or a boolean in quotes, or the only value of a list.
func writtenText(f structure.Field, v Value) (text string, ok bool) {
	switch value := v.Decoded.(type) {
	case []any:
		if len(value) != 1 {
			return "", false
		}
		if s, isText := value[0].(string); isText && isPossible(f, s) {
			return quote(s), true
		}
		return "", false
	case map[string]any:
		return "", false
	}
	switch raw := scalar(v); {
	case f.Unit() != "":
		return "", false
	case len(f.Enum()) > 0:
		meant := Nearest(raw, f.Enum())
		return quote(meant), meant != ""
	default:
		return strconv.Quote(raw), true
	}
}

// writtenList returns a list for a single value. Commas separate texts.
func writtenList(f structure.Field, v Value) (text string, ok bool) {
	item, hasItems := f.Child("0")
	if _, isObject := v.Decoded.(map[string]any); isObject || !hasItems {
		return "", false
	}
	parts := []string{scalar(v)}
	if s, isText := v.Decoded.(string); isText {
		parts = strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
	}
	for i, part := range parts {
		switch {
		case item.Type() == "object":
			if parts[i], ok = inObject(item, part); !ok {
				return "", false
			}
		case item.Type() == "integer" || item.Type() == "boolean":
		default:
			if meant := Nearest(part, item.Enum()); meant != "" {
				part = meant
			}
			if !isPossible(item, part) {
				return "", false
			}
			parts[i] = quote(part)
		}
	}
	return "[" + strings.Join(parts, ", ") + "]", len(parts) > 0
}

// writtenObject returns an object for a scalar.
func writtenObject(f structure.Field, v Value) (text string, ok bool) {
	switch v.Decoded.(type) {
	case []any, map[string]any:
		return "", false
	}
	return inObject(f, scalar(v))
}

// inObject returns the object whose main field has a value: the only one that is required, or the one with the name value or name.
func inObject(f structure.Field, value string) (text string, ok bool) {
	main := ""
	if required := f.Required(); len(required) == 1 {
		main = required[0]
	} else if len(required) == 0 {
		for _, name := range []string{"value", "name"} {
			if slices.Contains(f.Names(), name) {
				main = name
				break
			}
		}
	}
	child, exists := f.Child(main)
	if !exists {
		return "", false
	}
	switch child.Type() {
	case "integer":
		n, isInteger := parseInteger(value)
		value, ok = strconv.FormatInt(n, 10), isInteger
	case "string":
		value, ok = quote(value), true
	}
	return "{" + main + ": " + value + "}", ok
}

// named returns a list of objects in place of an object whose keys are their names: {x-a: b} is [{name: x-a, value: b}].
func named(f structure.Field, value any) (list string, ok bool) {
	item, hasItems := f.Child("0")
	object, _ := value.(map[string]any)
	const most = 3
	if !hasItems || len(object) == 0 || len(object) > most {
		return "", false
	}
	key := ""
	for _, name := range []string{"name", "key"} {
		if _, has := item.Child(name); has {
			key = name
			break
		}
	}
	if key == "" {
		return "", false
	}
	var items []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if slices.Contains(item.Names(), name) {
			return "", false // one object in place of a list of them
		}
		switch inner := object[name].(type) {
		case map[string]any:
			fields := []string{key + ": " + quote(name)}
			for _, field := range slices.Sorted(maps.Keys(inner)) {
				fields = append(fields, field+": "+structure.Text(inner[field]))
			}
			items = append(items, "{"+strings.Join(fields, ", ")+"}")
		case string:
			if _, has := item.Child("value"); !has {
				return "", false
			}
			items = append(items, fmt.Sprintf("{%s: %s, value: %s}", key, quote(name), quote(inner)))
		default:
			return "", false
		}
	}
	return "[" + strings.Join(items, ", ") + "]", true
}

// isPossible reports whether a text is one of the possible values of a field, or the field has no list of them.
func isPossible(f structure.Field, text string) bool {
	return len(f.Enum()) == 0 || slices.Contains(f.Enum(), text)
}

// scalar returns the text of a value as it is in the document, "" for an object or a list.
func scalar(v Value) string {
	switch value := v.Decoded.(type) {
	case string:
		return strings.TrimSpace(value)
	case []any, map[string]any:
		return ""
	default:
		if v.Raw != "" {
			return v.Raw
		}
		return fmt.Sprint(value)
	}
}

func isNumber(value any) bool {
	switch value.(type) {
	case int64, float64:
		return true
	default:
		return false
	}
}

// plain is a text that YAML reads as a text without quotes, also in a list in brackets.
var plain = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9/._-]*$`)

// quote returns a text as YAML.
func quote(text string) string {
	switch strings.ToLower(text) {
	case "true", "false", "yes", "no", "on", "off", "y", "n", "null":
		return strconv.Quote(text)
	}
	if plain.MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}

// maxNames bounds the names in a hint.
const maxNames = 8

func alternatives(names []string) string {
	if more := len(names) - maxNames; more > 0 {
		return strings.Join(names[:maxNames], ", ") + fmt.Sprintf(" or %d others", more)
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " or " + names[last]
	}
	return names[0]
}

var wholeNumber = regexp.MustCompile(`^[+]?(\d[\d_, ]*(?:\.\d+)?)\s*([kKmM]?)$`)

// parseInteger parses a whole number with separators or a suffix: "1,000", "10k", "1e3".
func parseInteger(text string) (n int64, ok bool) {
	m := wholeNumber.FindStringSubmatch(text)
	digits, factor := text, 1.0
	if m != nil {
		digits = strings.NewReplacer("_", "", ",", "", " ", "").Replace(m[1])
		factor = map[string]float64{"": 1, "k": 1e3, "m": 1e6}[strings.ToLower(m[2])]
	}
	f, err := strconv.ParseFloat(digits, 64)
	if f *= factor; err != nil || f != math.Trunc(f) || math.Abs(f) > 1e15 {
		return 0, false
	}
	return int64(f), true
}

// parseBoolean returns what a text means that is used for a boolean elsewhere.
func parseBoolean(text string) (written string, ok bool) {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "y", "1", "enabled":
		return "true", true
	case "false", "no", "off", "n", "0", "disabled":
		return "false", true
	default:
		return "", false
	}
}
