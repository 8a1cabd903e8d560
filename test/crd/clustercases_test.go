package crd

import (
	"fmt"
	"strings"
)

// clusterCases returns the cases for a RateLimitPolicy and those for the fields that only a ClusterRateLimitPolicy has.
func clusterCases() []schemaCase {
	domains := func(list string) string { return `spec: {domains: ` + list + `}` }
	return append(append(cases(), clusterTargetCases()...), []schemaCase{
		{at: "spec.domains", kind: "minItems", accepted: domains(`[shop]`), rejected: domains(`[]`), message: "should have at least 1 items"},
		{
			at: "spec.domains", kind: "maxItems", accepted: domains(numbered("d", 64)), rejected: domains(numbered("d", 65)),
			message: "Too many: 65: must have at most 64 items",
		},
		{
			at: "spec.domains", kind: kindSet, field: "spec.domains[1]", accepted: domains(`[shop, billing]`), rejected: domains(`[shop, shop]`),
			message: `Duplicate value: "shop"`,
		},
		{
			at: "spec.domains[]", kind: "maxLength", accepted: domains(`[` + letters(253) + `]`), rejected: domains(`[` + letters(254) + `]`),
			message: "may not be more than 253 bytes",
		},
		{at: "spec.domains[]", kind: kindRule, accepted: domains(`[edge_proxy/v1]`), rejected: domains(`["edge proxy"]`), message: domainMessage},
		{
			at: "spec", kind: kindRule, field: "spec.replaces",
			accepted: `spec: {replaces: [fallback], precedence: Override}`, rejected: `spec: {replaces: [fallback], precedence: Default}`,
			message: "replaces must not be set with precedence: Default, because a default replaces no other one; remove one of them",
		},
		{
			at: "spec.precedence", kind: "enum", accepted: `spec: {precedence: Default}`, rejected: `spec: {precedence: Never}`,
			message: `Unsupported value: "Never": supported values: "Override", "Default"`,
		},
	}...)
}

const domainMessage = "a domain must be one or more characters without spaces: the name of a namespace, or the domain that your proxy sends"

// numbered returns a YAML list of n different names.
func numbered(name string, n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s%d", name, i)
	}
	return `[` + strings.Join(list, ", ") + `]`
}
