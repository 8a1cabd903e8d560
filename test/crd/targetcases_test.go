package crd

import (
	"fmt"
	"strings"
)

// targetCases uses Gateways in a namespace, which both kinds of policies can target.
func targetCases() []schemaCase {
	targets := func(refs ...string) string {
		for i, ref := range refs {
			refs[i] = `{group: gateway.networking.k8s.io, ` + ref + `}`
		}
		return `spec: {targetRefs: [` + strings.Join(refs, ", ") + `]}`
	}
	many := func(n int) (refs []string) {
		for i := range n {
			refs = append(refs, fmt.Sprintf(`kind: Gateway, namespace: infra, name: g%d`, i))
		}
		return refs
	}
	const gateway = `kind: Gateway, namespace: infra, name: public`
	return []schemaCase{
		{at: "spec.targetRefs", kind: "minItems", accepted: targets(gateway), rejected: targets(), message: "should have at least 1 items"},
		{
			at: "spec.targetRefs", kind: "maxItems", accepted: targets(many(16)...), rejected: targets(many(17)...),
			message: "Too many: 17: must have at most 16 items",
		},
		{
			at: "spec.targetRefs", kind: kindRule, accepted: targets(gateway, gateway+`, sectionName: http`, `kind: Gateway, namespace: edge, name: public`),
			rejected: targets(gateway, gateway), message: "targetRefs must be unique; remove the repeated one",
		},
		{
			at: "spec.targetRefs[].group", kind: "required", accepted: targets(gateway), rejected: `spec: {targetRefs: [{` + gateway + `}]}`,
			message: "Required value",
		},
		{
			at: "spec.targetRefs[].group", kind: "enum", accepted: targets(gateway), rejected: `spec: {targetRefs: [{group: example.com, ` + gateway + `}]}`,
			message: `Unsupported value: "example.com": supported values: "gateway.networking.k8s.io"`,
		},
		{
			at: "spec.targetRefs[].kind", kind: "required", accepted: targets(gateway), rejected: targets(`name: public`),
			message: "Required value",
		},
		{
			at: "spec.targetRefs[].kind", kind: "enum", accepted: targets(gateway), rejected: targets(`kind: Service, name: public`),
			message: `Unsupported value: "Service": supported values: "HTTPRoute", "GRPCRoute", "Gateway"`,
		},
		{
			at: "spec.targetRefs[].namespace", kind: "minLength", accepted: targets(gateway), rejected: targets(`kind: Gateway, namespace: "", name: public`),
			message: "should be at least 1 chars long",
		},
		{
			at: "spec.targetRefs[].namespace", kind: "maxLength", accepted: targets(`kind: Gateway, name: public, namespace: ` + letters(63)),
			rejected: targets(`kind: Gateway, name: public, namespace: ` + letters(64)), message: "may not be more than 63 bytes",
		},
		{
			at: "spec.targetRefs[]", kind: kindRule, field: "spec.targetRefs[0].namespace",
			accepted: targets(gateway), rejected: targets(`kind: HTTPRoute, namespace: infra, name: checkout`),
			message: "namespace is valid only with kind Gateway, because a policy can target only routes of its own namespace; remove namespace",
		},
		{
			at: "spec.targetRefs[].name", kind: "required", accepted: targets(gateway), rejected: targets(`kind: Gateway, namespace: infra`),
			message: "Required value",
		},
		{
			at: "spec.targetRefs[].name", kind: "minLength", accepted: targets(gateway), rejected: targets(`kind: Gateway, namespace: infra, name: ""`),
			message: "should be at least 1 chars long",
		},
		{
			at: "spec.targetRefs[].name", kind: "maxLength", accepted: targets(`kind: Gateway, namespace: infra, name: ` + letters(253)),
			rejected: targets(`kind: Gateway, namespace: infra, name: ` + letters(254)), message: "may not be more than 253 bytes",
		},
		{
			at: "spec.targetRefs[].sectionName", kind: "minLength", accepted: targets(gateway + `, sectionName: h`), rejected: targets(gateway + `, sectionName: ""`),
			message: "should be at least 1 chars long",
		},
		{
			at: "spec.targetRefs[].sectionName", kind: "maxLength", accepted: targets(gateway + `, sectionName: ` + letters(253)),
			rejected: targets(gateway + `, sectionName: ` + letters(254)), message: "may not be more than 253 bytes",
		},
		{
			at: "spec", kind: kindRule, field: "spec.match",
			accepted: withMatch(targets(gateway), `{http: {methods: [GET], paths: [{value: /v1}]}}`),
			rejected: withMatch(targets(gateway), `{http: {hosts: [shop.example]}}`),
			message: "match must not have descriptors, kubernetes and http.hosts together with targetRefs, which select the requests instead; " +
				"use other fields of match.http, or remove targetRefs",
		},
	}
}

// clusterTargetCases returns the cases that only a ClusterRateLimitPolicy has.
func clusterTargetCases() []schemaCase {
	const gateway = `targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: infra, name: public}]`
	return []schemaCase{
		{
			at: "spec", kind: kindRule, field: "spec.targetRefs", accepted: `spec: {` + gateway + `}`,
			rejected: `spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: public}]}`,
			message:  "targetRefs of a ClusterRateLimitPolicy must have kind Gateway and a namespace; use a RateLimitPolicy for a route",
		},
		{
			at: "spec", kind: kindRule, field: "spec.domains", accepted: `spec: {domains: [shop]}`,
			rejected: `spec: {domains: [shop], ` + gateway + `}`,
			message:  "domains must not be set together with targetRefs, because the routes of the Gateways determine the domains; remove one of them",
		},
	}
}

// withMatch adds a match to the spec of an object.
func withMatch(object, match string) string {
	return strings.TrimSuffix(object, "}") + `, match: ` + match + `}`
}
