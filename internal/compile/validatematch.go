package compile

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"path"
	"regexp/syntax"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/rules"
)

// checkMatch refuses a match that says nothing: what it says may be for a later version, and must not become a match of
// everything.
func (c *checker) checkMatch(match *v1alpha1.Match) {
	if match == nil {
		return
	}
	given := 0
	for _, is := range []bool{match.HTTP != nil, len(match.Descriptors) > 0, match.Kubernetes != nil} {
		if is {
			given++
		}
	}
	if given != 1 {
		c.add("spec.match", "match must have exactly one of http, descriptors and kubernetes; omit match to limit every request of the domain")
	}
	if match.HTTP != nil {
		c.checkHTTPMatch("spec.match.http", match.HTTP)
	}
	if match.Kubernetes != nil {
		c.checkKubernetesMatch("spec.match.kubernetes", match.Kubernetes)
	}
	for i, entry := range match.Descriptors {
		c.checkDescriptor(fmt.Sprintf("spec.match.descriptors[%d]", i), entry)
	}
}

func (c *checker) checkDescriptor(field string, entry v1alpha1.DescriptorMatch) {
	c.checkNotEmpty(field+".key", string(entry.Key))
	if entry.Value != nil && *entry.Value == "" {
		c.add(field+".value", "must not be empty; omit value to match any value")
	}
}

func (c *checker) checkHTTPMatch(field string, match *v1alpha1.HTTPMatch) {
	if len(match.Hosts)+len(match.Paths)+len(match.Methods)+len(match.Headers)+len(match.CIDRs)+len(match.ExceptCIDRs) == 0 && match.Expression == nil {
		c.add(field, "http must not be empty: set hosts, paths, methods, headers, cidrs, exceptCIDRs or expression, or omit match to limit "+
			"every request of the domain")
	}
	for i, host := range match.Hosts {
		c.checkHost(fmt.Sprintf("%s.hosts[%d]", field, i), host)
	}
	for i, p := range match.Paths {
		c.checkPath(fmt.Sprintf("%s.paths[%d]", field, i), p)
	}
	for i, method := range match.Methods {
		c.checkMethod(fmt.Sprintf("%s.methods[%d]", field, i), method)
	}
	for i, header := range match.Headers {
		c.checkHeader(fmt.Sprintf("%s.headers[%d]", field, i), header)
	}
	c.checkCIDRs(field+".cidrs", match.CIDRs)
	c.checkCIDRs(field+".exceptCIDRs", match.ExceptCIDRs)
	if match.Expression != nil {
		c.checkExpression(field+".expression", *match.Expression, rules.ResultBool)
	}
}

func (c *checker) checkHost(field string, host v1alpha1.Host) {
	for label := range strings.SplitSeq(strings.TrimPrefix(string(host), "*."), ".") {
		if !isLabel(label) {
			c.add(field, "%q: a host must be a DNS name without scheme, port and trailing dot, such as api.shop.example or *.shop.example", host)
			return
		}
	}
}

// maxLabel is the longest part of a DNS name between two dots, in bytes.
const maxLabel = 63

func isLabel(label string) bool {
	for i := range len(label) {
		if !isAlphanumeric(label[i]) && label[i] != '-' {
			return false
		}
	}
	return label != "" && len(label) <= maxLabel && label[0] != '-' && label[len(label)-1] != '-'
}

func pathType(match v1alpha1.PathMatch) v1alpha1.PathMatchType {
	return cmp.Or(match.Type, v1alpha1.PathPrefix)
}

func (c *checker) checkPath(field string, match v1alpha1.PathMatch) {
	checkEnum(c, field+".type", match.Type, v1alpha1.PathExact, v1alpha1.PathPrefix, v1alpha1.PathRegularExpression)
	switch {
	case match.Value == "":
		c.add(field+".value", "must not be empty")
	case pathType(match) == v1alpha1.PathRegularExpression:
		c.checkRegularExpression(field+".value", match.Value)
	case match.Value[0] != '/' || strings.ContainsAny(match.Value, "?# \t\n\f\r"):
		c.add(field+".value", "%q: a path must begin with a slash and must not have a query, a fragment or spaces", match.Value)
	case !isNormal(match.Value):
		c.add(field+".value", "%q: a path must not have double slashes or dot segments, because Weir resolves them in the request before "+
			"the comparison", match.Value)
	case strings.ContainsAny(match.Value, "*{}"):
		c.add(field+".value", "%q: a path must not have wildcards (*) or templates ({id}); use type PathPrefix to match everything below a path, "+
			"or type RegularExpression", match.Value)
	}
}

// isNormal says whether a path that begins with a slash is free of double slashes and dot segments. Percent-escapes are
// fine: lowering decodes them as matching decodes those of a request.
func isNormal(value string) bool {
	clean := path.Clean(value)
	return value == clean || value == clean+"/" && clean != "/"
}

func (c *checker) checkMethod(field string, method v1alpha1.Method) {
	switch upper(method) {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions, http.MethodConnect, http.MethodTrace:
	default:
		c.add(field, "unknown method %q; use a standard HTTP method such as GET", method)
	}
}

func headerType(header v1alpha1.HeaderMatch) v1alpha1.HeaderMatchType {
	return cmp.Or(header.Type, v1alpha1.HeaderExact)
}

func (c *checker) checkHeader(field string, header v1alpha1.HeaderMatch) {
	c.checkHeaderName(field+".name", header.Name)
	checkEnum(c, field+".type", header.Type, v1alpha1.HeaderExact, v1alpha1.HeaderPresent, v1alpha1.HeaderRegularExpression)
	if (headerType(header) == v1alpha1.HeaderPresent) != (header.Value == nil) {
		c.add(field+".value", "value is required with type Exact or RegularExpression, and must not be set with type Present")
		return
	}
	if headerType(header) == v1alpha1.HeaderRegularExpression {
		c.checkRegularExpression(field+".value", *header.Value)
	}
}

func (c *checker) checkRegularExpression(field, expression string) {
	_, err := rules.CompileRegexp(expression)
	if wrong := (*syntax.Error)(nil); errors.As(err, &wrong) {
		c.add(field, "%q is not a valid RE2 expression: %s", expression, strings.TrimPrefix(wrong.Error(), "error parsing regexp: "))
		return
	}
	if err != nil {
		c.add(field, "%v", err)
	}
}
