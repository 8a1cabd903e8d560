package crd

import (
	"fmt"
	"strings"
)

// redis, identity and template return changes of the minimal Limiter.
func redis(text string) string    { return `spec: {redis: ` + text + `}` }
func identity(text string) string { return `spec: {identity: ` + text + `}` }
func template(text string) string { return `spec: {podTemplate: ` + text + `}` }

func limiterCases() []schemaCase {
	all := append(limiterNameCases(), redisCases()...)
	all = append(all, redisAddressCases()...)
	all = append(all, redisAuthCases()...)
	all = append(all, secretCases("spec.redis.credentialsSecretRef", func(ref string) string { return redis(`{credentialsSecretRef: ` + ref + `}`) })...)
	all = append(all, secretCases("spec.redis.operatorCredentialsSecretRef", func(ref string) string {
		return redis(`{operatorCredentialsSecretRef: ` + ref + `}`)
	})...)
	all = append(all, secretCases("spec.redis.tls.secretRef", func(ref string) string { return redis(`{tls: {secretRef: ` + ref + `}}`) })...)
	all = append(all, networkCases("spec.identity.ip.trustedProxies", func(list string) string { return identity(`{ip: {trustedProxies: ` + list + `}}`) })...)
	all = append(all, secretCases("spec.podTemplate.imagePullSecrets[]", func(ref string) string { return template(`{imagePullSecrets: [` + ref + `]}`) })...)
	all = append(all, selectorCases("spec.policySelector", func(text string) string { return `spec: {policySelector: ` + text + `}` })...)
	all = append(all, selectorCases("spec.policyNamespaceSelector", func(text string) string { return `spec: {policyNamespaceSelector: ` + text + `}` })...)
	for _, axis := range []string{"tenant", "user", "apiKey"} {
		all = append(all, identityHeaderCases(axis)...)
	}
	all = append(all, throttleCases()...)
	all = append(all, endpointCases()...)
	all = append(all, counterCases()...)
	all = append(all, routeMatchingCases()...)
	all = append(all, decisionLogCases()...)
	all = append(all, tracingCases()...)
	all = append(all, tenantCases()...)
	return append(all, podCases()...)
}

func limiterNameCases() []schemaCase {
	named := func(name string) string { return `metadata: {name: ` + name + `}` }
	return []schemaCase{
		{
			at: "", kind: kindRule, field: "<nil>", accepted: named(letters(50)), rejected: named(letters(51)),
			message: "metadata.name must be at most 50 characters, because the Service is named weir-limiter-<name> and the name of a Service has at most 63",
		},
		{
			at: "", kind: kindRule, field: "<nil>", accepted: named("edge-1"), rejected: named("edge.1"),
			message: "metadata.name must not contain a dot, because it is part of the name of a Service, which is a DNS label",
		},
		{at: "spec", kind: "required", accepted: `{}`, rejected: `spec: null`, message: "Required value"},
		{at: "spec.redis", kind: "required", accepted: `{}`, rejected: `spec: {redis: null}`, message: "Required value"},
		{
			at: "spec.responseHeaders", kind: "enum", accepted: `spec: {responseHeaders: GitHub}`, rejected: `spec: {responseHeaders: draft11}`,
			message: `Unsupported value: "draft11": supported values: "RateLimit", "XRateLimit", "GitHub", "None"`,
		},
		{
			at: "spec.image", kind: "maxLength", accepted: `spec: {image: ` + letters(512) + `}`, rejected: `spec: {image: ` + letters(513) + `}`,
			message: "may not be more than 512 bytes",
		},
		{
			at: "spec.image", kind: kindRule, accepted: `spec: {image: "registry.example:5000/weir:v1"}`, rejected: `spec: {image: "weir v1"}`,
			message: "image must be an image reference without spaces, such as registry.example/weir:v1",
		},
	}
}

// selectorCases returns the cases for the label selector at a path. in returns an object with the selector.
func selectorCases(at string, in func(selector string) string) []schemaCase {
	field := strings.ReplaceAll(at, "[]", "[0]")
	expression := func(rest string) string {
		return in(`{matchExpressions: [{key: team, ` + rest + `}]}`)
	}
	operator := func(accepted, rejected string) schemaCase {
		return schemaCase{
			at: at, kind: kindRule, accepted: expression(accepted), rejected: expression(rejected),
			message: "operator must be In or NotIn with values, or Exists or DoesNotExist without values",
		}
	}
	with := func(text string) string { return in(`{` + text + `}`) }
	key := func(key string) string { return with(`matchExpressions: [{operator: Exists, key: ` + key + `}]`) }
	label := func(key, value string) string { return with(`matchLabels: {` + key + `: ` + value + `}`) }
	values := func(values string) string {
		return with(`matchExpressions: [{operator: In, key: team, values: ` + values + `}]`)
	}
	expressions := func(n int) string {
		return with(`matchExpressions: [` + strings.Repeat(`{operator: Exists, key: team},`, n) + `]`)
	}
	return []schemaCase{
		{
			at: at + ".matchLabels", kind: "maxProperties", accepted: with(`matchLabels: ` + properties(64)), rejected: with(`matchLabels: ` + properties(65)),
			message: "must have at most 64 items",
		},
		{
			at: at + ".matchLabels", kind: kindRule, accepted: label("example.com/team", "retail"), rejected: label("a team", "retail"), message: labelKeyMessage,
		},
		{
			at: at + ".matchLabels{}", field: field + ".matchLabels.team", kind: "maxLength", accepted: label("team", letters(63)), rejected: label("team", letters(64)),
			message: "may not be more than 63 bytes",
		},
		{
			at: at + ".matchLabels{}", field: field + ".matchLabels[team]", kind: kindRule, accepted: label("team", `""`), rejected: label("team", "payments team"),
			message: labelValueMessage,
		},
		{
			at: at + ".matchExpressions", kind: "maxItems", accepted: expressions(64), rejected: expressions(65), message: "must have at most 64 items",
		},
		{
			at: at + ".matchExpressions[].key", kind: "required", accepted: key("team"), rejected: with(`matchExpressions: [{operator: Exists}]`), message: "Required value",
		},
		{
			at: at + ".matchExpressions[].operator", kind: "required", accepted: key("team"), rejected: with(`matchExpressions: [{key: team}]`), message: "Required value",
		},
		{
			at: at + ".matchExpressions[].operator", kind: "maxLength", accepted: key("team"),
			rejected: with(`matchExpressions: [{key: team, operator: ` + letters(17) + `}]`), message: "may not be more than 16 bytes",
		},
		{
			at: at + ".matchExpressions[].key", kind: "maxLength", accepted: key("example.com/" + letters(63)), rejected: key(letters(318)),
			message: "may not be more than 317 bytes",
		},
		{
			at: at + ".matchExpressions[].key", kind: kindRule, accepted: key("team"), rejected: key("a..b/team"), message: labelKeyMessage,
		},
		{
			at: at + ".matchExpressions[].values", kind: "maxItems", accepted: values(numbered("v", 64)), rejected: values(numbered("v", 65)),
			message: "must have at most 64 items",
		},
		{
			at: at + ".matchExpressions[].values[]", kind: "maxLength", accepted: values(`[` + letters(63) + `]`), rejected: values(`[` + letters(64) + `]`),
			message: "may not be more than 63 bytes",
		},
		{
			at: at + ".matchExpressions[].values[]", kind: kindRule, accepted: values(`[retail, ""]`), rejected: values(`[-]`), message: labelValueMessage,
		},
		operator(`operator: In, values: [retail]`, `operator: Near, values: [retail]`),
		operator(`operator: NotIn, values: [retail]`, `operator: NotIn`),
		operator(`operator: Exists`, `operator: in`),
		operator(`operator: DoesNotExist`, `operator: DoesNotExist, values: [retail]`),
	}
}

const (
	labelKeyMessage   = "a label key must be a name of at most 63 letters, digits, dots, hyphens and underscores such as team, or a DNS name, a slash and a name, such as example.com/team"
	labelValueMessage = "a label value must be empty, or consist of letters, digits, dots, hyphens and underscores and begin and end with a letter or digit"
)

func redisCases() []schemaCase {
	sentinel := func(rest string) string { return redis(`{mode: Sentinel, ` + rest + `}`) }
	const named = "masterName must be one or more letters, digits, dots, hyphens and underscores"
	return append([]schemaCase{
		{
			at: "spec.redis.mode", kind: "enum", accepted: redis(`{mode: Cluster}`), rejected: redis(`{mode: cluster}`),
			message: `Unsupported value: "cluster": supported values: "Auto", "Standalone", "Sentinel", "Cluster"`,
		},
		{
			at: "spec.redis", kind: kindRule, field: "spec.redis.addresses", accepted: redis(addresses(2)),
			rejected: redis(`{mode: Standalone, addresses: ["a:6379", "b:6379"]}`),
			message:  "mode Standalone requires exactly one address; use mode Auto, Sentinel or Cluster for several addresses",
		},
		{
			at: "spec.redis", kind: kindRule, field: "spec.redis.masterName", accepted: sentinel(`masterName: weir`), rejected: redis(`{mode: Sentinel}`),
			message: "masterName is required with mode Sentinel: it is the name of the primary in the Sentinel configuration",
		},
		{
			at: "spec.redis", kind: kindRule, field: "spec.redis.masterName", accepted: redis(`{masterName: weir}`), rejected: redis(`{mode: Cluster, masterName: weir}`),
			message: "masterName is valid only with mode Auto or Sentinel; remove it or use one of these modes",
		},
		{
			at: "spec.redis", kind: kindRule, field: "spec.redis.database", accepted: redis(`{mode: Cluster, database: 0}`), rejected: redis(`{mode: Cluster, database: 1}`),
			message: "database must be 0 with mode Cluster, because a Redis Cluster has only database 0",
		},
		{
			at: "spec.redis", kind: kindRule, field: "spec.redis.database",
			accepted: redis(`{addresses: ["a:6379", "b:6379"], masterName: weir, database: 1}`),
			rejected: redis(`{addresses: ["a:6379", "b:6379"], database: 1}`),
			message:  "database must be 0 with several addresses and without masterName: they are those of a Redis Cluster, which has only database 0",
		},
		{
			at: "spec.redis.masterName", kind: "maxLength",
			accepted: sentinel(`masterName: ` + letters(253)), rejected: sentinel(`masterName: ` + letters(254)),
			message: "may not be more than 253 bytes",
		},
		{at: "spec.redis.masterName", kind: kindRule, accepted: sentinel(`masterName: weir_1.a-b`), rejected: sentinel(`masterName: "my master"`), message: named},
		{
			at: "spec.redis.timeout", kind: "maxLength", accepted: redis(`{timeout: 0m00010s00000ms}`), rejected: redis(`{timeout: 000000000000010ms}`),
			message: "may not be more than 16 bytes",
		},
		{
			at: "spec.redis.timeout", kind: kindRule, accepted: redis(`{timeout: 10000ms}`), rejected: redis(`{timeout: 10001ms}`),
			message: timeoutMessage,
		},
	}, betweenCases("spec.redis.database", 0, 16383, func(n int) string { return redis(fmt.Sprintf(`{database: %d}`, n)) })...)
}

const timeoutMessage = "timeout must be from 1ms to 10s, such as 50ms or 1s"

func redisAddressCases() []schemaCase {
	const at = "spec.redis.addresses"
	cluster := func(list string) string { return redis(`{mode: Cluster, addresses: ` + list + `}`) }
	return []schemaCase{
		{at: at, kind: "required", accepted: `{}`, rejected: redis(`{addresses: null}`), message: "Required value"},
		{at: at, kind: "minItems", accepted: cluster(`["a:1"]`), rejected: cluster(`[]`), message: "should have at least 1 items"},
		{
			at: at, kind: "maxItems", accepted: redis(`{mode: Cluster, ` + strings.Trim(addresses(32), "{}") + `}`),
			rejected: redis(`{mode: Cluster, ` + strings.Trim(addresses(33), "{}") + `}`),
			message:  "Too many: 33: must have at most 32 items",
		},
		{
			at: at, kind: kindSet, field: at + "[1]", accepted: cluster(`["a:1", "a:2"]`), rejected: cluster(`["a:1", "a:1"]`),
			message: `Duplicate value: "a:1"`,
		},
		{
			at: at + "[]", kind: "maxLength", accepted: cluster(`["` + longHost(253) + `:65535"]`), rejected: cluster(`["` + longHost(254) + `:65535"]`),
			message: "may not be more than 259 bytes",
		},
		{at: at + "[]", kind: kindRule, accepted: cluster(`["[2001:db8::7]:65535"]`), rejected: cluster(`["redis://redis:6379"]`), message: addressMessage},
	}
}

const addressMessage = "an address must be host:port without a scheme, such as redis.redis:6379, 10.0.0.7:6379 or [2001:db8::7]:6379"

// addresses returns the part of spec.redis with n addresses.
func addresses(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`"redis-%d:6379"`, i)
	}
	return `{addresses: [` + strings.Join(list, ", ") + `]}`
}

// secretCases returns the cases for a reference to a Secret at a path of the schema. with returns the change that sets the reference.
func secretCases(at string, with func(string) string) []schemaCase {
	named := func(name string) string { return with(`{name: ` + name + `}`) }
	return []schemaCase{
		{at: at + ".name", kind: "required", accepted: named("redis"), rejected: with(`{}`), message: "Required value"},
		{at: at + ".name", kind: "maxLength", accepted: named(letters(253)), rejected: named(letters(254)), message: "may not be more than 253 bytes"},
		{
			at: at + ".name", kind: kindRule, accepted: named("redis.shop-1"), rejected: named("Redis"),
			message: "the name of a Secret must consist of lower-case letters, digits, hyphens and dots, and must begin and end with a letter or digit",
		},
	}
}

// identityHeaderCases returns the cases for the header of an axis in spec.identity.
func identityHeaderCases(axis string) []schemaCase {
	header := func(name string) string { return identity(`{` + axis + `: {header: ` + name + `}}`) }
	at := "spec.identity." + axis + ".header"
	return []schemaCase{
		{at: at, kind: "maxLength", accepted: header(letters(128)), rejected: header(letters(129)), message: "may not be more than 128 bytes"},
		{at: at, kind: kindRule, accepted: header("X-Who"), rejected: header(`"X Who"`), message: "a header" + tokenMessage},
	}
}

func podCases() []schemaCase {
	number := func(format string) func(int) string { return func(n int) string { return fmt.Sprintf(format, n) } }
	all := []schemaCase{
		{
			at: "spec.autoscaling.maxReplicas", kind: "required", accepted: `spec: {autoscaling: {maxReplicas: 4}}`, rejected: `spec: {autoscaling: {}}`,
			message: "Required value",
		},
		{
			at: "spec.autoscaling", kind: kindRule, field: "spec.autoscaling.minReplicas",
			accepted: `spec: {autoscaling: {minReplicas: 4, maxReplicas: 4}}`, rejected: `spec: {autoscaling: {minReplicas: 5, maxReplicas: 4}}`,
			message: "minReplicas must not be greater than maxReplicas",
		},
		{
			at: "spec.podTemplate.priorityClassName", kind: "maxLength", accepted: template(`{priorityClassName: ` + letters(253) + `}`),
			rejected: template(`{priorityClassName: ` + letters(254) + `}`), message: "may not be more than 253 bytes",
		},
		{
			at: "spec.podTemplate.imagePullSecrets", kind: "maxItems", accepted: template(`{imagePullSecrets: [` + repeat(`{name: registry}`, 16) + `]}`),
			rejected: template(`{imagePullSecrets: [` + repeat(`{name: registry}`, 17) + `]}`), message: "must have at most 16 items",
		},
		{
			at: "spec.podTemplate.tolerations", kind: "maxItems",
			accepted: template(`{tolerations: [` + repeat(`{operator: Exists}`, 64) + `]}`), rejected: template(`{tolerations: [` + repeat(`{operator: Exists}`, 65) + `]}`),
			message: "Too many: 65: must have at most 64 items",
		},
		{
			at: "spec.podTemplate.labels", kind: kindRule, accepted: template(`{labels: {team: edge}}`), rejected: template(`{labels: {app.kubernetes.io/name: mine}}`),
			message: reservedLabelsMessage,
		},
	}
	for _, field := range []string{"nodeSelector", "labels", "annotations"} {
		all = append(all, schemaCase{
			at: "spec.podTemplate." + field, kind: "maxProperties",
			accepted: template(`{` + field + `: ` + properties(64) + `}`), rejected: template(`{` + field + `: ` + properties(65) + `}`),
			message: "must have at most 64 items",
		})
	}
	all = append(all, betweenCases("spec.replicas", 0, 1000, number(`spec: {replicas: %d}`))...)
	for _, part := range []string{"perNamespace", "total"} {
		for _, limit := range []string{"bytes", "rules", "expressions", "regularExpressions"} {
			all = append(all, betweenCases("spec.policyBudget."+part+"."+limit, 1, 1_000_000_000, number(`spec: {policyBudget: {`+part+`: {`+limit+`: %d}}}`))...)
		}
	}
	all = append(all, betweenCases("spec.identity.ip.ipv6PrefixLength", 1, 128, number(`spec: {identity: {ip: {ipv6PrefixLength: %d}}}`))...)
	all = append(all, betweenCases("spec.autoscaling.minReplicas", 1, 1000, number(`spec: {autoscaling: {maxReplicas: 1000, minReplicas: %d}}`))...)
	all = append(all, betweenCases("spec.autoscaling.maxReplicas", 1, 1000, number(`spec: {autoscaling: {minReplicas: 1, maxReplicas: %d}}`))...)
	all = append(all, percentageCases("spec.autoscaling.targetCPUUtilization", "targetCPUUtilization must be a whole percentage from 1% to 1000%", "1000%", "0%",
		func(percentage string) string {
			return `spec: {autoscaling: {maxReplicas: 4, targetCPUUtilization: ` + percentage + `}}`
		})...)
	return append(all, betweenCases("spec.podDisruptionBudget.maxUnavailable", 1, 1000, number(`spec: {podDisruptionBudget: {maxUnavailable: %d}}`))...)
}

const reservedLabelsMessage = "labels must not have app.kubernetes.io/name, app.kubernetes.io/component or app.kubernetes.io/instance, because Weir selects its pods by them"

// betweenCases returns the cases for a number from minimum to maximum.
func betweenCases(at string, minimum, maximum int, with func(int) string) []schemaCase {
	return []schemaCase{
		{at: at, kind: "minimum", accepted: with(minimum), rejected: with(minimum - 1), message: fmt.Sprintf("should be greater than or equal to %d", minimum)},
		{at: at, kind: "maximum", accepted: with(maximum), rejected: with(maximum + 1), message: fmt.Sprintf("should be less than or equal to %d", maximum)},
	}
}

// percentageCases are the cases of a field with a Percentage.
func percentageCases(at, message, accepted, rejected string, with func(string) string) []schemaCase {
	return []schemaCase{
		{at: at, kind: "maxLength", accepted: with("80%"), rejected: with("00080%"), message: "may not be more than 5 bytes"},
		{at: at, kind: kindRule, accepted: with(accepted), rejected: with(rejected), message: message},
	}
}

// properties returns a YAML map with n entries.
func properties(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`k%d: v`, i)
	}
	return `{` + strings.Join(list, ", ") + `}`
}
