package rules

import (
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
)

// language is what expressions over requests of one kind are written in.
type language struct {
	// environment is what expressions are compiled in. It is never changed, and takes a third of a millisecond to make.
	environment func() (*cel.Env, error)
	objects     map[string]fields
	sizes       celSizes
	// fields says what there is, for messages.
	fields string
}

//nolint:gochecknoglobals // constants that cannot be written as such
var (
	httpLanguage = newLanguage(httpSizes(),
		objectType{requestName, requestName, fieldsOf(requestFields())},
		objectType{entryName, "an entry of a descriptor", fieldsOf(entryFields())})
	admissionLanguage = newLanguage(admissionSizes(),
		objectType{requestName, requestName, fieldsOf(admissionFields())},
		objectType{resourceName, "request.resource", fieldsOf(resourceFields())},
		objectType{kindName, "request.kind", fieldsOf(kindFields())},
		objectType{userInfoName, "request.userInfo", fieldsOf(userInfoFields())})
)

// languageOf is what the expressions of a rule are written in.
func languageOf(rule *Rule) *language {
	if rule.Match.Kubernetes != nil {
		return admissionLanguage
	}
	return httpLanguage
}

// objectType is a type of the language.
type objectType struct {
	name   string
	said   string // how messages speak of it
	fields fields
}

// newLanguage makes the language in which expressions speak of these objects.
func newLanguage(sizes celSizes, objects ...objectType) *language {
	l := &language{objects: map[string]fields{}, sizes: sizes}
	var said []string
	for _, o := range objects {
		l.objects[o.name] = o.fields
		said = append(said, o.said+" has "+strings.Join(o.fields.names, ", "))
	}
	l.fields = strings.Join(said, "; ")
	l.environment = sync.OnceValues(func() (*cel.Env, error) {
		return cel.NewEnv(
			cel.Variable(requestName, types.NewObjectType(requestName)),
			cel.ParserExpressionSizeLimit(maxExpression),
			cel.OptionalTypes(),
			ext.Strings(ext.StringsVersion(5)),
			ext.Sets(),
			ext.Math(),
			ext.Encoders(),
			ext.Network(),
			l.withObjects, // last: it goes before the types of the others
		)
	})
	return l
}

// withObjects is a cel.EnvOption that adds the types of the language to those of env.
func (l *language) withObjects(env *cel.Env) (*cel.Env, error) {
	words := typeProvider{env.CELTypeProvider(), l.objects}
	env, err := cel.CustomTypeProvider(words)(env)
	if err != nil {
		return nil, err
	}
	return cel.CustomTypeAdapter(adapter{env.CELTypeAdapter(), words})(env)
}
