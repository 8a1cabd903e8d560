package objects_test

import (
	"strings"
	"testing"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/internal/importer/envoyratelimit"
	"github.com/weir-dev/weir/internal/importer/objects"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
)

// TestImport_CountsByHashesOfCredentials imports what counts by credentials from each source that can.
func TestImport_CountsByHashesOfCredentials(t *testing.T) {
	schema, err := apischema.New()
	if err != nil {
		t.Fatal(err)
	}
	loader := policyfile.NewLoader(compile.DefaultIdentity(), schema)
	const gateway = "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: BackendTrafficPolicy\nmetadata: {name: a, namespace: shop}\nspec:\n" +
		"  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}]\n  rateLimit: {type: Global, global: {rules: [{clientSelectors: [SELECTOR], limit: {requests: 3, unit: Hour}}]}}\n"
	const kong = "apiVersion: configuration.konghq.com/v1\nkind: KongPlugin\nmetadata: {name: a, namespace: shop}\nplugin: rate-limiting\n" +
		"config: {minute: 60, limit_by: header, header_name: NAME, policy: redis}\n"
	const kuadrant = "apiVersion: kuadrant.io/v1\nkind: RateLimitPolicy\nmetadata: {name: a, namespace: shop}\nspec:\n  targetRef: {group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}\n" +
		"  limits: {a: {rates: [{limit: 5, window: 10s}], counters: [{expression: COUNTER}]}}\n"
	const traefik = "apiVersion: traefik.io/v1alpha1\nkind: Middleware\nmetadata: {name: a, namespace: shop}\nspec: {rateLimit: {average: 1, sourceCriterion: {requestHeaderName: NAME}}}\n"
	const service = "domain: shop\ndescriptors:\n"
	const limit = "rate_limit: {unit: hour, requests_per_unit: 1}"
	envoy := func(files []policyfile.File) *importer.Result {
		return envoyratelimit.Import(files, envoyratelimit.Options{Algorithm: "FixedWindow"})
	}
	for name, c := range map[string]struct {
		convert func([]policyfile.File) *importer.Result
		source  string
		secret  bool
	}{
		"a header of Envoy Gateway":                {objects.EnvoyGateway, strings.Replace(gateway, "SELECTOR", `{headers: [{name: x-api-key, type: Distinct}]}`, 1), true},
		"another header of Envoy Gateway":          {objects.EnvoyGateway, strings.Replace(gateway, "SELECTOR", `{headers: [{name: x-team, type: Distinct}]}`, 1), false},
		"two headers of Envoy Gateway":             {objects.EnvoyGateway, strings.Replace(gateway, "SELECTOR", `{headers: [{name: x-team, type: Distinct}, {name: Authorization, type: Distinct}]}`, 1), true},
		"a query parameter of Envoy Gateway":       {objects.EnvoyGateway, strings.Replace(gateway, "SELECTOR", `{queryParams: [{name: access_token, type: Distinct}]}`, 1), true},
		"a header of Kong":                         {objects.Kong, strings.Replace(kong, "NAME", "Apikey", 1), true},
		"another header of Kong":                   {objects.Kong, strings.Replace(kong, "NAME", "X-Team", 1), false},
		"a header of Kuadrant":                     {objects.Kuadrant, strings.Replace(kuadrant, "COUNTER", `"request.headers['authorization']"`, 1), true},
		"another header of Kuadrant":               {objects.Kuadrant, strings.Replace(kuadrant, "COUNTER", `"request.headers['x-team']"`, 1), false},
		"a header of Traefik":                      {objects.Traefik, strings.Replace(traefik, "NAME", "X-Auth-Token", 1), true},
		"a descriptor":                             {envoy, service + "- {key: api_key, " + limit + "}\n", true},
		"two descriptors":                          {envoy, service + "- key: plan\n  descriptors: [{key: authorization, " + limit + "}]\n", true},
		"two descriptors that are no credentials":  {envoy, service + "- key: plan\n  descriptors: [{key: tenant, " + limit + "}]\n", false},
		"a descriptor with a credential as value":  {envoy, service + "- {key: api_key, value: s3cret, " + limit + "}\n", true},
		"a descriptor below a credential as value": {envoy, service + "- key: api_key\n  value: s3cret\n  descriptors: [{key: path, " + limit + "}]\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			result := c.convert([]policyfile.File{{Name: "a.yaml", Content: []byte(c.source)}})
			outputs, err := result.Finish(loader)
			if err != nil {
				t.Fatal(err)
			}
			if len(outputs) != 1 || len(result.Policies) != 1 {
				t.Fatalf("%d policies: %v", len(result.Policies), result.Findings)
			}
			compiled := loader.Compile([]policyfile.File{{Name: "out", Content: outputs[0].Content}})
			isSecret, isNoted := compiled.Rules.Rules[0].Identifier.Secret, false
			for _, f := range result.Findings {
				isNoted = isNoted || strings.Contains(f.Message, "counts by credentials")
			}
			stated := strings.Contains(string(outputs[0].Content), "axis: APIKey")
			if isSecret != c.secret || isNoted != c.secret || stated != c.secret {
				t.Errorf("secret: %t, noted: %t, stated: %t\n%s\n%v", isSecret, isNoted, stated, outputs[0].Content, result.Findings)
			}
			if name := compiled.Rules.Rules[0].Policy; strings.Contains(name, "s3cret") {
				t.Errorf("the name of the policy contains a credential: %s", name)
			}
		})
	}
}
