// Package objects converts the Kubernetes objects of other rate limiters to policies.
package objects

import (
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/importer"
)

// Roots returns the fields that the objects have, and the configurations that are no objects, see [importer.Unwrap].
func Roots() [][]string {
	return [][]string{{"apiVersion", "kind"}, {"_format_version"}, {"http"}, {"namespace", "max_value"}}
}

// unsupported reports a field that no policy expresses.
func unsupported(out *importer.Result, f importer.Field, reason string) {
	out.Add(f.Place, importer.NotImported, "%s: %s", f.Key, reason)
}

// unknown reports a field that the format does not have in this place, for example a misspelled one.
func unknown(out *importer.Result, f importer.Field, of string, fields ...string) {
	unsupported(out, f, "unknown field of "+of+"; the fields are "+strings.Join(fields, ", "))
}

// expressionOf returns an identifier from an expression.
func expressionOf(text string) *v1alpha1.Identifier {
	return &v1alpha1.Identifier{IdentifierSource: v1alpha1.IdentifierSource{Expression: new(v1alpha1.Expression(text))}}
}

// oneForAll is an identifier that all requests have: they share one counter.
func oneForAll() *v1alpha1.Identifier { return expressionOf(`"all"`) }

// clientAddress is the address of the client. The axis IP would count the IPv6 addresses of a network together.
func clientAddress() *v1alpha1.Identifier { return expressionOf("request.clientIP") }

// joined returns an expression for several texts. Their lengths follow, so that different texts have different results.
func joined(parts []string) string {
	var lengths []string
	for _, part := range parts[:len(parts)-1] {
		lengths = append(lengths, `string(size(`+part+`))`)
	}
	text := strings.Join(parts, ` + "/" + `)
	if len(lengths) > 0 {
		text += ` + "#" + ` + strings.Join(lengths, ` + "," + `)
	}
	return text
}

// windowOf returns the window of a unit such as Hour or hour, or "".
func windowOf(unit string) v1alpha1.Duration {
	return map[string]v1alpha1.Duration{
		"second": "1s", "minute": "1m", "hour": "1h", "day": "1d", "week": "7d", "month": "30d", "year": "365d",
	}[strings.ToLower(unit)]
}
