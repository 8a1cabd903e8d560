// Package credentials knows which identifiers can contain credentials, so that they are hashed.
package credentials

import (
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weir-dev/weir/limiter/rules"
)

// Names knows where requests carry credentials, which must not appear in the keys of counters, answers and logs. The zero value knows the
// names that Weir recognizes, see isCredentialName.
type Names struct {
	more string // names in lower case, each between zero bytes; a string, because identity tables are compared
}

// New returns Names that know more names than the zero value: of headers, query parameters, claims and descriptor entries.
func New(more ...string) Names {
	if len(more) == 0 {
		return Names{}
	}
	return Names{"\x00" + strings.ToLower(strings.Join(more, "\x00")) + "\x00"}
}

// Name reports whether a header, query parameter, claim or descriptor entry with this name can contain credentials. Case does not matter.
func (c Names) Name(name string) bool {
	return isCredentialName(name) || c.more != "" && strings.Contains(c.more, "\x00"+strings.ToLower(name)+"\x00")
}

// headerOfEnvoyGateway are the keys of entries in which Envoy Gateway sends the value of a header. They do not contain the name of the header.
var headerOfEnvoyGateway = regexp.MustCompile(`^rule-\d+-match-\d+$`)

// Entry is [Names.Name] for the key of a descriptor entry.
func (c Names) Entry(key string) bool {
	return c.Name(key) || headerOfEnvoyGateway.MatchString(key)
}

var nameInText = regexp.MustCompile(`\w[\w-]*`)

// InText reports whether an expression mentions the name of credentials anywhere, such as in a comparison with one.
func (c Names) InText(expression string) bool {
	return slices.ContainsFunc(nameInText.FindAllString(expression, -1), c.Name)
}

var inExpression atomic.Pointer[func(Names, string, *rules.Match) bool] //nolint:gochecknoglobals // set by the import of package celexpr

// RegisterExpressions sets what reports whether an expression reads credentials. Package celexpr calls it when a program imports it. Without it, each
// expression is one that does; such a program compiles none.
func RegisterExpressions(reads func(c Names, expression string, match *rules.Match) bool) {
	inExpression.Store(&reads)
}

// In reports whether the identifier of a rule with this match can contain credentials. An expression is one that does, if it reads a place with
// credentials, or a place that is not known before the request.
func (c Names) In(id rules.Identifier, match *rules.Match) bool {
	switch id.From {
	case rules.FromHeader, rules.FromQuery, rules.FromClaim:
		return c.Name(id.Name)
	case rules.FromCookie: // the name does not show whether a cookie is a session
		return true
	case rules.FromDescriptor:
		return c.Entry(id.Name)
	case rules.FromExpression:
		read := inExpression.Load()
		return read == nil || (*read)(c, id.Name, match)
	default:
		return false
	}
}
