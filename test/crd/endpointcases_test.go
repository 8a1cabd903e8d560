package crd

import "strings"

// endpoints returns a change of the minimal Limiter.
func endpoints(text string) string { return `spec: {endpoints: {` + text + `}}` }

func endpointCases() []schemaCase {
	claims := func(name string) string { return endpoints(`forwardAuth: {claimsHeader: ` + name + `}`) }
	all := []schemaCase{
		{
			at: "spec.logLevel", kind: "enum", accepted: `spec: {logLevel: Debug}`, rejected: `spec: {logLevel: debug}`,
			message: `Unsupported value: "debug": supported values: "Debug", "Info", "Warn", "Error"`,
		},
		{
			at: "spec.identity.ip.header", kind: "enum", accepted: identity(`{ip: {header: Forwarded}}`), rejected: identity(`{ip: {header: X-Real-IP}}`),
			message: `Unsupported value: "X-Real-IP": supported values: "X-Forwarded-For", "Forwarded"`,
		},
		{
			at: "spec.endpoints.drain", kind: "maxLength", accepted: endpoints(`drain: 0h00000m00010s`), rejected: endpoints(`drain: 0h00000m00010s0ms`),
			message: "may not be more than 16 bytes",
		},
		{
			at: "spec.endpoints.drain", kind: kindRule, accepted: endpoints(`drain: 5m`), rejected: endpoints(`drain: 1s1ms`),
			message: "drain must be from 0s to 5m, in whole seconds, for example 5s",
		},
		{
			at: "spec.endpoints.grpc.refunds", kind: "enum", accepted: endpoints(`grpc: {refunds: Forbidden}`), rejected: endpoints(`grpc: {refunds: Never}`),
			message: `Unsupported value: "Never": supported values: "Allowed", "Forbidden"`,
		},
		{
			at: "spec.endpoints.grpc.transport", kind: "enum", accepted: endpoints(`grpc: {transport: Standard}`), rejected: endpoints(`grpc: {transport: Slow}`),
			message: `Unsupported value: "Slow": supported values: "Fast", "Standard"`,
		},
		{
			at: "spec.endpoints.grpc.defaultDomain", kind: "maxLength", accepted: endpoints(`grpc: {defaultDomain: ` + letters(253) + `}`),
			rejected: endpoints(`grpc: {defaultDomain: ` + letters(254) + `}`), message: "may not be more than 253 bytes",
		},
		{
			at: "spec.endpoints.grpc.defaultDomain", kind: kindRule, accepted: endpoints(`grpc: {defaultDomain: shop}`),
			rejected: endpoints(`grpc: {defaultDomain: "the shop"}`), message: domainMessage,
		},
		{
			at: "spec.endpoints.forwardAuth.claimsHeader", kind: "maxLength", accepted: claims(letters(128)), rejected: claims(letters(129)),
			message: "may not be more than 128 bytes",
		},
		{at: "spec.endpoints.forwardAuth.claimsHeader", kind: kindRule, accepted: claims("X-Claims"), rejected: claims(`"X Claims"`), message: "a header" + tokenMessage},
	}
	all = append(all, networkCases("spec.endpoints.http.proxyProtocolFrom", func(list string) string {
		return endpoints(`http: {proxyProtocolFrom: ` + list + `}`)
	})...)
	for _, port := range []string{"http", "grpc"} {
		all = append(all, endpointTLSCases(port)...)
	}
	for _, port := range []string{"http", "grpc", "metrics", "throttle"} {
		from := func(peers string) string { return `spec: {networkPolicy: {from: {` + port + `: [` + peers + `]}}}` }
		all = append(all, schemaCase{
			at: "spec.networkPolicy.from." + port, kind: "minItems", accepted: from(`{podSelector: {}}`), rejected: from(``),
			message: "should have at least 1 items",
		}, schemaCase{
			at: "spec.networkPolicy.from." + port, kind: "maxItems", accepted: from(repeat(`{podSelector: {}}`, 64)), rejected: from(repeat(`{podSelector: {}}`, 65)),
			message: "Too many: 65: must have at most 64 items",
		})
	}
	return all
}

func endpointTLSCases(port string) []schemaCase {
	at := "spec.endpoints." + port + ".tls"
	tls := func(text string) string {
		return endpoints(port + `: {tls: {` + text + `}}`)
	}
	with := func(text string) string { return tls(`secretRef: {name: a}, ` + text) }
	names := func(list string) string { return with(`clientCASecretRef: {name: b}, clientNames: ` + list) }
	all := []schemaCase{
		{at: at + ".secretRef", kind: "required", accepted: with(``), rejected: tls(``), message: "Required value"},
		{
			at: at, kind: kindRule, field: at + ".clientNames", accepted: names(`[envoy.gateways.svc]`), rejected: with(`clientNames: [envoy.gateways.svc]`),
			message: "clientNames requires clientCASecretRef, because only a verified client certificate has a name; set clientCASecretRef or remove clientNames",
		},
		{at: at + ".clientNames", kind: "minItems", accepted: names(`[a]`), rejected: names(`[]`), message: "should have at least 1 items"},
		{at: at + ".clientNames", kind: "maxItems", accepted: names(numbered("n", 64)), rejected: names(numbered("n", 65)), message: "Too many: 65: must have at most 64 items"},
		{at: at + ".clientNames", kind: kindSet, field: at + ".clientNames[1]", accepted: names(`[a, b]`), rejected: names(`[a, a]`), message: `Duplicate value: "a"`},
		{at: at + ".clientNames[]", kind: "maxLength", accepted: names(`[` + letters(512) + `]`), rejected: names(`[` + letters(513) + `]`), message: "may not be more than 512 bytes"},
		{
			at: at + ".clientNames[]", kind: kindRule, accepted: names(`["spiffe://cluster.local/ns/gateways/sa/envoy"]`), rejected: names(`["an envoy"]`),
			message: "a client name must be a DNS name or a URI without spaces, such as envoy.gateways.svc or spiffe://cluster.local/ns/gateways/sa/envoy",
		},
	}
	all = append(all, secretCases(at+".secretRef", func(ref string) string { return tls(`secretRef: ` + ref) })...)
	return append(all, secretCases(at+".clientCASecretRef", func(ref string) string { return with(`clientCASecretRef: ` + strings.TrimSpace(ref)) })...)
}
