package rules

import (
	"regexp"
	"slices"
	"strings"
)

// Credentials knows where requests carry credentials, which must not appear in the keys of counters, answers and logs. The zero value knows the
// names that Weir recognizes, see isCredentialName.
type Credentials struct {
	more string // names in lower case, each between zero bytes; a string, because identity tables are compared
}

// NewCredentials returns Credentials that know more names than the zero value: of headers, query parameters, claims and descriptor entries.
func NewCredentials(more ...string) Credentials {
	if len(more) == 0 {
		return Credentials{}
	}
	return Credentials{"\x00" + strings.ToLower(strings.Join(more, "\x00")) + "\x00"}
}

// Name reports whether a header, query parameter, claim or descriptor entry with this name can contain credentials. Case does not matter.
func (c Credentials) Name(name string) bool {
	return isCredentialName(name) || c.more != "" && strings.Contains(c.more, "\x00"+strings.ToLower(name)+"\x00")
}

// headerOfEnvoyGateway are the keys of entries in which Envoy Gateway sends the value of a header. They do not contain the name of the header.
var headerOfEnvoyGateway = regexp.MustCompile(`^rule-\d+-match-\d+$`)

// entry is [Credentials.Name] for the key of a descriptor entry.
func (c Credentials) entry(key string) bool {
	return c.Name(key) || headerOfEnvoyGateway.MatchString(key)
}

var nameInText = regexp.MustCompile(`\w[\w-]*`)

// InText reports whether an expression mentions the name of credentials anywhere, such as in a comparison with one.
func (c Credentials) InText(expression string) bool {
	return slices.ContainsFunc(nameInText.FindAllString(expression, -1), c.Name)
}

// In reports whether the identifier of a rule with this match can contain credentials. An expression is one that does, if it reads a place with
// credentials, or a place that is not known before the request.
func (c Credentials) In(id Identifier, match *Match) bool {
	switch id.From {
	case FromHeader, FromQuery, FromClaim:
		return c.Name(id.Name)
	case FromCookie: // the name does not show whether a cookie is a session
		return true
	case FromDescriptor:
		return c.entry(id.Name)
	case FromExpression:
		return c.inExpression(id.Name, match)
	default:
		return false
	}
}
