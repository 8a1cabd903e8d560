package crd

import (
	"fmt"
	"strings"
)

// clusterCases are those of a RateLimitPolicy, and what only a ClusterRateLimitPolicy has.
func clusterCases() []schemaCase {
	domains := func(list string) string { return `spec: {domains: ` + list + `}` }
	return append(cases(), []schemaCase{
		{at: "spec.domains", kind: "minItems", accepted: domains(`[shop]`), refused: domains(`[]`), says: "should have at least 1 items"},
		{
			at: "spec.domains", kind: "maxItems", accepted: domains(numbered("d", 64)), refused: domains(numbered("d", 65)),
			says: "Too many: 65: must have at most 64 items",
		},
		{
			at: "spec.domains", kind: kindSet, field: "spec.domains[1]", accepted: domains(`[shop, billing]`), refused: domains(`[shop, shop]`),
			says: `Duplicate value: "shop"`,
		},
		{
			at: "spec.domains[]", kind: "maxLength", accepted: domains(`[` + letters(253) + `]`), refused: domains(`[` + letters(254) + `]`),
			says: "may not be more than 253 bytes",
		},
		{at: "spec.domains[]", kind: kindRule, accepted: domains(`[edge_proxy/v1]`), refused: domains(`["edge proxy"]`), says: domainSays},
		{
			at: "spec.precedence", kind: "enum", accepted: `spec: {precedence: Default}`, refused: `spec: {precedence: Never}`,
			says: `Unsupported value: "Never": supported values: "Override", "Default"`,
		},
	}...)
}

const domainSays = "a domain must be one or more characters without spaces: the name of a namespace, or the domain that your proxy sends"

// numbered is a list of n different names.
func numbered(name string, n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s%d", name, i)
	}
	return `[` + strings.Join(list, ", ") + `]`
}
