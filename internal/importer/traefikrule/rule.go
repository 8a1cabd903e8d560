// Package traefikrule converts the rules of Traefik's routers, such as Host(`a.example`) && PathPrefix(`/v1`), to conditions of policies.
package traefikrule

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// maxItems is how many hosts, paths and headers a match can have, and maxCIDRs how many networks.
const (
	maxItems = 16
	maxCIDRs = 64
)

// Convert returns the requests that match a rule, and in which way the match differs from the rule. Conditions that a match has no field for are in its
// expression. The error names the part of the rule that no policy expresses.
func Convert(rule string) (match *v1alpha1.HTTPMatch, differences []string, err error) {
	match = &v1alpha1.HTTPMatch{}
	text := strings.Join(strings.FieldsFunc(rule, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
	if strings.TrimSpace(text) == "" {
		return match, nil, nil
	}
	root, err := parser.ParseExpr(text) // the syntax is that of Go, with which Traefik reads it, too
	if err != nil {
		return nil, nil, fmt.Errorf("the rule %q is invalid: write matchers such as Host(`a.example`), with &&, || and ! between and before them", rule)
	}
	c := converter{match: match}
	for _, part := range flatten(root, token.LAND) {
		if err := c.conjunct(part); err != nil {
			return nil, nil, err
		}
	}
	if len(c.expressions) > 0 {
		match.Expression = new(v1alpha1.Expression(strings.Join(c.expressions, " && ")))
	}
	return match, c.differences, nil
}

// IsAll reports whether a match has no condition.
func IsAll(m *v1alpha1.HTTPMatch) bool {
	return len(m.Hosts)+len(m.Paths)+len(m.Methods)+len(m.Headers)+len(m.CIDRs)+len(m.ExceptCIDRs) == 0 && m.Expression == nil
}

// converter collects the conditions of a rule.
type converter struct {
	match       *v1alpha1.HTTPMatch
	expressions []string
	differences []string
}

func (c *converter) differs(format string, a ...any) {
	if text := fmt.Sprintf(format, a...); !slices.Contains(c.differences, text) {
		c.differences = append(c.differences, text)
	}
}

// flatten returns the operands of nested operators: of a && (b && c) with &&, a, b and c.
func flatten(e ast.Expr, operator token.Token) []ast.Expr {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return flatten(e.X, operator)
	case *ast.BinaryExpr:
		if e.Op == operator {
			return append(flatten(e.X, operator), flatten(e.Y, operator)...)
		}
	}
	return []ast.Expr{e}
}

// call is a matcher with its arguments.
type call struct {
	name string
	args []string
}

// callOf returns the matcher that an expression is.
func callOf(e ast.Expr) (c call, err error) {
	called, isCall := e.(*ast.CallExpr)
	if !isCall {
		return c, fmt.Errorf("%s is no matcher such as Host(`a.example`)", source(e))
	}
	name, isName := called.Fun.(*ast.Ident)
	if !isName {
		return c, errors.New("a matcher must have a name, such as Host")
	}
	c.name = name.Name
	for _, arg := range called.Args {
		literal, isLiteral := arg.(*ast.BasicLit)
		if !isLiteral || literal.Kind != token.STRING {
			return c, fmt.Errorf("the arguments of %s must be texts in backticks or quotes", c.name)
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			return c, fmt.Errorf("the arguments of %s: %w", c.name, err)
		}
		c.args = append(c.args, text)
	}
	return c, c.check()
}

// source returns what an expression is, for a message.
func source(e ast.Expr) string {
	if ident, is := e.(*ast.Ident); is {
		return ident.Name
	}
	return "a part of the rule"
}

// check returns an error for a matcher that no policy expresses.
func (c *call) check() error {
	least := map[string]int{
		"Host": 1, "HostRegexp": 1, "Path": 1, "PathPrefix": 1, "PathRegexp": 1, "Method": 1, "ClientIP": 1, "Query": 1,
		"Header": 2, "Headers": 2, "HeaderRegexp": 2, "HeadersRegexp": 2, "QueryRegexp": 2,
	}
	n, known := least[c.name]
	switch {
	case c.name == "HostSNI" || c.name == "HostSNIRegexp" || c.name == "ALPN":
		return fmt.Errorf("%s is about connections, and policies are about requests", c.name)
	case !known:
		return fmt.Errorf("the matcher %s is unknown", c.name)
	case len(c.args) < n:
		return fmt.Errorf("%s needs %d arguments, and has %d", c.name, n, len(c.args))
	case strings.HasPrefix(c.name, "Header") && len(c.args) > n, strings.HasPrefix(c.name, "QueryRegexp") && len(c.args) > n:
		return fmt.Errorf("%s has more than %d arguments", c.name, n)
	}
	isPattern := c.name == "HostRegexp" || c.name == "Path" || c.name == "PathPrefix"
	for _, arg := range c.args {
		if isPattern && templated(arg, c.name) {
			return fmt.Errorf("%s(`%s`) has a placeholder of Traefik 2: write a policy with a path of type RegularExpression, or a host", c.name, arg)
		}
	}
	return nil
}

// templated reports whether an argument has a placeholder such as {id} or {id:[0-9]+}. A regular expression can have a count in braces.
func templated(arg, name string) bool {
	_, rest, has := strings.Cut(arg, "{")
	if !has || name != "HostRegexp" {
		return has
	}
	return rest != "" && (rest[0] < '0' || rest[0] > '9')
}

// conjunct adds a condition that all requests meet.
func (c *converter) conjunct(e ast.Expr) error {
	if not, is := e.(*ast.UnaryExpr); is && not.Op == token.NOT {
		if c.negated(not.X) {
			return nil
		}
	}
	alternatives := flatten(e, token.LOR)
	calls := make([]call, 0, len(alternatives))
	for _, alternative := range alternatives {
		one, err := callOf(alternative)
		if err != nil {
			return c.expression(e) // it is nested, or has the error
		}
		calls = append(calls, one)
	}
	if c.list(calls) {
		return nil
	}
	return c.expression(e)
}

// negated adds a condition whose negation a match has a field for. It reports whether there is one.
func (c *converter) negated(e ast.Expr) bool {
	parts := flatten(e, token.LAND)
	one, err := callOf(parts[0])
	if err != nil || len(parts) > 1 {
		return false // it is nested, or the expression has the error
	}
	switch {
	case one.name == "ClientIP" && len(c.match.ExceptCIDRs) == 0:
		c.match.ExceptCIDRs = c.networks(one.args)
	case (one.name == "Header" || one.name == "Headers") && len(c.match.Headers) < maxItems:
		c.match.Headers = append(c.match.Headers, v1alpha1.HeaderMatch{
			Name: v1alpha1.HeaderName(one.args[0]), Type: v1alpha1.HeaderExact, Value: &one.args[1], Invert: true,
		})
	default:
		return false
	}
	return true
}

func (c *converter) networks(args []string) (networks []v1alpha1.CIDR) {
	c.differs("ClientIP is the address that identity.ip of the Limiter determines")
	for _, arg := range args {
		switch {
		case strings.Contains(arg, "/"):
		case strings.Contains(arg, ":"):
			arg += "/128"
		default:
			arg += "/32"
		}
		networks = append(networks, v1alpha1.CIDR(arg))
	}
	return networks
}

// list adds alternatives to the list of the match for their kind. It reports whether there is one, and it is empty.
func (c *converter) list(calls []call) bool {
	kind, args := calls[0].name, []string{}
	for _, one := range calls {
		if one.name != kind && (!isPath(one.name) || !isPath(kind)) {
			return false
		}
		args = append(args, one.args...)
	}
	m := c.match
	switch {
	case kind == "Host" && len(m.Hosts) == 0 && len(args) <= maxItems:
		for _, arg := range args {
			if host := v1alpha1.Host(strings.ToLower(arg)); !slices.Contains(m.Hosts, host) {
				m.Hosts = append(m.Hosts, host)
			}
		}
	case kind == "Method" && len(m.Methods) == 0:
		for _, arg := range args {
			if method := v1alpha1.Method(strings.ToUpper(arg)); !slices.Contains(m.Methods, method) {
				m.Methods = append(m.Methods, method)
			}
		}
		if slices.Contains(m.Methods, "GET") && !slices.Contains(m.Methods, "HEAD") {
			c.differs("the method GET of a policy includes HEAD")
		}
	case isPath(kind) && len(m.Paths) == 0 && len(args) <= maxItems:
		c.paths(calls)
	case kind == "ClientIP" && len(m.CIDRs) == 0 && len(args) <= maxCIDRs:
		m.CIDRs = c.networks(args)
	case (kind == "Header" || kind == "Headers") && len(calls) == 1 && len(m.Headers) < maxItems:
		m.Headers = append(m.Headers, v1alpha1.HeaderMatch{Name: v1alpha1.HeaderName(args[0]), Type: v1alpha1.HeaderExact, Value: &args[1]})
	default:
		return false
	}
	return true
}

func isPath(name string) bool { return name == "Path" || name == "PathPrefix" }

func (c *converter) paths(calls []call) {
	for _, one := range calls {
		for _, arg := range one.args {
			path := v1alpha1.PathMatch{Type: v1alpha1.PathExact, Value: arg}
			if one.name == "PathPrefix" {
				if arg == "/" || arg == "" { // every path
					c.match.Paths = nil
					return
				}
				c.differs("PathPrefix(`%s`) is a prefix of the text in Traefik, and of path segments in the policy: /a matches /a/b, and not /ab", arg)
				path = v1alpha1.PathMatch{Type: v1alpha1.PathPrefix, Value: strings.TrimSuffix(arg, "/")}
			}
			c.match.Paths = append(c.match.Paths, path)
		}
	}
}

// expression adds a condition as an expression.
func (c *converter) expression(e ast.Expr) error {
	text, err := celOf(e)
	if err == nil {
		c.expressions = append(c.expressions, text)
	}
	return err
}

// celOf returns the CEL expression of a part of a rule.
func celOf(e ast.Expr) (string, error) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return celOf(e.X)
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			text, err := celOf(e.X)
			return "!(" + text + ")", err
		}
	case *ast.BinaryExpr:
		if e.Op == token.LAND || e.Op == token.LOR {
			left, err := celOf(e.X)
			if err != nil {
				return "", err
			}
			right, err := celOf(e.Y)
			return "(" + left + " " + e.Op.String() + " " + right + ")", err
		}
		return "", fmt.Errorf("the operator %s is no part of a rule; write &&, || or ! in its place", e.Op)
	}
	one, err := callOf(e)
	if err != nil {
		return "", err
	}
	return one.cel()
}

// cel returns the CEL expression of a matcher. Several arguments are alternatives.
func (c *call) cel() (string, error) {
	var of func(arg string) string
	q := strconv.Quote
	switch c.name {
	case "Host":
		of = func(arg string) string { return "request.host == " + q(strings.ToLower(arg)) }
	case "HostRegexp":
		of = func(arg string) string { return "request.host.matches(" + q(arg) + ")" }
	case "Path":
		of = func(arg string) string { return "request.path == " + q(arg) }
	case "PathPrefix":
		of = func(arg string) string { return "request.path.startsWith(" + q(arg) + ")" }
	case "PathRegexp":
		of = func(arg string) string { return "request.path.matches(" + q(arg) + ")" }
	case "Method":
		of = func(arg string) string { return "request.method == " + q(strings.ToUpper(arg)) }
	case "Header", "Headers":
		return fmt.Sprintf("request.headers[?%q].optMap(v, v == %q).orValue(false)", strings.ToLower(c.args[0]), c.args[1]), nil
	case "HeaderRegexp", "HeadersRegexp":
		return fmt.Sprintf("request.headers[?%q].optMap(v, v.matches(%q)).orValue(false)", strings.ToLower(c.args[0]), c.args[1]), nil
	case "Query":
		return c.queryCEL(), nil
	case "QueryRegexp":
		return fmt.Sprintf("request.query[?%q].optMap(values, values.exists(v, v.matches(%q))).orValue(false)", c.args[0], c.args[1]), nil
	default:
		return "", fmt.Errorf("%s inside of || or ! cannot be expressed: write a policy with match.http.cidrs", c.name)
	}
	parts := make([]string, len(c.args))
	for i, arg := range c.args {
		parts[i] = of(arg)
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	return "(" + strings.Join(parts, " || ") + ")", nil
}

// queryCEL returns the expression of Query, with the name and the value as two arguments, or as one with an equals sign in Traefik 2.
func (c *call) queryCEL() string {
	name, value, hasValue := c.args[0], "", len(c.args) > 1
	if hasValue {
		value = c.args[1]
	} else if before, after, isPair := strings.Cut(name, "="); isPair {
		name, value, hasValue = before, after, true
	}
	if !hasValue {
		return fmt.Sprintf("%q in request.query", name)
	}
	return fmt.Sprintf("request.query[?%q].optMap(values, values.exists(v, v == %q)).orValue(false)", name, value)
}
