package crd

import (
	"fmt"
	"strings"
)

// writes is the change that makes of the small policy one for the creation of pods, with the parts of match.kubernetes and of
// the spec given, each with a comma at its end.
func writes(match, spec string) string {
	return `spec: {` + spec + `match: {kubernetes: {` + match + `resources: [{apiGroups: [""], resources: [pods]}]}}}`
}

// written is the change that makes of the small policy one for these resources.
func written(resources string) string {
	return `spec: {match: {kubernetes: {resources: ` + resources + `}}}`
}

func kubernetesCases() []schemaCase {
	const at = "spec.match.kubernetes"
	all := []schemaCase{
		{at: at + ".resources", kind: "required", accepted: writes(``, ``), refused: `spec: {match: {kubernetes: {users: [alice]}}}`, says: "Required value"},
		{at: at + ".resources", kind: "minItems", accepted: writes(``, ``), refused: written(`[]`), says: "should have at least 1 items"},
		{
			at: at + ".resources", kind: "maxItems",
			accepted: written(`[` + repeat(`{apiGroups: [""], resources: [pods]}`, 16) + `]`), refused: written(`[` + repeat(`{apiGroups: [""], resources: [pods]}`, 17) + `]`),
			says: "Too many: 17: must have at most 16 items",
		},
		{at: at + ".namespaces[]", kind: kindRule, accepted: writes(`namespaces: [shop-1], `, ``), refused: writes(`namespaces: [Shop], `, ``), says: namespaceSays},
	}
	all = append(all, listCases(at+".namespaces", 1, 64, 63, func(list string) string { return writes(`namespaces: `+list+`, `, ``) })...)
	for _, field := range []string{"users", "groups", "exceptUsers", "exceptGroups"} {
		with := func(list string) string { return writes(field+`: `+list+`, `, ``) }
		all = append(all, listCases(at+"."+field, 1, 64, 253, with)...)
		all = append(all, notEmptyCase(at+"."+field+"[]", with))
	}
	all = append(all, resourcesCases()...)
	all = append(all, ofKindCases()...)
	return append(all, expressionCases(at+".expression", "true", func(text string) string { return writes(`expression: `+text+`, `, ``) })...)
}

const namespaceSays = "the name of a namespace must consist of lower-case letters, digits and hyphens, and must begin and end with a letter or digit"

func resourcesCases() []schemaCase {
	const at = "spec.match.kubernetes.resources[]"
	groups := func(list string) string { return written(`[{apiGroups: ` + list + `, resources: [pods]}]`) }
	names := func(list string) string { return written(`[{apiGroups: [""], resources: ` + list + `}]`) }
	operations := func(list string) string {
		return written(`[{apiGroups: [""], resources: [pods], operations: ` + list + `}]`)
	}
	all := []schemaCase{
		{at: at + ".apiGroups", kind: "required", accepted: groups(`[""]`), refused: written(`[{resources: [pods]}]`), says: "Required value"},
		{at: at + ".resources", kind: "required", accepted: groups(`[""]`), refused: written(`[{apiGroups: [""]}]`), says: "Required value"},
		{at: at + ".apiGroups[]", kind: kindRule, accepted: groups(`["", "*", batch, metrics.k8s.io]`), refused: groups(`[apps/v1]`), says: groupSays},
		{at: at + ".resources[]", kind: kindRule, accepted: names(`[pods, deployments/scale, "*", "pods/*", "*/scale", "*/*"]`), refused: names(`[Pod]`), says: resourceSays},
		{at: at + ".operations", kind: "minItems", accepted: operations(`[CREATE]`), refused: operations(`[]`), says: "should have at least 1 items"},
		{
			at: at + ".operations", kind: "maxItems", accepted: operations(`[CREATE, UPDATE, DELETE, CONNECT]`),
			refused: operations(`[CREATE, UPDATE, DELETE, CONNECT, CREATE]`), says: "Too many: 5: must have at most 4 items",
		},
		{
			at: at + ".operations", kind: kindSet, field: "spec.match.kubernetes.resources[0].operations[1]",
			accepted: operations(`[CREATE, UPDATE]`), refused: operations(`[CREATE, CREATE]`), says: `Duplicate value: "CREATE"`,
		},
		{
			at: at + ".operations[]", kind: "enum", accepted: operations(`[CONNECT]`), refused: operations(`[PATCH]`),
			says: `Unsupported value: "PATCH": supported values: "CREATE", "UPDATE", "DELETE", "CONNECT"`,
		},
	}
	all = append(all, listCases(at+".apiGroups", 1, 16, 253, groups)...)
	return append(all, listCases(at+".resources", 1, 16, 127, names)...)
}

const (
	groupSays    = "an API group must be a DNS name without a version, such as apps or batch, an empty string for the core group, or * for every group"
	resourceSays = "a resource must be a plural name in lower case such as pods, a subresource such as deployments/scale, or * for every resource"
)

// ofKindCases are those of what only requests of one kind have.
func ofKindCases() []schemaCase {
	tiered := func(when string) string { return `tiers: [{name: a, limit: 1, when: {` + when + `}}], ` }
	const labels = `namespaceSelector: {matchLabels: {plan: paid}}`
	return []schemaCase{
		{
			at: "spec", kind: kindRule, field: "spec.axis", accepted: writes(``, `axis: Namespace, `), refused: `spec: {axis: ServiceAccount}`,
			says: "axes Namespace and ServiceAccount are valid only for writes to the Kubernetes API; set match.kubernetes or use another axis",
		},
		{
			at: "spec", kind: kindRule, field: "spec.axis", accepted: writes(``, `axis: ServiceAccount, `), refused: writes(``, `axis: IP, `),
			says: "axis must be Tenant, User, ServiceAccount, Namespace or Custom with match.kubernetes",
		},
		{
			at: "spec", kind: kindRule, field: "spec.identifier",
			accepted: writes(``, `identifier: {expression: request.name}, `), refused: writes(``, `identifier: {header: X-Tenant}, `),
			says: "identifier must be an expression with match.kubernetes, because a write has no headers, query parameters, cookies, claims or descriptors; use identifier.expression or remove identifier",
		},
		{
			at: "spec", kind: kindRule, field: "spec.identifier",
			accepted: writes(``, `axis: Custom, identifier: {expression: request.name}, `), refused: writes(``, `axis: Namespace, identifier: {expression: request.name}, `),
			says: "identifier must not be set with axis Namespace or ServiceAccount; remove identifier or use axis Custom",
		},
		{
			at: "spec", kind: kindRule, field: "spec.scope", accepted: writes(``, `scope: Policy, `), refused: writes(``, `scope: Endpoint, `),
			says: "scope: Endpoint must not be set with match.kubernetes, because a write has no endpoint; remove scope",
		},
		{
			at: "spec", kind: kindRule, field: "spec.tiers", accepted: writes(``, tiered(`groups: [staff]`)), refused: writes(``, tiered(`header: {name: x, value: a}`)),
			says: "tiers must not use header or cidrs with match.kubernetes, because a write has no headers and no client address; use identifiers, groups, namespaceSelector or expression",
		},
		{
			at: "spec", kind: kindRule, field: "spec.tiers", accepted: writes(``, tiered(labels)), refused: when(labels),
			says: "tiers can use namespaceSelector only with match.kubernetes; set match.kubernetes or use another condition",
		},
		{
			at: "spec.tiers[].when.namespaceSelector", kind: kindRule,
			accepted: writes(``, tiered(`namespaceSelector: {matchExpressions: [{key: plan, operator: Exists}]}`)),
			refused:  writes(``, tiered(`namespaceSelector: {matchLabels: {}}`)),
			says:     "namespaceSelector must not be empty, because an empty selector selects every write; set matchLabels or matchExpressions",
		},
		{
			at: "spec", kind: kindRule, field: "spec.cost", accepted: writes(``, `cost: {expression: "2"}, `), refused: writes(``, `cost: {header: X-Cost}, `),
			says: "cost.header must not be set with match.kubernetes, because a write has no headers; use cost.value or cost.expression",
		},
	}
}

// listCases are those of a set of texts of at most so many letters; least is 0 for one that may be empty.
func listCases(at string, least, most, letter int, with func(list string) string) []schemaCase {
	all := []schemaCase{
		{
			at: at, kind: "maxItems", accepted: with(numbered("x", most)), refused: with(numbered("x", most+1)),
			says: fmt.Sprintf("Too many: %d: must have at most %d items", most+1, most),
		},
		{at: at, kind: kindSet, field: strings.ReplaceAll(at, "[]", "[0]") + "[1]", accepted: with(`[a, b]`), refused: with(`[a, a]`), says: `Duplicate value: "a"`},
		{
			at: at + "[]", kind: "maxLength", accepted: with(`[` + letters(letter) + `]`), refused: with(`[` + letters(letter+1) + `]`),
			says: fmt.Sprintf("may not be more than %d bytes", letter),
		},
	}
	if least > 0 {
		all = append(all, schemaCase{at: at, kind: "minItems", accepted: with(`[x]`), refused: with(`[]`), says: "should have at least 1 items"})
	}
	return all
}

func notEmptyCase(at string, with func(list string) string) schemaCase {
	return schemaCase{at: at, kind: "minLength", accepted: with(`[x]`), refused: with(`[""]`), says: "should be at least 1 chars long"}
}

func throttle(text string) string { return `spec: {kubernetesThrottle: {` + text + `}}` }

// throttleCases are those of a Limiter that API servers ask.
func throttleCases() []schemaCase {
	const at = "spec.kubernetesThrottle"
	all := []schemaCase{
		{
			at: at + ".failurePolicy", kind: "enum", accepted: throttle(`failurePolicy: Fail`), refused: throttle(`failurePolicy: Deny`),
			says: `Unsupported value: "Deny": supported values: "Ignore", "Fail"`,
		},
		{
			at: at + ".maxRetryAfter", kind: "maxLength", accepted: throttle(`maxRetryAfter: 60s`), refused: throttle(`maxRetryAfter: 060s`),
			says: "may not be more than 3 bytes",
		},
		{
			at: at + ".maxRetryAfter", kind: kindRule, accepted: throttle(`maxRetryAfter: 0s`), refused: throttle(`maxRetryAfter: 61s`),
			says: "must be from 0s to 60s, in whole seconds, for example 5s",
		},
		{
			at: "spec", kind: kindRule, accepted: `spec: {kubernetesThrottle: {}, redis: {timeout: 750ms}}`, refused: `spec: {kubernetesThrottle: {}, redis: {timeout: 751ms}}`,
			says: "redis.timeout must be at most 750ms with kubernetesThrottle, because an API server waits two seconds for a reply, which can take two round trips",
		},
		{
			at: "spec", kind: kindRule, accepted: `spec: {kubernetesThrottle: {enabled: false}, redis: {timeout: 10s}}`,
			refused: `spec: {kubernetesThrottle: {enabled: true}, redis: {timeout: 10s}}`, says: "redis.timeout must be at most 750ms with kubernetesThrottle, because an API server waits two seconds for a reply, which can take two round trips",
		},
		{at: at + ".exemptNamespaces[]", kind: kindRule, accepted: throttle(`exemptNamespaces: [shop-1]`), refused: throttle(`exemptNamespaces: [Shop]`), says: namespaceSays},
	}
	for field, letters := range map[string]int{"exemptNamespaces": 63, "exemptUsers": 253, "exemptGroups": 253} {
		with := func(list string) string { return throttle(field + `: ` + list) }
		all = append(all, listCases(at+"."+field, 0, 64, letters, with)...)
		if field != "exemptNamespaces" {
			all = append(all, notEmptyCase(at+"."+field+"[]", with))
		}
	}
	return append(all, betweenCases(at+".warnPercent", 0, 100, func(n int) string { return throttle(fmt.Sprintf(`warnPercent: %d`, n)) })...)
}

// tenantCases are those of the label or annotation that holds the tenant of a namespace.
func tenantCases() []schemaCase {
	tenant := func(text string) string { return identity(`{tenant: {` + text + `}}`) }
	all := []schemaCase{{
		at: "spec.identity.tenant", kind: kindRule, accepted: tenant(`namespaceLabel: tenant`), refused: tenant(`namespaceLabel: a, namespaceAnnotation: b`),
		says: "namespaceLabel and namespaceAnnotation are mutually exclusive; remove one of them",
	}}
	for _, field := range []string{"namespaceLabel", "namespaceAnnotation"} {
		at := "spec.identity.tenant." + field
		with := func(key string) string { return tenant(field + `: ` + key) }
		all = append(all,
			schemaCase{at: at, kind: "minLength", accepted: with(`t`), refused: with(`""`), says: "should be at least 1 chars long"},
			schemaCase{
				at: at, kind: "maxLength", accepted: with(longHost(253) + `/` + letters(63)), refused: with(longHost(254) + `/` + letters(63)),
				says: "may not be more than 317 bytes",
			},
			schemaCase{
				at: at, kind: kindRule, accepted: with(`example.com/Tenant_1`), refused: with(`example.com/`),
				says: "the key of a label or annotation must be a name such as tenant, or a DNS name, a slash and a name, such as example.com/tenant",
			})
	}
	return all
}
