package envoyratelimit_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/importer/envoyratelimit"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
)

// newLoader returns one loader for all tests, because it parses the CRDs.
var newLoader = sync.OnceValues(func() (*policyfile.Loader, error) {
	schema, err := apischema.New()
	return policyfile.NewLoader(compile.DefaultIdentity(), schema), err
})

// run imports the files, which are named a.yaml, b.yaml and so on, and returns the findings and the policies in one text.
func run(t *testing.T, options envoyratelimit.Options, files ...string) (findings []string, policies string) {
	t.Helper()
	var list []policyfile.File
	for i, content := range files {
		list = append(list, policyfile.File{Name: string(rune('a'+i)) + ".yaml", Content: []byte(content)})
	}
	if options.Algorithm == "" {
		options.Algorithm = v1alpha1.FixedWindow
	}
	result := envoyratelimit.Import(list, options)
	loader, err := newLoader()
	if err != nil {
		t.Fatal(err)
	}
	outputs, err := result.Finish(loader)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range result.Findings {
		findings = append(findings, f.String())
	}
	var b strings.Builder
	for _, o := range outputs {
		b.WriteString(o.Name + ":\n" + string(o.Content))
	}
	return findings, b.String()
}

// ok is a limit of a descriptor.
const ok = "  rate_limit: {unit: hour, requests_per_unit: 1}\n"

func TestImport_RejectsWhatTheServiceRejects(t *testing.T) {
	for name, tc := range map[string]struct {
		files []string
		want  []string
	}{
		"no YAML":           {[]string{"domain: a\n\tdescriptors: []"}, []string{"a.yaml:2: error: invalid YAML: found a tab character that violates indentation"}},
		"an empty file":     {[]string{"# nothing\n"}, []string{"a.yaml:1: error: the file has no configuration; it must have domain and descriptors"}},
		"a list":            {[]string{"- a\n"}, []string{"a.yaml:1: error: the configuration must be a mapping of fields, but is a list", "a.yaml:1: error: domain is missing or empty; set it to the domain of the rate limit filter of Envoy"}},
		"two documents":     {[]string{"domain: a\n---\ndomain: b\n"}, []string{"a.yaml:3: error: a file must have one document, because the service reads only the first; move this one to another file"}},
		"no domain":         {[]string{"descriptors: []\n"}, []string{"a.yaml:1: error: domain is missing or empty; set it to the domain of the rate limit filter of Envoy"}},
		"an empty domain":   {[]string{"descriptors: []\ndomain: \"\"\n"}, []string{"a.yaml:2: error: domain is missing or empty; set it to the domain of the rate limit filter of Envoy"}},
		"an unknown field":  {[]string{"domain: a\nlimits: []\n"}, []string{"a.yaml:2: error: unknown field limits of the configuration; the fields are domain, descriptors"}},
		"a duplicate field": {[]string{"domain: a\ndescriptors: []\ndomain: b\n"}, []string{"a.yaml:3: error: duplicate field domain of the configuration: it is already set in line 1; remove one of them"}},
		"a domain twice": {
			[]string{"domain: a\n", "# second\ndomain: a\n"},
			[]string{"b.yaml:2: error: domain a is already defined at a.yaml:1; use one file for each domain, or --merge-domains if the service runs with MERGE_DOMAIN_CONFIG=true"},
		},
		"descriptors that are not a list":  {[]string{"domain: a\ndescriptors: {key: a}\n"}, []string{"a.yaml:2: error: expected a list of descriptors, but found a mapping"}},
		"a descriptor that is a text":      {[]string{"domain: a\ndescriptors:\n- a\n"}, []string{"a.yaml:3: error: a descriptor must be a mapping of fields, but is a single value"}},
		"texts in place of descriptors":    {[]string{"domain: a\ndescriptors: [a, b]\n"}, []string{"a.yaml:2: error: a descriptor must be a mapping of fields, but is a single value", "a.yaml:2: error: a descriptor must be a mapping of fields, but is a single value"}},
		"two descriptors without a key":    {[]string{"domain: a\ndescriptors: [null, {}]\n"}, []string{"a.yaml:2: error: key is missing or empty; a descriptor must have a key", "a.yaml:2: error: key is missing or empty; a descriptor must have a key"}},
		"only other objects":               {[]string{"apiVersion: v1\nkind: Service\n"}, []string{"a.yaml:1: note: skipped: a Kubernetes object without a configuration of the service", "a.yaml:1: error: no file has a configuration; it must have domain and descriptors"}},
		"an unknown field of a descriptor": {[]string{"domain: a\ndescriptors:\n- key: a\n  vlaue: b\n"}, []string{"a.yaml:4: error: unknown field vlaue of a descriptor; the fields are key, value, rate_limit, descriptors, shadow_mode, quota_mode, share_threshold, detailed_metric, value_to_metric, metadata"}},
		"no key":                           {[]string{"domain: a\ndescriptors:\n- value: b\n"}, []string{"a.yaml:3: error: key is missing or empty; a descriptor must have a key"}},
		"the same key and value":           {[]string{"domain: a\ndescriptors:\n- {key: a, value: b}\n- {key: a}\n- {value: b, key: a}\n"}, []string{"a.yaml:5: error: descriptor a=b is already defined at a.yaml:3; a key and a value can occur once in a list"}},
		"the same joined name":             {[]string{"domain: a\ndescriptors:\n- {key: a, value: b}\n- {key: a_b}\n"}, []string{"a.yaml:4: error: descriptor a_b has the same name as a=b at a.yaml:3, because the service joins a key and a value with _"}},
		"the same key below":               {[]string{"domain: a\ndescriptors:\n- key: k\n  descriptors:\n  - key: a\n  - key: a\n"}, []string{"a.yaml:6: error: descriptor a is already defined at a.yaml:5; a key and a value can occur once in a list"}},
		"share_threshold without wildcard": {[]string{"domain: a\ndescriptors:\n- {key: a, value: b, share_threshold: true}\n"}, []string{"a.yaml:3: error: share_threshold requires a value with a wildcard (*); remove share_threshold"}},
		"an unknown unit":                  {[]string{"domain: a\ndescriptors:\n- key: a\n  rate_limit:\n    requests_per_unit: 1\n    unit: decade\n"}, []string{"a.yaml:6: error: unit is missing or unknown; the units are second, minute, hour, day, week, month, year"}},
		"no unit":                          {[]string{"domain: a\ndescriptors:\n- key: a\n  rate_limit: {requests_per_unit: 1}\n"}, []string{"a.yaml:4: error: unit is missing or unknown; the units are second, minute, hour, day, week, month, year"}},
		"a unit that is unlimited":         {[]string{"domain: a\ndescriptors:\n- key: a\n  rate_limit: {unlimited: true, unit: day}\n"}, []string{"a.yaml:4: error: unit must not be set together with unlimited: true; remove one of them"}},
		"a negative limit":                 {[]string{"domain: a\ndescriptors:\n- key: a\n  rate_limit: {unit: day, requests_per_unit: -1}\n"}, []string{"a.yaml:4: error: requests_per_unit must be a whole number from 0 to 4294967295, but is \"-1\""}},
		"an invalid boolean":               {[]string{"domain: a\ndescriptors:\n- key: a\n  shadow_mode: maybe\n"}, []string{"a.yaml:4: error: shadow_mode must be true or false, but is \"maybe\""}},
		"a name in replaces that is empty": {[]string{"domain: a\ndescriptors:\n- key: a\n  rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: \"\"}]}\n"}, []string{"a.yaml:4: error: name is missing or empty in replaces; set it to the name of the rate_limit to replace"}},
		"a limit that replaces itself":     {[]string{"domain: a\ndescriptors:\n- key: a\n  rate_limit: {name: n, unit: day, requests_per_unit: 1, replaces: [{name: n}]}\n"}, []string{"a.yaml:4: error: rate_limit n replaces itself; remove its name from replaces"}},
		"an unknown algorithm":             {[]string{"domain: a\ndescriptors:\n- key: a\n  metadata:\n    owner: b\n    weir.dev/algorithm: Guess\n" + ok}, []string{"a.yaml:4: note: metadata has no effect except for weir.dev/algorithm: the dynamic metadata of Weir contains the policy and its result", "a.yaml:6: error: metadata weir.dev/algorithm is \"Guess\", but must be one of FixedWindow, SlidingWindowCounter, SlidingWindowLog, TokenBucket, LeakyBucket"}},
		"a key that is a list":             {[]string{"domain: a\ndescriptors:\n- key: [a]\n"}, []string{"a.yaml:3: error: key must be a text, but is a list", "a.yaml:3: error: key is missing or empty; a descriptor must have a key"}},
	} {
		t.Run(name, func(t *testing.T) {
			findings, policies := run(t, envoyratelimit.Options{}, tc.files...)
			if diff := cmp.Diff(tc.want, findings); diff != "" || policies != "" {
				t.Errorf("%s\npolicies: %q", diff, policies)
			}
		})
	}
}

// The configuration is usually next to a Deployment, and in the values of a Helm chart.
func TestImport_ReadsTheConfigurationInOtherDocuments(t *testing.T) {
	const skipped = "note: skipped: a Kubernetes object without a configuration of the service"
	const values = "image: {tag: v1}\nratelimit:\n  config:\n    domain: shop\n    descriptors:\n    - key: user\n      rate_limit: {unit: hour, requests_per_unit: 1}\n"
	for name, tc := range map[string]struct {
		files    []string
		findings []string
		comment  string
	}{
		"values of a chart": {[]string{values}, nil, "# a.yaml:6: user, 1 per hour\n"},
		"a HelmRelease": {
			[]string{"apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nspec:\n  values:\n    " + strings.ReplaceAll(strings.TrimSpace(values), "\n", "\n    ")},
			nil, "# a.yaml:10: user, 1 per hour\n",
		},
		"objects of other kinds": {
			[]string{"apiVersion: v1\nkind: Service\n---\napiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nspec: {domain: shop}\n", "domain: shop\ndescriptors:\n- key: user\n" + ok},
			[]string{"a.yaml:1: " + skipped, "a.yaml:4: " + skipped},
			"# b.yaml:3: user, 1 per hour\n",
		},
	} {
		findings, policies := run(t, envoyratelimit.Options{}, tc.files...)
		if diff := cmp.Diff(tc.findings, findings); diff != "" || !strings.Contains(policies, tc.comment) || strings.Count(policies, "kind:") != 1 {
			t.Errorf("%s: %s\n%s", name, diff, policies)
		}
	}
}

func TestImport_ReportsWhatIsNotThePolicyOfALimit(t *testing.T) {
	for name, tc := range map[string]struct {
		descriptor string
		want       string
	}{
		"a limit above the maximum":               {"- key: a\n  rate_limit: {unit: hour, requests_per_unit: 1000000001}\n", "a.yaml:4: not imported: requests_per_unit is 1000000001, but a limit of Weir is at most 1000000000; use unlimited: true or a lower limit"},
		"quota_mode":                              {"- key: a\n  quota_mode: true\n" + ok, "a.yaml:3: not imported: quota_mode denies a request only if all of its quota descriptors are over their limits, but in Weir each policy can deny; remove quota_mode if the limit can deny alone"},
		"a value that is too long":                {"- key: a\n  value: " + strings.Repeat("v", 513) + "\n" + ok, "a.yaml:3: not imported: spec.match.descriptors[0].value: Too long: may not be more than 512 bytes"},
		"replaces":                                {"- key: a\n  rate_limit: {unit: hour, requests_per_unit: 1, replaces: [{name: n}, {name: m}]}\n- key: b\n  rate_limit: {name: n, unit: hour, requests_per_unit: 1}\n  descriptors:\n  - key: c\n    rate_limit: {name: n, unit: hour, requests_per_unit: 1}\n- key: c\n  rate_limit: {name: m, unit: hour, requests_per_unit: 1}\n", "a.yaml:4: not imported: replaces switches off limits of other descriptors of the request (n at a.yaml:6 and a.yaml:9, m at a.yaml:11), but spec.replaces of a policy applies only to a descriptor that the policy itself matches; remove replaces, or leave the values out of those limits"},
		"replaces with many limits of a name":     {"- key: a\n  rate_limit: {unit: hour, requests_per_unit: 1, replaces: [{name: n}]}\n- {key: b, rate_limit: {name: n, unit: hour, requests_per_unit: 1}}\n- {key: c, rate_limit: {name: n, unit: hour, requests_per_unit: 1}}\n- {key: d, rate_limit: {name: n, unit: hour, requests_per_unit: 1}}\n- {key: e, rate_limit: {name: n, unit: hour, requests_per_unit: 1}}\n", "a.yaml:4: not imported: replaces switches off limits of other descriptors of the request (n at a.yaml:5 and a.yaml:6 and a.yaml:7 and 1 more), but spec.replaces of a policy applies only to a descriptor that the policy itself matches; remove replaces, or leave the values out of those limits"},
		"replaces of an unlimited descriptor":     {"- key: a\n  rate_limit: {unlimited: true, replaces: [{name: n}]}\n- key: b\n  rate_limit: {name: n, unit: hour, requests_per_unit: 1}\n", "a.yaml:4: not imported: replaces switches off limits of other descriptors of the request (n at a.yaml:6), but spec.replaces of a policy applies only to a descriptor that the policy itself matches; remove replaces, or leave the values out of those limits"},
		"replaces without such a limit":           {"- key: a\n  rate_limit: {unit: hour, requests_per_unit: 1, replaces: [{name: n}]}\n", "a.yaml:4: note: replaces has no effect for n: the domain has no limit of this name that applies"},
		"detailed_metric":                         {"- key: a\n  detailed_metric: true\n" + ok, "a.yaml:4: note: detailed_metric has no effect: metrics of Weir have the policy as a label, never the values of requests"},
		"metadata":                                {"- key: a\n  metadata: {x: y}\n" + ok, "a.yaml:4: note: metadata has no effect except for weir.dev/algorithm: the dynamic metadata of Weir contains the policy and its result"},
		"a node without a limit":                  {"- key: a\n  value: b\n", "a.yaml:3: note: a=b has no limit, so it does not need a policy: the policies for other values leave it out"},
		"an unlimited node":                       {"- key: a\n  rate_limit: {unlimited: true}\n", "a.yaml:4: note: a is unlimited, so it does not need a policy: the policies for other values leave it out"},
		"a node that never applies":               {"- {key: a, value: \"*\", rate_limit: {unit: hour, requests_per_unit: 1}}\n- key: a\n" + ok, "a.yaml:4: note: a never applies, because another descriptor of this list has the value *"},
		"a wildcard of another key":               {"- {key: user, value: \"*\", rate_limit: {unit: hour, requests_per_unit: 1}}\n- key: user_id\n" + ok, "a.yaml:3: difference: in the service, user=* also matches the key user_id, because it compares the key and the value joined with _; policies compare them separately"},
		"a wildcard with a prefix of another key": {"- {key: user, value: \"i*\", rate_limit: {unit: hour, requests_per_unit: 1}}\n- {key: user_id, value: a, rate_limit: {unit: hour, requests_per_unit: 1}}\n- {key: user_id, value: b, rate_limit: {unit: hour, requests_per_unit: 1}}\n", "a.yaml:3: difference: in the service, user=i* also matches the key user_id, because it compares the key and the value joined with _; policies compare them separately"},
		"a limit without its number":              {"- key: a\n  rate_limit: {unit: hour}\n", "a.yaml:4: note: requests_per_unit is missing, which means 0: every request is denied"},
	} {
		t.Run(name, func(t *testing.T) {
			findings, _ := run(t, envoyratelimit.Options{}, "domain: shop\ndescriptors:\n"+tc.descriptor)
			if diff := cmp.Diff([]string{tc.want}, findings); diff != "" {
				t.Error(diff)
			}
		})
	}
}

const shop = `domain: shop
descriptors:
- key: path
  value: "/v1/*"
  rate_limit: {unit: minute, requests_per_unit: 10}
- key: path
  value: "/v1/health"
- key: path
  shadow_mode: true
  rate_limit: {unit: hour, requests_per_unit: 0}
  descriptors:
  - key: user
    rate_limit: {unit: month, requests_per_unit: 7}
`

const policiesOfShop = `shop.yaml:
# a.yaml:3: path=/v1/*, 10 per minute
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata:
  annotations:
    ignore.lint.weir.dev/window-boundary: The windows are those of the imported configuration.
  name: path-v1
  namespace: shop
spec:
  algorithm: FixedWindow
  axis: Custom
  identifier:
    descriptor: path
  limit: 10
  match:
    descriptors:
    - except:
      - /v1/health
      key: path
      pattern: /v1/*
  window: 1m
---
# a.yaml:8: path, 0 per hour: reports every request as denied
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata:
  name: path
  namespace: shop
spec:
  axis: IP
  enforcement: Shadow
  limit: 0
  match:
    descriptors:
    - except:
      - /v1/*
      - /v1/health
      key: path
  window: 1h
---
# a.yaml:12: path, user, 7 per month
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata:
  annotations:
    ignore.lint.weir.dev/window-boundary: The windows are those of the imported configuration.
  name: path-user
  namespace: shop
spec:
  algorithm: FixedWindow
  axis: Custom
  identifier:
    expression: request.descriptors[0][0].value + "/" + request.descriptors[0][1].value
      + "#" + string(size(request.descriptors[0][0].value))
  limit: 7
  match:
    descriptors:
    - except:
      - /v1/*
      - /v1/health
      key: path
    - key: user
  window: 30d
`

func TestImport_WritesAPolicyForEachLimit(t *testing.T) {
	_, policies := run(t, envoyratelimit.Options{}, shop)
	if diff := cmp.Diff(policiesOfShop, policies); diff != "" {
		t.Error(diff)
	}
}

func TestImport_UsesTheAlgorithm(t *testing.T) {
	_, policies := run(t, envoyratelimit.Options{Algorithm: v1alpha1.TokenBucket}, shop)
	if got := strings.Count(policies, "algorithm: TokenBucket\n"); got != 2 { // the third one denies every request, and counts nothing
		t.Errorf("%d policies with TokenBucket, want 2:\n%s", got, policies)
	}
}

func TestImport_ADescriptorChoosesItsAlgorithm(t *testing.T) {
	findings, policies := run(t, envoyratelimit.Options{Algorithm: "TokenBucket"},
		"domain: shop\ndescriptors:\n- key: a\n  metadata: {weir.dev/algorithm: SlidingWindowLog}\n"+ok+"- key: b\n"+ok)
	if len(findings) != 0 || strings.Count(policies, "algorithm: SlidingWindowLog\n") != 1 || strings.Count(policies, "algorithm: TokenBucket\n") != 1 {
		t.Errorf("%v\n%s", findings, policies)
	}
}

func TestImport_MergesDomains(t *testing.T) {
	one := "domain: a\ndescriptors:\n- key: k\n  value: v\n" + ok
	findings, policies := run(t, envoyratelimit.Options{MergeDomains: true}, one, "domain: a\ndescriptors:\n- key: k\n"+ok)
	if len(findings) > 0 || !strings.Contains(policies, "except:\n      - v\n") {
		t.Errorf("%v\n%s", findings, policies)
	}
	findings, _ = run(t, envoyratelimit.Options{MergeDomains: true}, one, one)
	want := []string{"b.yaml:3: error: descriptor k=v is already defined at a.yaml:3; a key and a value can occur once in a list"}
	if diff := cmp.Diff(want, findings); diff != "" {
		t.Error(diff)
	}
}

func TestImport_CountsAllValuesOfASharedWildcardTogether(t *testing.T) {
	_, policies := run(t, envoyratelimit.Options{}, "domain: a\ndescriptors:\n- key: k\n  value: v*\n  share_threshold: true\n"+ok)
	if !strings.Contains(policies, `expression: '"all"'`) {
		t.Error(policies)
	}
}

func TestImport_AcceptsAnchorsAndMergedFields(t *testing.T) {
	findings, policies := run(t, envoyratelimit.Options{}, "domain: a\ndescriptors:\n- key: k\n  rate_limit: &slow {unit: hour, requests_per_unit: 7}\n"+
		"- key: l\n  rate_limit: *slow\n- key: m\n  rate_limit: {<<: *slow, requests_per_unit: 8}\n- key: n\n  rate_limit: {<<: [*slow]}\n")
	if len(findings) > 0 || strings.Count(policies, "limit: 7\n") != 3 || strings.Count(policies, "limit: 8\n") != 1 {
		t.Errorf("%v\n%s", findings, policies)
	}
}

func TestImport_WritesValuesOfTheSourceInOneLine(t *testing.T) {
	for name, lineBreak := range map[string]string{"\\n": "\n", "\\r": "\r", "\\N": "\u0085", "\\L": "\u2028", "\\P": "\u2029", "\\e": "\x1b"} {
		config := "domain: shop\ndescriptors:\n- key: a\n  detailed_metric: true\n  value: \"a" + name + "---" + name + "kind: Secret\"\n" + ok +
			"- key: a\n  value: \"*" + name + "kind: Secret\"\n  quota_mode: true\n  descriptors: [{key: \"k" + name + "kind: Secret\"}]\n" + ok
		findings, policies := run(t, envoyratelimit.Options{}, config)
		comment, _, _ := strings.Cut(policies, "apiVersion: ")
		if want := "shop.yaml:\n# a.yaml:3: a=a --- kind: Secret, 1 per hour\n"; comment != want {
			t.Errorf("%s: the policy begins with %q, want %q", name, comment, want)
		}
		var policy v1alpha1.RateLimitPolicy
		if err := yaml.Unmarshal([]byte(strings.TrimPrefix(policies, "shop.yaml:\n")), &policy); err != nil {
			t.Fatalf("%s: %v in\n%s", name, err, policies)
		}
		if got, want := *policy.Spec.Match.Descriptors[0].Value, "a"+lineBreak+"---"+lineBreak+"kind: Secret"; got != want {
			t.Errorf("%s: the policy has the value %q, want %q:\n%s", name, got, want, policies)
		}
		for _, f := range findings {
			if strings.Contains(f, lineBreak) {
				t.Errorf("%s: a finding contains it: %q", name, f)
			}
		}
		if len(findings) != 3 {
			t.Errorf("%s: findings %q, want 3", name, findings)
		}
	}
}

func TestImport_AcceptsWildcardsOfOneKey(t *testing.T) {
	for _, list := range []string{
		"- {key: user, value: \"x*\"}\n- key: user_id\n",         // no value of user_id begins with x
		"- {key: user_id, value: \"7*\"}\n- key: user\n",         // only values of user that begin with id_7
		"- {key: user, value: \"*\"}\n- {key: user, value: i}\n", // the same key
		"- {key: user, value: \"*\"}\n- {key: users}\n",          // another word
	} {
		findings, _ := run(t, envoyratelimit.Options{}, "domain: shop\ndescriptors:\n"+list)
		for _, f := range findings {
			if strings.Contains(f, "difference") {
				t.Errorf("%s: %s", list, f)
			}
		}
	}
}

func TestImport_NoNameOrCommentContainsACredential(t *testing.T) {
	const secret = "SECRETSECRET"
	var config strings.Builder
	config.WriteString("domain: shop\ndescriptors:\n")
	for _, entry := range [][2]string{
		{"generic_key", "plain"}, {"generic_key", "Authorization: Bearer " + secret}, {"path", "/x?token=" + secret}, {"user", "sk_live_" + secret}, {"api_key", secret},
	} {
		fmt.Fprintf(&config, "- key: %s\n  value: %q\n%s", entry[0], entry[1], ok)
	}
	findings, policies := run(t, envoyratelimit.Options{}, config.String())
	for line := range strings.Lines(policies) {
		if text := strings.ToLower(line); (strings.HasPrefix(text, "#") || strings.Contains(text, "name:")) && strings.Contains(text, strings.ToLower(secret)) {
			t.Errorf("a name or a comment contains a credential: %s", line)
		}
	}
	for _, name := range []string{"generic-key-plain", "generic-key-value-2", "path-value-1", "user-value-1", "api-key-value-1"} {
		if !strings.Contains(policies, "name: "+name+"\n") {
			t.Errorf("no policy has the name %s:\n%s", name, policies)
		}
	}
	if strings.Contains(strings.Join(findings, "\n"), secret) {
		t.Errorf("findings %q", findings)
	}
}

func TestImport_WritesThePolicyOfALimitThatReplacesNothing(t *testing.T) {
	findings, policies := run(t, envoyratelimit.Options{}, "domain: shop\ndescriptors:\n- key: a\n  rate_limit: {unit: hour, requests_per_unit: 1, replaces: [{name: n}]}\n"+
		"- key: b\n  rate_limit: {name: n, unlimited: true}\n")
	if !strings.Contains(policies, "name: a\n") || len(findings) != 2 || !strings.Contains(findings[0], ": note: replaces has no effect for n") {
		t.Errorf("%q\n%s", findings, policies)
	}
}
