package structure

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Of returns the structure of the JSON of a Go type. Fields that have the tag required:"true" are required, the tag values:"A,B" lists the possible
// values of a string, and min:"1" is the least integer. A type with a method Structure() any has the structure of what that returns. One
// with [json.Unmarshaler] validates its own values; if it is a length of time, hints propose one.
func Of(t reflect.Type) Field { return Field{schemaOf(t)} }

func schemaOf(t reflect.Type) *schema {
	if t.Kind() == reflect.Pointer {
		return schemaOf(t.Elem())
	}
	if described, is := reflect.TypeAssert[interface{ Structure() any }](reflect.Zero(t)); is {
		return schemaOf(reflect.TypeOf(described.Structure()))
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return unmarshaled(t)
	}
	switch t.Kind() {
	case reflect.Struct:
		s := &schema{Type: "object", Properties: map[string]*schema{}}
		s.addFields(t)
		return s
	case reflect.Slice:
		return &schema{Type: "array", Items: schemaOf(t.Elem())}
	case reflect.Map:
		return &schema{Type: "object", AdditionalProperties: schemaOf(t.Elem())}
	case reflect.String:
		return &schema{Type: "string"}
	case reflect.Bool:
		return &schema{Type: "boolean"}
	case reflect.Float64:
		return &schema{Type: "number"}
	case reflect.Int, reflect.Int64:
		return &schema{Type: "integer"}
	case reflect.Uint64:
		return &schema{Type: "integer", Minimum: new(int64(0))}
	default:
		return &schema{}
	}
}

// addFields adds the fields of a struct, and those of structs in it without a name.
func (s *schema) addFields(t reflect.Type) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			s.addFields(f.Type)
		case name == "" || name == "-":
		default:
			of := schemaOf(f.Type)
			if values := f.Tag.Get("values"); values != "" {
				for value := range strings.SplitSeq(values, ",") {
					of.Enum = append(of.Enum, json.RawMessage(encode(value)))
				}
			}
			if least, err := strconv.ParseInt(f.Tag.Get("min"), 10, 64); err == nil {
				of.Minimum = &least
			}
			if f.Tag.Get("required") != "" {
				s.Required = append(s.Required, name)
			}
			s.Properties[name] = of
		}
	}
}

// unmarshaled returns the structure of a type that reads its own JSON.
func unmarshaled(t reflect.Type) *schema {
	switch t {
	case reflect.TypeFor[json.RawMessage]():
		return &schema{}
	case reflect.TypeFor[time.Time]():
		return &schema{Type: "string", form: isMoment}
	}
	s := &schema{check: func(value any) error {
		return json.Unmarshal([]byte(encode(value)), reflect.New(t).Interface())
	}}
	if t.ConvertibleTo(reflect.TypeFor[time.Duration]()) {
		s.Unit = "duration"
	}
	return s
}
