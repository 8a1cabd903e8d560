package crd

import (
	"fmt"
	"strings"
)

// kubernetesMatch returns the change that makes the minimal policy match the creation of pods. match is added to match.kubernetes and spec
// to the spec. Each is empty or ends with a comma.
func kubernetesMatch(match, spec string) string {
	return `spec: {` + spec + `match: {kubernetes: {` + match + `resources: [{apiGroups: [""], resources: [pods]}]}}}`
}

// kubernetesResources returns the change that makes the minimal policy match the given resources.
func kubernetesResources(resources string) string {
	return `spec: {match: {kubernetes: {resources: ` + resources + `}}}`
}

func kubernetesCases() []schemaCase {
	const at = "spec.match.kubernetes"
	all := []schemaCase{
		{at: at + ".resources", kind: "required", accepted: kubernetesMatch(``, ``), rejected: `spec: {match: {kubernetes: {users: [alice]}}}`, message: "Required value"},
		{at: at + ".resources", kind: "minItems", accepted: kubernetesMatch(``, ``), rejected: kubernetesResources(`[]`), message: "should have at least 1 items"},
		{
			at: at + ".resources", kind: "maxItems",
			accepted: kubernetesResources(`[` + repeat(`{apiGroups: [""], resources: [pods]}`, 16) + `]`), rejected: kubernetesResources(`[` + repeat(`{apiGroups: [""], resources: [pods]}`, 17) + `]`),
			message: "Too many: 17: must have at most 16 items",
		},
		{at: at + ".namespaces[]", kind: kindRule, accepted: kubernetesMatch(`namespaces: [shop-1], `, ``), rejected: kubernetesMatch(`namespaces: [Shop], `, ``), message: namespaceMessage},
	}
	all = append(all, listCases(at+".namespaces", 1, 64, 63, func(list string) string { return kubernetesMatch(`namespaces: `+list+`, `, ``) })...)
	for _, field := range []string{"users", "groups", "exceptUsers", "exceptGroups"} {
		with := func(list string) string { return kubernetesMatch(field+`: `+list+`, `, ``) }
		all = append(all, listCases(at+"."+field, 1, 64, 253, with)...)
		all = append(all, notEmptyCase(at+"."+field+"[]", with))
	}
	all = append(all, resourcesCases()...)
	all = append(all, requestKindCases()...)
	all = append(all, selectorCases(at+".namespaceSelector", func(selector string) string {
		return kubernetesMatch(`namespaceSelector: `+selector+`, `, ``)
	})...)
	all = append(all, selectorCases("spec.tiers[].when.namespaceSelector", func(selector string) string {
		return kubernetesMatch(``, `tiers: [{name: a, limit: 1, when: {namespaceSelector: `+selector+`}}], `)
	})...)
	return append(all, expressionCases(at+".expression", "true", func(text string) string { return kubernetesMatch(`expression: `+text+`, `, ``) })...)
}

const namespaceMessage = "the name of a namespace must consist of lower-case letters, digits and hyphens, and must begin and end with a letter or digit"

func resourcesCases() []schemaCase {
	const at = "spec.match.kubernetes.resources[]"
	groups := func(list string) string { return kubernetesResources(`[{apiGroups: ` + list + `, resources: [pods]}]`) }
	names := func(list string) string { return kubernetesResources(`[{apiGroups: [""], resources: ` + list + `}]`) }
	operations := func(list string) string {
		return kubernetesResources(`[{apiGroups: [""], resources: [pods], operations: ` + list + `}]`)
	}
	all := []schemaCase{
		{at: at + ".apiGroups", kind: "required", accepted: groups(`[""]`), rejected: kubernetesResources(`[{resources: [pods]}]`), message: "Required value"},
		{at: at + ".resources", kind: "required", accepted: groups(`[""]`), rejected: kubernetesResources(`[{apiGroups: [""]}]`), message: "Required value"},
		{at: at + ".apiGroups[]", kind: kindRule, accepted: groups(`["", "*", batch, metrics.k8s.io]`), rejected: groups(`[apps/v1]`), message: groupMessage},
		{at: at + ".resources[]", kind: kindRule, accepted: names(`[pods, deployments/scale, "*", "pods/*", "*/scale", "*/*"]`), rejected: names(`[Pod]`), message: resourceMessage},
		{at: at + ".operations", kind: "minItems", accepted: operations(`[CREATE]`), rejected: operations(`[]`), message: "should have at least 1 items"},
		{
			at: at + ".operations", kind: "maxItems", accepted: operations(`[CREATE, UPDATE, CONNECT]`),
			rejected: operations(`[CREATE, UPDATE, CONNECT, CREATE]`), message: "Too many: 4: must have at most 3 items",
		},
		{
			at: at + ".operations", kind: kindSet, field: "spec.match.kubernetes.resources[0].operations[1]",
			accepted: operations(`[CREATE, UPDATE]`), rejected: operations(`[CREATE, CREATE]`), message: `Duplicate value: "CREATE"`,
		},
		{
			at: at + ".operations[]", kind: "maxLength", accepted: operations(`[CONNECT]`), rejected: operations(`[AAAAAAAAAAAAAAAAA]`),
			message: "may not be more than 16 bytes",
		},
		{
			at: at + ".operations[]", kind: kindRule, accepted: operations(`[CONNECT]`), rejected: operations(`[DELETE]`),
			message: "operation must be CREATE, UPDATE or CONNECT; deletions are never limited, because a deletion frees what a limit protects",
		},
	}
	all = append(all, listCases(at+".apiGroups", 1, 16, 253, groups)...)
	return append(all, listCases(at+".resources", 1, 16, 127, names)...)
}

const (
	groupMessage    = "an API group must be a DNS name without a version, such as apps or batch, an empty string for the core group, or * for every group"
	resourceMessage = "a resource must be a plural name in lower case such as pods, a subresource such as deployments/scale, or * for every resource"
)

// requestKindCases returns the cases for fields that are valid only for HTTP requests or only for writes to the Kubernetes API.
func requestKindCases() []schemaCase {
	tiered := func(when string) string { return `tiers: [{name: a, limit: 1, when: {` + when + `}}], ` }
	const labels = `namespaceSelector: {matchLabels: {plan: paid}}`
	return []schemaCase{
		{
			at: "spec", kind: kindRule, field: "spec.axis", accepted: kubernetesMatch(``, `axis: Namespace, `), rejected: `spec: {axis: ServiceAccount}`,
			message: "axes Namespace and ServiceAccount are valid only for writes to the Kubernetes API; set match.kubernetes or use another axis",
		},
		{
			at: "spec", kind: kindRule, field: "spec.axis", accepted: kubernetesMatch(``, `axis: ServiceAccount, `), rejected: kubernetesMatch(``, `axis: IP, `),
			message: "axis must be Tenant, User, ServiceAccount, Namespace or Custom with match.kubernetes",
		},
		{
			at: "spec", kind: kindRule, field: "spec.identifier",
			accepted: kubernetesMatch(``, `identifier: {expression: request.name}, `), rejected: kubernetesMatch(``, `identifier: {header: X-Tenant}, `),
			message: "identifier must be an expression with match.kubernetes, because a write has no headers, query parameters, cookies, claims or descriptors; use identifier.expression or remove identifier",
		},
		{
			at: "spec", kind: kindRule, field: "spec.identifier",
			accepted: kubernetesMatch(``, `identifier: {expression: request.name, onMissing: Skip}, `),
			rejected: kubernetesMatch(``, `identifier: {expression: request.name, onMissing: ClientAddress}, `),
			message: "identifier must not have fallbacks or onMissing: ClientAddress with match.kubernetes, because a write has no other source and no client address; " +
				"use another expression, or another value of onMissing",
		},
		{
			at: "spec", kind: kindRule, field: "spec.identifier",
			accepted: kubernetesMatch(``, `axis: Custom, identifier: {expression: request.name}, `), rejected: kubernetesMatch(``, `axis: Namespace, identifier: {expression: request.name}, `),
			message: "identifier must not be set with axis Namespace or ServiceAccount; remove identifier or use axis Custom",
		},
		{
			at: "spec", kind: kindRule, field: "spec.scope", accepted: kubernetesMatch(``, `scope: Policy, `), rejected: kubernetesMatch(``, `scope: Endpoint, `),
			message: "scope: Endpoint must not be set with match.kubernetes, because a write has no endpoint; remove scope",
		},
		{
			at: "spec", kind: kindRule, field: "spec.tiers", accepted: kubernetesMatch(``, tiered(`groups: [staff]`)), rejected: kubernetesMatch(``, tiered(`header: {name: x, value: a}`)),
			message: "tiers must not use header or cidrs with match.kubernetes, because a write has no headers and no client address; use identifiers, groups, namespaceSelector or expression",
		},
		{
			at: "spec", kind: kindRule, field: "spec.tiers", accepted: kubernetesMatch(``, tiered(labels)), rejected: when(labels),
			message: "tiers can use namespaceSelector only with match.kubernetes; set match.kubernetes or use another condition",
		},
		{
			at: "spec.tiers[].when.namespaceSelector", kind: kindRule,
			accepted: kubernetesMatch(``, tiered(`namespaceSelector: {matchExpressions: [{key: plan, operator: Exists}]}`)),
			rejected: kubernetesMatch(``, tiered(`namespaceSelector: {matchLabels: {}}`)),
			message:  "namespaceSelector must not be empty, because an empty selector selects every write; set matchLabels or matchExpressions",
		},
		{
			at: "spec", kind: kindRule, field: "spec.cost", accepted: kubernetesMatch(``, `cost: {expression: "2"}, `), rejected: kubernetesMatch(``, `cost: {header: X-Cost}, `),
			message: "cost.header must not be set with match.kubernetes, because a write has no headers; use cost.value or cost.expression",
		},
	}
}

// listCases returns the cases for a set of strings. It has from minItems to maxItems items of at most maxLength bytes. minItems is 0 if the
// list can be empty.
func listCases(at string, minItems, maxItems, maxLength int, with func(list string) string) []schemaCase {
	all := []schemaCase{
		{
			at: at, kind: "maxItems", accepted: with(numbered("x", maxItems)), rejected: with(numbered("x", maxItems+1)),
			message: fmt.Sprintf("Too many: %d: must have at most %d items", maxItems+1, maxItems),
		},
		{at: at, kind: kindSet, field: strings.ReplaceAll(at, "[]", "[0]") + "[1]", accepted: with(`[a, b]`), rejected: with(`[a, a]`), message: `Duplicate value: "a"`},
		{
			at: at + "[]", kind: "maxLength", accepted: with(`[` + letters(maxLength) + `]`), rejected: with(`[` + letters(maxLength+1) + `]`),
			message: fmt.Sprintf("may not be more than %d bytes", maxLength),
		},
	}
	if minItems > 0 {
		all = append(all, schemaCase{at: at, kind: "minItems", accepted: with(`[x]`), rejected: with(`[]`), message: "should have at least 1 items"})
	}
	return all
}

func notEmptyCase(at string, with func(list string) string) schemaCase {
	return schemaCase{at: at, kind: "minLength", accepted: with(`[x]`), rejected: with(`[""]`), message: "should be at least 1 chars long"}
}

func throttle(text string) string { return `spec: {kubernetesThrottle: {` + text + `}}` }

// throttleCases returns the cases for kubernetesThrottle, which makes a Limiter an admission webhook.
func throttleCases() []schemaCase {
	const (
		at              = "spec.kubernetesThrottle"
		selectorMessage = "namespacedPolicySelector is required with namespacedPolicies Selected, and must not be set otherwise; {} selects every namespace"
	)
	all := []schemaCase{
		{
			at: at + ".mode", kind: "enum", accepted: throttle(`mode: Disabled`), rejected: throttle(`mode: Paused`),
			message: `Unsupported value: "Paused": supported values: "Enforce", "Disabled"`,
		},
		{
			at: at + ".failurePolicy", kind: "enum", accepted: throttle(`failurePolicy: Fail`), rejected: throttle(`failurePolicy: Deny`),
			message: `Unsupported value: "Deny": supported values: "Ignore", "Fail"`,
		},
		{
			at: at + ".maxRetryAfter", kind: "maxLength", accepted: throttle(`maxRetryAfter: 0h00000m00010s`), rejected: throttle(`maxRetryAfter: 0h00000m00010s0ms`),
			message: "may not be more than 16 bytes",
		},
		{
			at: at + ".maxRetryAfter", kind: kindRule, accepted: throttle(`maxRetryAfter: 0s`), rejected: throttle(`maxRetryAfter: 61s`),
			message: "maxRetryAfter must be from 0s to 1m, in whole seconds, for example 5s",
		},
		{
			at: "spec", kind: kindRule, accepted: `spec: {kubernetesThrottle: {}, redis: {timeout: 750ms}}`, rejected: `spec: {kubernetesThrottle: {}, redis: {timeout: 751ms}}`,
			message: "redis.timeout must be at most 750ms with kubernetesThrottle, because an API server waits two seconds for a reply, which can take two round trips",
		},
		{
			at: "spec", kind: kindRule, accepted: `spec: {kubernetesThrottle: {mode: Disabled}, redis: {timeout: 10s}}`,
			rejected: `spec: {kubernetesThrottle: {mode: Enforce}, redis: {timeout: 10s}}`, message: "redis.timeout must be at most 750ms with kubernetesThrottle, because an API server waits two seconds for a reply, which can take two round trips",
		},
		{
			at: at + ".additionalExemptNamespaces[]", kind: kindRule, accepted: throttle(`additionalExemptNamespaces: [shop-1]`),
			rejected: throttle(`additionalExemptNamespaces: [Shop]`), message: namespaceMessage,
		},
		{
			at: at + ".namespacedPolicies", kind: "enum", accepted: throttle(`namespacedPolicies: None`), rejected: throttle(`namespacedPolicies: All`),
			message: `Unsupported value: "All": supported values: "None", "Selected"`,
		},
		{
			at: at, kind: kindRule, accepted: throttle(`namespacedPolicies: Selected, namespacedPolicySelector: {}`),
			rejected: throttle(`namespacedPolicies: Selected`), message: selectorMessage,
		},
		{at: at, kind: kindRule, accepted: throttle(``), rejected: throttle(`namespacedPolicySelector: {}`), message: selectorMessage},
	}
	for field, maxLength := range map[string]int{"additionalExemptNamespaces": 63, "additionalExemptUsers": 253, "additionalExemptGroups": 253} {
		with := func(list string) string { return throttle(field + `: ` + list) }
		all = append(all, listCases(at+"."+field, 0, 64, maxLength, with)...)
		if field != "additionalExemptNamespaces" {
			all = append(all, notEmptyCase(at+"."+field+"[]", with))
		}
	}
	all = append(all, selectorCases(at+".namespacedPolicySelector", func(selector string) string {
		return throttle(`namespacedPolicies: Selected, namespacedPolicySelector: ` + selector)
	})...)
	return append(all, percentageCases(at+".warnAt", "warnAt must be a whole percentage from 0% to 100%", "0%", "101%", func(percentage string) string {
		return throttle(`warnAt: ` + percentage)
	})...)
}

// tenantCases returns the cases for the label or annotation of a namespace that contains its tenant, and for the names of credentials.
func tenantCases() []schemaCase {
	tenant := func(text string) string { return identity(`{tenant: {` + text + `}}`) }
	credentials := func(list string) string { return identity(`{credentials: ` + list + `}`) }
	all := append(listCases("spec.identity.credentials", 1, 64, 128, credentials),
		notEmptyCase("spec.identity.credentials[]", credentials),
		schemaCase{
			at: "spec.identity.tenant", kind: kindRule, accepted: tenant(`namespaceLabel: tenant`), rejected: tenant(`namespaceLabel: a, namespaceAnnotation: b`),
			message: "namespaceLabel and namespaceAnnotation are mutually exclusive; remove one of them",
		})
	for _, field := range []string{"namespaceLabel", "namespaceAnnotation"} {
		at := "spec.identity.tenant." + field
		with := func(key string) string { return tenant(field + `: ` + key) }
		all = append(all,
			schemaCase{at: at, kind: "minLength", accepted: with(`t`), rejected: with(`""`), message: "should be at least 1 chars long"},
			schemaCase{
				at: at, kind: "maxLength", accepted: with(longHost(253) + `/` + letters(63)), rejected: with(longHost(254) + `/` + letters(63)),
				message: "may not be more than 317 bytes",
			},
			schemaCase{
				at: at, kind: kindRule, accepted: with(`example.com/Tenant_1`), rejected: with(`example.com/`),
				message: "the key of a label or annotation must be a name such as tenant, or a DNS name, a slash and a name, such as example.com/tenant",
			})
	}
	return all
}
