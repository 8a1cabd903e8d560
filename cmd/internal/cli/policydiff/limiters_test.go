package policydiff_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/cmd/internal/cli/policydiff"
	"github.com/weir-dev/weir/internal/policyfile/structure"
)

// limiterWith returns a Limiter with fields of its spec in flow style.
func limiterWith(fields string) string {
	return "apiVersion: weir.dev/v1alpha1\nkind: Limiter\nmetadata: {name: a, namespace: infra}\nspec: {" + fields + "}\n"
}

// limiterExamples has two specs for each field of a Limiter that changes decisions or responses, and the effect of the change from the first to the second.
func limiterExamples() map[string][3]string {
	const redis = "redis: {addresses: [a:1]}"
	all := map[string][3]string{}
	add := func(field, before, after string, effect policydiff.Effect) {
		with := func(text string) string {
			if strings.HasPrefix(text, "redis: ") {
				return text
			}
			return redis + ", " + text
		}
		all[field] = [3]string{with(before), with(after), string(effect)}
	}
	add("redis.addresses[]", "redis: {addresses: [a:1]}", "redis: {addresses: [b:1]}", policydiff.Different)
	add("redis.database", "redis: {addresses: [a:1]}", "redis: {addresses: [a:1], database: 1}", policydiff.Different)
	add("redis.mode", "redis: {addresses: [a:1]}", "redis: {addresses: [a:1], mode: Cluster}", policydiff.Different)
	add("redis.masterName", "redis: {addresses: [a:1], masterName: a}", "redis: {addresses: [a:1], masterName: b}", policydiff.Different)
	add("redis.timeout", "redis: {addresses: [a:1]}", "redis: {addresses: [a:1], timeout: 100ms}", policydiff.Different)
	add("counterGroup", "counterGroup: a", "counterGroup: b", policydiff.Different)
	add("identifiers.max", "identifiers: {max: 1000}", "identifiers: {max: 100}", policydiff.Stricter)
	add("identifiers.overflow", "identifiers: {overflow: Shared}", "identifiers: {overflow: Deny}", policydiff.Stricter)
	add("responseHeaders", "responseHeaders: RateLimit", "responseHeaders: None", policydiff.Same)

	for _, part := range []string{"perNamespace", "total"} {
		for _, limit := range []string{"bytes", "rules", "expressions", "regularExpressions"} {
			add("policyBudget."+part+"."+limit, "", "policyBudget: {"+part+": {"+limit+": 1}}", policydiff.Looser)
		}
	}
	for _, axis := range []string{"tenant", "user", "apiKey"} {
		add("identity."+axis+".header", "", "identity: {"+axis+": {header: X-Other}}", policydiff.Different)
	}
	add("identity.tenant.namespaceLabel", "", "identity: {tenant: {namespaceLabel: team}}", policydiff.Different)
	add("identity.tenant.namespaceAnnotation", "", "identity: {tenant: {namespaceAnnotation: team}}", policydiff.Different)
	add("identity.credentials[]", "", "identity: {credentials: [x-secret]}", policydiff.Different)
	add("identity.ip.header", "identity: {ip: {header: X-Forwarded-For}}", "identity: {ip: {header: Forwarded}}", policydiff.Different)
	add("identity.ip.ipv6PrefixLength", "", "identity: {ip: {ipv6PrefixLength: 56}}", policydiff.Different)
	add("identity.ip.trustedProxies[]", "", "identity: {ip: {trustedProxies: [10.0.0.0/8]}}", policydiff.Different)

	add("endpoints.forwardAuth.claimsHeader", "", "endpoints: {forwardAuth: {claimsHeader: X-Claims}}", policydiff.Different)
	add("endpoints.grpc.defaultDomain", "", "endpoints: {grpc: {defaultDomain: shop}}", policydiff.Different)
	add("endpoints.grpc.refunds", "endpoints: {grpc: {refunds: Allowed}}", "endpoints: {grpc: {refunds: Forbidden}}", policydiff.Stricter)
	add("endpoints.grpc.errorResponse", "", "endpoints: {grpc: {errorResponse: true}}", policydiff.Same)
	add("endpoints.grpc.unitMultiplier", "", "endpoints: {grpc: {unitMultiplier: true}}", policydiff.Same)
	add("endpoints.http.proxyProtocolFrom[]", "", "endpoints: {http: {proxyProtocolFrom: [10.0.0.0/8]}}", policydiff.Different)
	for _, port := range []string{"grpc", "http"} {
		tls := func(fields string) string {
			return "endpoints: {" + port + ": {tls: {secretRef: {name: a}" + fields + "}}}"
		}
		add("endpoints."+port+".tls.secretRef.name", "", tls(""), policydiff.Same)
		add("endpoints."+port+".tls.clientCASecretRef.name", tls(""), tls(", clientCASecretRef: {name: a}"), policydiff.Same)
		add("endpoints."+port+".tls.clientNames[]", tls(", clientCASecretRef: {name: a}"), tls(", clientCASecretRef: {name: a}, clientNames: [a.example]"), policydiff.Same)
	}
	gateway := func(fields string) string {
		return "routeMatching: {gateways: [{namespace: a, name: a" + fields + "}]}"
	}
	add("routeMatching.gateways[].name", gateway(""), strings.Replace(gateway(""), "name: a}", "name: b}", 1), policydiff.Different)
	add("routeMatching.gateways[].namespace", gateway(""), strings.Replace(gateway(""), "namespace: a", "namespace: b", 1), policydiff.Different)
	add("routeMatching.gateways[].sectionName", gateway(""), gateway(", sectionName: a"), policydiff.Different)

	throttle := func(fields string) string { return "kubernetesThrottle: {" + fields + "}" }
	add("kubernetesThrottle.mode", throttle("mode: Enforce"), throttle("mode: Disabled"), policydiff.Looser)
	add("kubernetesThrottle.failurePolicy", throttle(""), throttle("failurePolicy: Fail"), policydiff.Stricter)
	add("kubernetesThrottle.maxRetryAfter", throttle(""), throttle("maxRetryAfter: 9s"), policydiff.Same)
	add("kubernetesThrottle.warnAt", throttle(""), throttle("warnAt: 50%"), policydiff.Same)
	for _, list := range []string{"Groups", "Namespaces", "Users"} {
		add("kubernetesThrottle.additionalExempt"+list+"[]", throttle("additionalExempt"+list+": [a]"), throttle("additionalExempt"+list+": [a, b]"), policydiff.Looser)
	}
	selected := func(selector string) string {
		return throttle("namespacedPolicies: Selected, namespacedPolicySelector: " + selector)
	}
	add("kubernetesThrottle.namespacedPolicies", throttle(""), selected("{}"), policydiff.Different)
	for prefix, of := range map[string]func(string) string{
		"kubernetesThrottle.namespacedPolicySelector.": selected,
		"policySelector.":          func(s string) string { return "policySelector: " + s },
		"policyNamespaceSelector.": func(s string) string { return "policyNamespaceSelector: " + s },
	} {
		one := func(fields string) string { return of("{matchExpressions: [{" + fields + "}]}") }
		add(prefix+"matchLabels{}", of("{matchLabels: {team: a}}"), of("{matchLabels: {team: b}}"), policydiff.Different)
		add(prefix+"matchExpressions[].key", one("key: a, operator: Exists"), one("key: b, operator: Exists"), policydiff.Different)
		add(prefix+"matchExpressions[].operator", one("key: a, operator: Exists"), one("key: a, operator: DoesNotExist"), policydiff.Different)
		add(prefix+"matchExpressions[].values[]", one("key: a, operator: In, values: [a]"), one("key: a, operator: In, values: [b]"), policydiff.Different)
	}
	return all
}

// unenforced matches the fields of a Limiter that change neither decisions nor responses: how many pods there are, how they run, connect and log.
var unenforced = regexp.MustCompile(`^(replicas|autoscaling|podTemplate|podDisruptionBudget|image|networkPolicy|logLevel|decisionLog|tracing)\b|` +
	`^endpoints\.(drain|grpc\.transport)$|^redis\.(auth|credentialsSecretRef|operatorCredentialsSecretRef|tls)\b`)

// A change of each field of a Limiter that matters to clients is mentioned, in both directions, with opposite effects.
func TestCompare_MentionsEveryFieldOfALimiter(t *testing.T) {
	kind, _ := structure.Kind("Limiter")
	spec, _ := kind.Lookup("spec")
	all := limiterExamples()
	opposite := map[policydiff.Effect]policydiff.Effect{
		policydiff.Stricter: policydiff.Looser, policydiff.Looser: policydiff.Stricter, policydiff.Same: policydiff.Same, policydiff.Different: policydiff.Different,
	}
	for _, field := range leaves("", spec) {
		example, has := all[field]
		if isLeftOut := unenforced.MatchString(field); has == isLeftOut {
			t.Errorf("spec.%s: an example: %t, left out: %t. Add two Limiters that differ in it, or add it to the fields that do not matter to clients", field, has, isLeftOut)
		}
		if !has {
			continue
		}
		effect, want := policydiff.Effect(example[2]), "spec."+strings.NewReplacer("[]", "", "{}", ".team").Replace(field)
		for _, c := range []struct {
			before, after string
			effect        policydiff.Effect
		}{{example[0], example[1], effect}, {example[1], example[0], opposite[effect]}} {
			d := compare(t, limiterWith(c.before), limiterWith(c.after))
			if len(d.Limiters) != 1 || d.Limiters[0].Effect != c.effect || d.Limiters[0].Kind != policydiff.Edited {
				t.Errorf("spec.%s: %+v, want one Limiter that is %s\n%s\n%s", field, d.Limiters, c.effect, c.before, c.after)
				continue
			}
			if !slices.ContainsFunc(d.Limiters[0].Changes, func(c policydiff.Change) bool {
				at := place.ReplaceAllString(c.Field, "")
				return (at == want || strings.HasPrefix(want, at+".")) && at != "spec" && c.From != c.To && c.Why != ""
			}) {
				t.Errorf("spec.%s: a change is not mentioned, or has no reason: %+v", field, d.Limiters[0].Changes)
			}
		}
	}
}

// What is written in other words is no change.
func TestCompare_SameLimiters(t *testing.T) {
	for before, after := range map[string]string{
		"replicas: 2":                       "replicas: 20, image: a, logLevel: Debug, podTemplate: {labels: {a: b}}, networkPolicy: {from: {http: [{podSelector: {}}]}}",
		"":                                  "identity: {ip: {ipv6PrefixLength: 64, header: X-Forwarded-For}, tenant: {header: x-tenant-id}}, policySelector: {}, identifiers: {overflow: Shared}",
		"policyBudget: {}":                  "policyBudget: {total: {rules: 20000, bytes: 8388608}, perNamespace: {expressions: 100}}",
		"kubernetesThrottle: {}":            "kubernetesThrottle: {mode: Enforce, failurePolicy: Ignore, namespacedPolicies: None, maxRetryAfter: 5s, warnAt: 80%}",
		"responseHeaders: RateLimit":        "kubernetesThrottle: {mode: Disabled, additionalExemptUsers: [a]}, endpoints: {grpc: {errorResponse: false}}",
		"identity: {user: {header: X-Who}}": "identity: {user: {header: x-who}}",
	} {
		with := func(fields string) string {
			return limiterWith(strings.TrimSuffix("redis: {addresses: [a:1], timeout: 50ms}, "+fields, ", "))
		}
		if d := compare(t, with(before), strings.Replace(with(after), ", timeout: 50ms", "", 1)); len(d.Limiters) > 0 {
			t.Errorf("%s\n%s\n%+v", before, after, d.Limiters)
		}
	}
}

func TestCompare_NamesNewAndGoneLimitersAndWhatABudgetLeavesOut(t *testing.T) {
	const redis = "redis: {addresses: [a:1]}"
	policies := "---\n" + strings.ReplaceAll("apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: NAME, namespace: shop}\nspec: {axis: IP, limit: 10, window: 1m}\n---\n", "NAME", "one") +
		"apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: two, namespace: shop}\nspec: {axis: User, limit: 10, window: 1m}\n"
	before, after := limiterWith(redis)+policies, limiterWith(redis+", policyBudget: {total: {rules: 1}}")+policies
	for _, c := range []struct {
		before, after, text string
	}{
		{policies, before, "new (different): Limiter infra/a (policies.yaml:1): enforces the policies that it selects\n\nThe policies are the same. 1 Limiter differs: 1 new (different).\n"},
		{before, policies, "gone (different): Limiter infra/a (policies.yaml:1): enforces no policy any more\n\nThe policies are the same. 1 Limiter differs: 1 gone (different).\n"},
		{
			before, after, "looser: Limiter infra/a (policies.yaml:1): no longer enforces shop/two\n  spec.policyBudget.total.rules: 20000 → 1; policies above the budget are not enforced [looser]\n\n" +
				"The policies are the same. 1 Limiter differs: 1 looser.\n",
		},
		{
			after, before, "stricter: Limiter infra/a (policies.yaml:1): now enforces shop/two\n  spec.policyBudget.total.rules: 1 → 20000; policies above the budget are not enforced [stricter]\n\n" +
				"The policies are the same. 1 Limiter differs: 1 stricter.\n",
		},
		{before, before, "The policies are the same.\n"},
	} {
		d := compare(t, c.before, c.after)
		var text strings.Builder
		if err := d.Write(&text, policydiff.Text); err != nil || text.String() != c.text {
			t.Errorf("%v, got\n%swant\n%s", err, text.String(), c.text)
		}
		var markdown strings.Builder
		if err := d.Write(&markdown, policydiff.Markdown); err != nil || strings.Contains(markdown.String(), "`Limiter infra/a`") != (len(d.Limiters) > 0) {
			t.Errorf("%v\n%s", err, markdown.String())
		}
	}
}
