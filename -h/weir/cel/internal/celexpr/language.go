package celexpr

import (
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"

	"github.com/weir-dev/weir/go/internal/limiter/rules/expr"
)

// language is the CEL environment for the expressions over one kind of requests.
type language struct {
	// environment returns the CEL environment. It is immutable. To create it takes a third of a millisecond.
	environment func() (*cel.Env, error)
	objects     map[string]fields
	sizes       requestSizes
	// bindings are the implementations of the functions of the environment.
	bindings func() (map[string]*functions.Overload, error)
	// fields describes the types and their fields, for error messages.
	fields string
}

// languages has the environment of each language.
var languages = map[expr.Language]*language{ //nolint:gochecknoglobals // immutable
	expr.HTTP: newLanguage(httpSizes(),
		objectType{requestName, requestName, fieldsOf(requestFields())},
		objectType{entryName, "an entry of a descriptor", fieldsOf(entryFields())}),
	expr.Admission: newLanguage(admissionSizes(),
		objectType{requestName, requestName, fieldsOf(admissionFields())},
		objectType{resourceName, "request.resource", fieldsOf(resourceFields())},
		objectType{kindName, "request.kind", fieldsOf(kindFields())},
		objectType{userInfoName, "request.userInfo", fieldsOf(userInfoFields())}),
}

// objectType is a type of a language.
type objectType struct {
	name   string
	label  string // the name in error messages
	fields fields
}

// newLanguage returns a language with the given types.
func newLanguage(sizes requestSizes, objects ...objectType) *language {
	l := &language{objects: map[string]fields{}, sizes: sizes}
	var described []string
	for _, o := range objects {
		l.objects[o.name] = o.fields
		described = append(described, o.label+" has "+strings.Join(o.fields.names, ", "))
	}
	l.fields = strings.Join(described, "; ")
	l.environment = sync.OnceValues(func() (*cel.Env, error) {
		return cel.NewEnv(
			cel.Variable(requestName, types.NewObjectType(requestName)),
			cel.ParserExpressionSizeLimit(expr.MaxExpression),
			cel.OptionalTypes(),
			ext.Strings(ext.StringsVersion(5)),
			ext.Sets(),
			ext.Math(),
			ext.Encoders(),
			ext.Network(),
			identity(useKey),
			identity(useRange),
			l.withObjects, // last, so that its types take precedence over the types of the extensions
		)
	})
	l.bindings = sync.OnceValues(func() (map[string]*functions.Overload, error) {
		env, err := l.environment()
		if err != nil {
			return nil, err
		}
		return bindingsOf(env)
	})
	return l
}

// identity declares a function that returns its argument.
func identity(name string) cel.EnvOption {
	typeParam := cel.TypeParamType("T")
	return cel.Function(name, cel.Overload(name, []*cel.Type{typeParam}, typeParam, cel.UnaryBinding(func(value ref.Val) ref.Val { return value })))
}

// withObjects is a cel.EnvOption that adds the types of the language to those of env.
func (l *language) withObjects(env *cel.Env) (*cel.Env, error) {
	provider := typeProvider{env.CELTypeProvider(), l.objects}
	env, err := cel.CustomTypeProvider(provider)(env)
	if err != nil {
		return nil, err
	}
	return cel.CustomTypeAdapter(adapter{env.CELTypeAdapter(), provider})(env)
}
