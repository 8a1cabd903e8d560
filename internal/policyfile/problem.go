package policyfile

import (
	"fmt"
	"strings"
)

// Problem is why a document, or a policy in it, is not enforced.
type Problem struct {
	File string
	// Line counts from 1: where the field stands, or the nearest field around one that is absent.
	Line int
	// Policy is "namespace/name", empty where the document is no policy.
	Policy string
	// Field is "spec.match.http.paths[0].value", empty where the problem is no field's.
	Field   string
	Message string
}

// String reads "policies.yaml:12: shop/tenant-daily: spec.limit: …".
func (p Problem) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d: ", p.File, p.Line)
	for _, part := range []string{p.Policy, p.Field} {
		if part != "" {
			b.WriteString(part + ": ")
		}
	}
	b.WriteString(strings.ReplaceAll(p.Message, "\n", " "))
	return b.String()
}

// Skipped is a document that is no policy.
type Skipped struct {
	File             string
	Line             int
	APIVersion, Kind string
}
