package lowering

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"path"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/limiter/rules/expr"
	"github.com/weir-dev/weir/limiter/rules/pattern"
)

// validateMatch rejects an empty match. It may have fields of a later version, and must not match every request.
func (v *validator) validateMatch(match *policyapi.Match) {
	if match == nil {
		return
	}
	given := 0
	for _, isSet := range []bool{match.HTTP != nil, len(match.Descriptors) > 0, match.Kubernetes != nil} {
		if isSet {
			given++
		}
	}
	if given != 1 {
		v.report("spec.match", "match must have exactly one of http, descriptors and kubernetes; omit match to limit every request of the domain")
	}
	if match.HTTP != nil {
		v.validateHTTPMatch("spec.match.http", match.HTTP)
	}
	if match.Kubernetes != nil {
		v.validateKubernetesMatch("spec.match.kubernetes", match.Kubernetes)
	}
	for i, entry := range match.Descriptors {
		v.validateDescriptor(fmt.Sprintf("spec.match.descriptors[%d]", i), entry)
	}
}

// maxExceptPatterns bounds the patterns that a value, which a client chooses, is compared with. Values without a star are looked up.
const maxExceptPatterns = 64

func countWildcards(list []policyapi.DescriptorPattern) (n int) {
	for _, pattern := range list {
		if strings.Contains(string(pattern), "*") {
			n++
		}
	}
	return n
}

const valueWithPattern = "value must not be set together with pattern or except, because it already is one value; remove value or the others"

func (v *validator) validateDescriptor(field string, entry policyapi.DescriptorMatch) {
	v.validateNotEmpty(field+".key", string(entry.Key))
	if entry.Value != nil && *entry.Value == "" {
		v.report(field+".value", "must not be empty; omit value to match any value")
	}
	if entry.Pattern != nil {
		v.validateNotEmpty(field+".pattern", *entry.Pattern)
	}
	if n := countWildcards(entry.Except); n > maxExceptPatterns {
		v.report(field+".except", "%d entries contain *, but at most %d can; a request is compared with each of them", n, maxExceptPatterns)
	}
	if entry.Value != nil && (entry.Pattern != nil || len(entry.Except) > 0) {
		v.report(field+".value", "%s", valueWithPattern)
	}
}

func (v *validator) validateHTTPMatch(field string, match *policyapi.HTTPMatch) {
	lists := len(match.Hosts) + len(match.Paths) + len(match.Methods) + len(match.Headers) + len(match.CIDRs) + len(match.ExceptCIDRs)
	if lists == 0 && match.Expression == nil && !match.IgnoreCase {
		v.report(field, "http must not be empty: set hosts, paths, methods, headers, cidrs, exceptCIDRs or expression, or omit match to limit "+
			"every request of the domain")
	}
	for i, host := range match.Hosts {
		v.validateHost(fmt.Sprintf("%s.hosts[%d]", field, i), host)
	}
	for i, p := range match.Paths {
		v.validatePath(fmt.Sprintf("%s.paths[%d]", field, i), p, match.IgnoreCase)
	}
	for i, method := range match.Methods {
		v.validateMethod(fmt.Sprintf("%s.methods[%d]", field, i), method)
	}
	for i, header := range match.Headers {
		v.validateHeader(fmt.Sprintf("%s.headers[%d]", field, i), header)
	}
	v.validateCIDRs(field+".cidrs", match.CIDRs)
	v.validateCIDRs(field+".exceptCIDRs", match.ExceptCIDRs)
	if match.Expression != nil {
		v.validateExpression(field+".expression", *match.Expression, expr.ResultBool)
	}
}

func (v *validator) validateHost(field string, host policyapi.Host) {
	for label := range strings.SplitSeq(strings.TrimPrefix(string(host), "*."), ".") {
		if !isLabel(label) {
			v.report(field, "%q: a host must be a DNS name without scheme, port and trailing dot, such as api.shop.example or *.shop.example", host)
			return
		}
	}
}

// maxLabel is the maximum length of a DNS label, in bytes.
const maxLabel = 63

func isLabel(label string) bool {
	for i := range len(label) {
		if !isAlphanumeric(label[i]) && label[i] != '-' {
			return false
		}
	}
	return label != "" && len(label) <= maxLabel && label[0] != '-' && label[len(label)-1] != '-'
}

// isObjectName reports whether a policy can have the name.
func isObjectName(name string) bool {
	return len(name) <= maxLabel && name == lowercase(name) &&
		!slices.ContainsFunc(strings.Split(name, "."), func(label string) bool { return !isLabel(label) })
}

func pathType(match policyapi.PathMatch) policyapi.PathMatchType {
	return cmp.Or(match.Type, policyapi.PathPrefix)
}

func (v *validator) validatePath(field string, match policyapi.PathMatch, ignoreCase bool) {
	validateEnum(v, field+".type", match.Type, policyapi.PathExact, policyapi.PathPrefix, policyapi.PathRegularExpression)
	switch {
	case match.Value == "":
		v.report(field+".value", "must not be empty")
	case pathType(match) == policyapi.PathRegularExpression:
		v.validateRegularExpression(field+".value", match.Value, ignoreCase)
	case match.Value[0] != '/' || strings.ContainsAny(match.Value, "?# \t\n\f\r"):
		v.report(field+".value", "%q: a path must begin with a slash and must not have a query, a fragment or spaces", match.Value)
	case !isNormal(match.Value):
		v.report(field+".value", "%q: a path must not have double slashes or dot segments, because Weir resolves them in the request before "+
			"the comparison", match.Value)
	case strings.ContainsAny(match.Value, "*{}"):
		v.report(field+".value", "%q: a path must not have wildcards (*) or templates ({id}); use type PathPrefix to match everything below a path, "+
			"or type RegularExpression", match.Value)
	}
}

// isNormal reports whether a path that begins with a slash has no double slashes and no dot segments. Percent-escapes are valid: lowerPath
// decodes them as matching decodes those of a request.
func isNormal(value string) bool {
	clean := path.Clean(value)
	return value == clean || value == clean+"/" && clean != "/"
}

func (v *validator) validateMethod(field string, method policyapi.Method) {
	switch upper(method) {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions, http.MethodConnect, http.MethodTrace:
	default:
		v.report(field, "unknown method %q; use a standard HTTP method such as GET", method)
	}
}

func headerType(header policyapi.HeaderMatch) policyapi.HeaderMatchType {
	return cmp.Or(header.Type, policyapi.HeaderExact)
}

func (v *validator) validateHeader(field string, header policyapi.HeaderMatch) {
	v.validateHeaderName(field+".name", header.Name)
	validateEnum(v, field+".type", header.Type, policyapi.HeaderExact, policyapi.HeaderPresent, policyapi.HeaderRegularExpression)
	if (headerType(header) == policyapi.HeaderPresent) != (header.Value == nil) {
		v.report(field+".value", "value is required with type Exact or RegularExpression, and must not be set with type Present")
		return
	}
	if headerType(header) == policyapi.HeaderRegularExpression {
		v.validateRegularExpression(field+".value", *header.Value, false)
	}
}

func (v *validator) validateRegularExpression(field, expression string, ignoreCase bool) {
	err := pattern.ValidateRegexp(expression, ignoreCase)
	if wrong := (*syntax.Error)(nil); errors.As(err, &wrong) {
		v.report(field, "%q is not a valid RE2 expression: %s", expression, strings.TrimPrefix(wrong.Error(), "error parsing regexp: "))
		return
	}
	if err != nil {
		v.report(field, "%v", err)
	}
}

// validateCIDRs rejects bits after the prefix instead of clearing them, because the author may have meant the single address.
func (v *validator) validateCIDRs(field string, cidrs []policyapi.CIDR) {
	for i, cidr := range cidrs {
		item := fmt.Sprintf("%s[%d]", field, i)
		prefix, ok := parseCIDR(cidr)
		switch {
		case !ok:
			v.report(item, "%q: a CIDR must be an IPv4 or IPv6 network with a prefix length, such as 203.0.113.0/24 or 2001:db8::/32; "+
				"for a single address use /32 or /128", cidr)
		case prefix != prefix.Masked():
			address := prefix.Addr()
			v.report(item, "%q must not have bits set after its prefix; use %v for the network, or %v for the single address",
				cidr, prefix.Masked(), netip.PrefixFrom(address, address.BitLen()))
		}
	}
}

// parseCIDR rejects IPv4-mapped IPv6 networks (::ffff:10.0.0.0/104), because client addresses are converted to IPv4 before the comparison.
func parseCIDR(cidr policyapi.CIDR) (prefix netip.Prefix, ok bool) {
	prefix, err := netip.ParsePrefix(string(cidr))
	return prefix, err == nil && !prefix.Addr().Is4In6()
}

// lowerCIDR returns the canonical form of a network.
func lowerCIDR(cidr policyapi.CIDR) string {
	prefix, _ := parseCIDR(cidr) // validateCIDRs rejects invalid networks
	return prefix.String()
}
