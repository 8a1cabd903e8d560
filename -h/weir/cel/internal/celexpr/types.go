package celexpr

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/weir-dev/weir/go/internal/limiter/clientip"
	"github.com/weir-dev/weir/go/internal/limiter/rules"
)

// The names of the CEL types. They appear in error messages. Expressions cannot construct values of these types.
const (
	requestName = "request"
	entryName   = "entry"
)

// field is a field of a CEL object. It is read without reflection.
type field[T any] struct {
	name string
	kind *types.Type
	get  func(*T) any
	set  func(*T) bool
}

func requestFields() []field[rules.Request] {
	texts := types.NewMapType(types.StringType, types.StringType)
	return []field[rules.Request]{
		{"domain", types.StringType, func(r *rules.Request) any { return r.Domain }, func(r *rules.Request) bool { return r.Domain != "" }},
		{"method", types.StringType, func(r *rules.Request) any { return r.Method }, func(r *rules.Request) bool { return r.Method != "" }},
		{"host", types.StringType, func(r *rules.Request) any { return r.Host }, func(r *rules.Request) bool { return r.Host != "" }},
		{"path", types.StringType, func(r *rules.Request) any { return r.Path }, func(r *rules.Request) bool { return r.Path != "" }},
		{
			"query", types.NewMapType(types.StringType, types.NewListType(types.StringType)),
			func(r *rules.Request) any { return r.Query }, func(r *rules.Request) bool { return len(r.Query) > 0 },
		},
		{"headers", texts, func(r *rules.Request) any { return r.Headers }, func(r *rules.Request) bool { return len(r.Headers) > 0 }},
		{"clientIP", types.StringType, func(r *rules.Request) any { return clientIP(r) }, func(r *rules.Request) bool { return r.ClientIP.IsValid() }},
		{
			"claims", types.NewMapType(types.StringType, types.DynType),
			func(r *rules.Request) any { return r.Claims }, func(r *rules.Request) bool { return len(r.Claims) > 0 },
		},
		{
			"descriptors", types.NewListType(types.NewListType(types.NewObjectType(entryName))),
			func(r *rules.Request) any { return r.Descriptors }, func(r *rules.Request) bool { return len(r.Descriptors) > 0 },
		},
	}
}

func entryFields() []field[rules.Entry] {
	return []field[rules.Entry]{
		{"key", types.StringType, func(e *rules.Entry) any { return e.Key }, func(e *rules.Entry) bool { return e.Key != "" }},
		{"value", types.StringType, func(e *rules.Entry) any { return e.Value }, func(e *rules.Entry) bool { return e.Value != "" }},
	}
}

// clientIP returns the client address as text, as [clientip.Client], and an unknown address as "".
func clientIP(r *rules.Request) string {
	if !r.ClientIP.IsValid() {
		return ""
	}
	return clientip.Client(r.ClientIP).String()
}

// fields has the fields of one type by name, and their names in order.
type fields struct {
	names  []string
	byName map[string]*types.FieldType
}

func fieldsOf[T any](list []field[T]) fields {
	indexed := fields{byName: make(map[string]*types.FieldType, len(list))}
	for _, f := range list {
		indexed.names = append(indexed.names, f.name)
		indexed.byName[f.name] = &types.FieldType{
			Type: f.kind,
			GetFrom: func(object any) (any, error) {
				o, ok := object.(*T)
				if !ok {
					return nil, fmt.Errorf("no such field %q", f.name)
				}
				return f.get(o), nil
			},
			IsSet: func(object any) bool {
				o, ok := object.(*T)
				return ok && f.set(o)
			},
		}
	}
	return indexed
}

// typeProvider provides the types of CEL and of a language.
type typeProvider struct {
	types.Provider

	objects map[string]fields
}

// FindStructType implements types.Provider.
func (v typeProvider) FindStructType(name string) (*types.Type, bool) {
	if _, ours := v.objects[name]; ours {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return v.Provider.FindStructType(name)
}

// FindStructFieldType implements types.Provider.
func (v typeProvider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if object, ours := v.objects[name]; ours {
		f, found := object.byName[field]
		return f, found
	}
	return v.Provider.FindStructFieldType(name, field)
}

// adapter converts the values of a Request to CEL values.
type adapter struct {
	types.Adapter

	typeProvider typeProvider
}

// NativeToValue implements types.Adapter.
func (a adapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case *rules.Request:
		return &celObject{requestName, v, a}
	case *rules.Entry:
		return &celObject{entryName, v, a}
	case *admissionRequest:
		return &celObject{requestName, v, a}
	case *admissionResource:
		return &celObject{resourceName, v, a}
	case *admissionKind:
		return &celObject{kindName, v, a}
	case *admissionUser:
		return &celObject{userInfoName, v, a}
	case *lazyJSON:
		return v.value(a)
	case json.Number:
		return numeric(v)
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case []any:
		return types.NewDynamicList(a, v)
	case []rules.Descriptor, rules.Descriptor:
		return types.NewDynamicList(a, v) // converts an element when it is read
	case rules.Entry:
		return &celObject{entryName, &v, a}
	default:
		return a.Adapter.NativeToValue(value)
	}
}

// numeric converts a JSON number to an int if possible, and otherwise to a double.
func numeric(n json.Number) ref.Val {
	if i, err := n.Int64(); err == nil {
		return types.Int(i)
	}
	f, err := n.Float64()
	if err != nil && !strings.Contains(err.Error(), "range") {
		return types.NewErr("%q is not a number", string(n))
	}
	return types.Double(f)
}

// object is a *Request, an *Entry, a *admissionRequest or a part of it as a value of CEL.
type celObject struct {
	name    string
	native  any
	adapter adapter
}

var errNotConvertible = errors.New("not convertible")

// Get implements traits.Indexer, for dyn(request).path.
func (o *celObject) Get(index ref.Val) ref.Val {
	name, _ := index.Value().(string)
	field, found := o.adapter.typeProvider.objects[o.name].byName[name]
	if !found {
		return types.NewErr("no such field: %v", index.Value())
	}
	value, err := field.GetFrom(o.native)
	if err != nil {
		return types.WrapErr(err)
	}
	return o.adapter.NativeToValue(value)
}

// IsSet implements traits.FieldTester.
func (o *celObject) IsSet(index ref.Val) ref.Val {
	name, _ := index.Value().(string)
	field, found := o.adapter.typeProvider.objects[o.name].byName[name]
	return types.Bool(found && field.IsSet(o.native))
}

// ConvertToNative implements ref.Val.
func (o *celObject) ConvertToNative(reflect.Type) (any, error) { return nil, errNotConvertible }

// ConvertToType implements ref.Val.
func (o *celObject) ConvertToType(target ref.Type) ref.Val {
	if target == types.TypeType {
		return types.NewObjectType(o.name)
	}
	return types.NewErr("type conversion error from '%s' to '%s'", o.name, target.TypeName())
}

// Equal implements ref.Val. Entries are equal if their keys and values are equal. A request is equal only to itself.
func (o *celObject) Equal(other ref.Val) ref.Val {
	another, ok := other.(*celObject)
	if !ok {
		return types.False
	}
	a, ok := o.native.(*rules.Entry)
	b, alsoOK := another.native.(*rules.Entry)
	if ok && alsoOK {
		return types.Bool(*a == *b)
	}
	return types.Bool(o.native == another.native)
}

// Type implements ref.Val.
func (o *celObject) Type() ref.Type { return types.NewObjectType(o.name) }

// Value implements ref.Val.
func (o *celObject) Value() any { return o.native }
