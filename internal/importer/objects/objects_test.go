package objects_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/internal/importer/objects"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
)

var update = flag.Bool("update", false, "write the expected output")

// TestImport_MatchesGoldenFiles imports each testdata/*.in.yaml. The output has the findings, as comments, and the policies.
func TestImport_MatchesGoldenFiles(t *testing.T) {
	schema, err := apischema.New()
	if err != nil {
		t.Fatal(err)
	}
	loader := policyfile.NewLoader(compile.DefaultIdentity(), schema)
	for name, convert := range map[string]func([]policyfile.File) *importer.Result{
		"envoygateway": objects.EnvoyGateway, "kuadrant": objects.Kuadrant, "eventratelimit": objects.EventRateLimit, "kong": objects.Kong, "traefik": objects.Traefik,
	} {
		t.Run(name, func(t *testing.T) {
			content, err := os.ReadFile(filepath.Join("testdata", name+".in.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			result := convert([]policyfile.File{{Name: name + ".in.yaml", Content: content}})
			outputs, err := result.Finish(loader)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for _, f := range result.Findings {
				b.WriteString("# " + f.String() + "\n")
			}
			for _, o := range outputs {
				b.WriteString("---\n" + string(o.Content))
			}
			golden := filepath.Join("testdata", name+".out.yaml")
			if *update {
				if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), b.String()); diff != "" {
				t.Errorf("%s (-want +got); run go test -update to update it:\n%s", golden, diff)
			}
		})
	}
}

func TestImport_RejectsFilesWithoutAnObject(t *testing.T) {
	result := objects.Traefik([]policyfile.File{{Name: "a.yaml", Content: []byte("apiVersion: v1\nkind: Service\n")}})
	want := []string{
		"a.yaml:1: note: skipped: Service of v1",
		"a.yaml:1: error: no file has an object of kind Middleware in traefik.io",
	}
	var got []string
	for _, f := range result.Findings {
		got = append(got, f.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// findings returns the findings for a file.
func findings(convert func([]policyfile.File) *importer.Result, content string) (all []string) {
	for _, f := range convert([]policyfile.File{{Name: "a.yaml", Content: []byte(content)}}).Findings {
		all = append(all, f.String())
	}
	return all
}

// kongPlugin returns a KongPlugin with the fields, each in its line from line 5 on.
func kongPlugin(fields string) string {
	return "apiVersion: configuration.konghq.com/v1\nkind: KongPlugin\nmetadata: {name: a}\nplugin: rate-limiting\n" + fields + "\n"
}

func TestKong_RejectsWhatKongRejects(t *testing.T) {
	for fields, want := range map[string]string{
		"config: {minute: 1, limit_by: header}": "a.yaml:1: error: header_name is missing; limit_by: header requires the name of the header",
		"config: {minute: 0, limit_by: ip}":     "a.yaml:5: error: minute must be more than 0, as Kong requires; to deny every request, write a policy with limit: 0",
		"config: {limit_by: ip, day: null}":     "a.yaml:1: error: the plugin has no limit; Kong requires one of second, minute, hour, day, month and year in config",
		"config: {minute: 1, limit_by: path}":   "a.yaml:1: error: path is missing; limit_by: path requires the path",
	} {
		if diff := cmp.Diff([]string{want}, findings(objects.Kong, kongPlugin(fields))); diff != "" {
			t.Errorf("%s: %s", fields, diff)
		}
	}
}

// A limit that is missing must not become a limit of 0, which denies every request.
func TestImport_RejectsMissingLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		convert       func([]policyfile.File) *importer.Result
		content, want string
	}{
		"Envoy Gateway": {
			objects.EnvoyGateway, "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: BackendTrafficPolicy\nspec:\n  targetRef: {kind: HTTPRoute, name: a}\n" +
				"  rateLimit: {global: {rules: [{limit: {unit: Hour}}]}}\n",
			"a.yaml:5: error: requests is missing",
		},
		"Kuadrant": {
			objects.Kuadrant, "apiVersion: kuadrant.io/v1\nkind: RateLimitPolicy\nspec:\n  targetRef: {kind: HTTPRoute, name: a}\n" +
				"  limits: {all: {rates: [{window: 1h}]}}\n",
			"a.yaml:5: error: limit is missing",
		},
		"Envoy Gateway: unit": {
			objects.EnvoyGateway, "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: BackendTrafficPolicy\nspec:\n  targetRef: {kind: HTTPRoute, name: a}\n" +
				"  rateLimit: {global: {rules: [{limit: {requests: 5}}]}}\n",
			"a.yaml:5: error: unit is missing; the units are Second, Minute, Hour, Day, Week, Month and Year",
		},
		"Kuadrant: window": {
			objects.Kuadrant, "apiVersion: kuadrant.io/v1\nkind: RateLimitPolicy\nspec:\n  targetRef: {kind: HTTPRoute, name: a}\n  limits: {all: {rates: [{limit: 1}]}}\n",
			"a.yaml:5: error: window is missing; set it to a duration such as 10s",
		},
		"EventRateLimit": {
			objects.EventRateLimit, "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\nlimits:\n- {type: Server, burst: 1}\n",
			"a.yaml:4: error: qps and burst must be more than 0, as the API server requires; to deny every Event, write a policy with limit: 0",
		},
	} {
		if got := findings(tc.convert, tc.content); !slices.Contains(got, tc.want) {
			t.Errorf("%s: findings %q, want %q", name, got, tc.want)
		}
	}
}

func TestKuadrant_ALimitOf0IsImported(t *testing.T) {
	result := objects.Kuadrant([]policyfile.File{{Name: "a.yaml", Content: []byte("apiVersion: kuadrant.io/v1\nkind: RateLimitPolicy\nspec:\n" +
		"  targetRef: {kind: HTTPRoute, name: a}\n  limits: {all: {rates: [{limit: 0, window: 1h}]}}\n")}})
	if len(result.Policies) != 1 || *result.Policies[0].Spec.Limit != 0 || result.Policies[0].Spec.Cost != nil || result.Count(importer.Invalid) != 0 {
		t.Errorf("policies %v, findings %v", result.Policies, result.Findings)
	}
}

func TestKong_ReadsAllFieldsOfTheObject(t *testing.T) {
	const config = "\nconfig: {minute: 1, limit_by: ip}"
	for name, tc := range map[string]struct{ fields, want string }{
		"disabled":       {"disabled: true\nconsumerRef: alice" + config, "a.yaml:5: note: the plugin is disabled, so it does not need a policy"},
		"consumerRef":    {"consumerRef: alice" + config, "a.yaml:5: not imported: consumerRef: the plugin applies to one consumer; write a policy with a condition on the header or claim of the consumer"},
		"configFrom":     {"configFrom: {}" + config, "a.yaml:5: not imported: configFrom: it reads the configuration from Secrets; write the configuration in config"},
		"configPatches":  {"configPatches: []" + config, "a.yaml:5: not imported: configPatches: it reads the configuration from Secrets; write the configuration in config"},
		"protocols":      {"protocols: [grpc]" + config, "a.yaml:5: not imported: protocols: a policy applies to all protocols; list http and https, or remove protocols"},
		"instance_name":  {"protocols: [http, https]\ninstance_name: b" + config, "a.yaml:6: note: instance_name has no effect: policies do not have an order or a second name"},
		"another field":  {"run: first" + config, "a.yaml:5: not imported: run: unknown field of KongPlugin"},
		"another plugin": {"", "a.yaml:1: not imported: plugin response-ratelimiting is not imported; only rate-limiting is"},
	} {
		t.Run(name, func(t *testing.T) {
			content := kongPlugin(tc.fields)
			if tc.fields == "" {
				content = strings.Replace(content, "rate-limiting", "response-ratelimiting", 1)
			}
			if got := findings(objects.Kong, content); !slices.Contains(got, tc.want) {
				t.Errorf("findings %q, want %q", got, tc.want)
			}
			want := 0
			if name == "instance_name" {
				want = 1
			}
			if got := objects.Kong([]policyfile.File{{Name: "a.yaml", Content: []byte(content)}}).Policies; len(got) != want {
				t.Errorf("%d policies, want %d", len(got), want)
			}
		})
	}
}

func TestImport_ReportsItsKindsInOtherGroups(t *testing.T) {
	got := findings(objects.Kuadrant, "apiVersion: apim.kuadrant.io/v1alpha1\nkind: RateLimitPolicy\n")
	want := []string{"a.yaml:1: not imported: RateLimitPolicy of apim.kuadrant.io/v1alpha1 is not in the API group kuadrant.io; " +
		"set apiVersion to this group if the fields are the same, or remove the object"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got = findings(objects.Kuadrant, "apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\n---\napiVersion: kuadrant.io/v1\nkind: RateLimitPolicy\n"+
		"spec: {targetRef: {kind: HTTPRoute, name: a}, limits: {a: {rates: []}}}\n")
	if diff := cmp.Diff([]string{"a.yaml:1: note: skipped: RateLimitPolicy of weir.dev/v1alpha1", "a.yaml:6: note: limit a has no rates, so it does not need a policy"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestEnvoyGateway_RejectsUnknownMethods(t *testing.T) {
	got := findings(objects.EnvoyGateway, "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: BackendTrafficPolicy\nspec:\n  targetRef: {kind: HTTPRoute, name: a}\n"+
		"  rateLimit: {global: {rules: [{limit: {requests: 1, unit: Hour}, clientSelectors: [{methods: [{value: get}]}]}]}}\n")
	want := []string{`a.yaml:5: error: unknown method "get"; the methods are GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, CONNECT, TRACE`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Two limits of one type both apply.
func TestEventRateLimit_NamesLimitsThatAreAlike(t *testing.T) {
	policies, findings := imported(t, objects.EventRateLimit, "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\n"+
		"limits: [{type: Server, qps: 5, burst: 10}, {type: Server, qps: 1, burst: 100}]\n")
	if len(findings) != 2 || !strings.Contains(policies, "name: events-server\n") || !strings.Contains(policies, "name: events-server-2\n") {
		t.Errorf("%s%v", policies, findings)
	}
}

func TestTraefik_ReportsOneProblemOfAnInvalidLimit(t *testing.T) {
	for fields, want := range map[string]string{
		"{average: -1}": `error: average must be a whole number of at least 0, but is "-1"`,
		"{avarage: 5}":  "not imported: avarage: unknown field of rateLimit; the fields are average, burst, period, sourceCriterion, redis",
	} {
		got := findings(objects.Traefik, "apiVersion: traefik.io/v1alpha1\nkind: Middleware\nmetadata: {name: a}\nspec: {rateLimit: "+fields+"}\n")
		if diff := cmp.Diff([]string{"a.yaml:4: " + want}, got); diff != "" {
			t.Errorf("%s: %s", fields, diff)
		}
	}
}

// A header without a value would become a condition on an empty value.
func TestEnvoyGateway_RejectsConditionsThatEnvoyGatewayRejects(t *testing.T) {
	const distinct = "x: a condition of type Distinct must have neither value nor invert, as Envoy Gateway requires"
	const missing = "x: value is missing; Envoy Gateway requires it unless the type is Distinct"
	for selector, want := range map[string]string{
		"{headers: [{name: x, type: Distinct, invert: true}]}":     distinct,
		"{headers: [{name: x, type: Distinct, value: a}]}":         distinct,
		"{queryParams: [{name: x, type: Distinct, invert: true}]}": distinct,
		"{headers: [{name: x}]}":                                   missing,
		"{headers: [{name: x, type: RegularExpression, value: }]}": missing,
		"{queryParams: [{name: x, type: Exact}]}":                  missing,
		"{}": "the selector is empty; Envoy Gateway requires headers, methods, path, sourceCIDR or queryParams",
	} {
		result := objects.EnvoyGateway([]policyfile.File{{Name: "a.yaml", Content: []byte("apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: BackendTrafficPolicy\nspec:\n" +
			"  targetRef: {kind: HTTPRoute, name: a}\n  rateLimit: {global: {rules: [{limit: {requests: 1, unit: Hour}, clientSelectors: [" + selector + "]}]}}\n")}})
		if len(result.Findings) != 1 || result.Findings[0].String() != "a.yaml:5: error: "+want {
			t.Errorf("%s: %v", selector, result.Findings)
		}
	}
}

func TestKuadrant_DoesNotImportARateWithAnUnknownField(t *testing.T) {
	result := objects.Kuadrant([]policyfile.File{{Name: "a.yaml", Content: []byte("apiVersion: kuadrant.io/v1\nkind: RateLimitPolicy\nspec:\n" +
		"  targetRef: {kind: HTTPRoute, name: a}\n  limits: {all: {rates: [{limit: 1, window: 1h, burst: 3}, {limit: 9, window: 1d}]}}\n")}})
	if len(result.Policies) != 1 || *result.Policies[0].Spec.Limit != 9 || result.Count(importer.NotImported) != 1 {
		t.Errorf("policies %v, findings %v", result.Policies, result.Findings)
	}
}
