package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
)

const envoyRateLimitConfig = `domain: shop
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 10}
`

const importedPolicy = `# good.yaml:3: user, 10 per minute
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata:
  annotations:
    ignore.lint.weir.dev/window-boundary: The windows are those of the imported configuration.
  name: user
  namespace: shop
spec:
  algorithm: FixedWindow
  axis: Custom
  identifier:
    descriptor: user
  limit: 10
  match:
    descriptors:
    - key: user
  window: 1m
`

const kuadrantPolicy = `apiVersion: kuadrant.io/v1
kind: RateLimitPolicy
metadata: {name: toys, namespace: shop}
spec:
  targetRef: {kind: HTTPRoute, name: toys}
  limits: {all: {rates: [{limit: 5, window: 10s}]}}
`

const differentPolicy = `# differs.yaml:6: limit all of toys for HTTPRoute/toys
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata:
  annotations:
    ignore.lint.weir.dev/window-boundary: The windows are those of the imported configuration.
  name: toys-all
  namespace: shop
spec:
  algorithm: FixedWindow
  axis: Custom
  identifier:
    expression: '"all"'
  limit: 5
  match:
    http:
      expression: request.descriptors.exists(d, d.exists(e, e.key == "target" && e.value
        in ["HTTPRoute/toys"]))
  window: 10s
`

// The paths in these cases are relative to a directory with good.yaml, partial.yaml, differs.yaml and bad.yaml.
func TestImport_WritesPoliciesAndReportsTheRest(t *testing.T) {
	const notImported = "partial.yaml:6: not imported: requests_per_unit is 2000000000, but a limit of Weir is at most 1000000000; use unlimited: true or a lower limit\n"
	const difference = "differs.yaml:6: difference: windows begin at multiples of their length, and not with the first request\n"
	for name, tc := range map[string]struct {
		args           []string
		status         int
		stdout, stderr string
	}{
		"everything is imported": {
			args: []string{"envoy-ratelimit", "good.yaml"}, stdout: importedPolicy, stderr: "1 policy, 0 errors, 0 not imported, 0 differences, 0 notes\n",
		},
		"a part is not imported": {
			args: []string{"envoy-ratelimit", "partial.yaml"}, status: 1,
			stderr: notImported + "1 policy, 0 errors, 1 not imported, 0 differences, 0 notes; nothing was written: change the source, or write the rest with --partial\n",
		},
		"a policy decides in another way": {
			args: []string{"kuadrant", "differs.yaml"}, status: 1,
			stderr: difference + "1 policy, 0 errors, 0 not imported, 1 difference, 0 notes; nothing was written: change the source, or accept the differences with --accept differences\n",
		},
		"differences are accepted": {
			args: []string{"kuadrant", "differs.yaml", "--accept", "differences"}, stdout: differentPolicy,
			stderr: difference + "1 policy, 0 errors, 0 not imported, 1 difference, 0 notes\n",
		},
		"what is not imported is not accepted with the differences": {
			args: []string{"envoy-ratelimit", "partial.yaml", "--accept", "differences"}, status: 1,
			stderr: notImported + "1 policy, 0 errors, 1 not imported, 0 differences, 0 notes; nothing was written: change the source, or write the rest with --partial\n",
		},
		"an unknown kind of findings": {
			args: []string{"kuadrant", "differs.yaml", "--accept", "all"}, status: 2,
			stderr: "weir import kuadrant: --accept \"all\" is invalid: must be differences; --partial writes the policies even if parts are not imported\n",
		},
		"an invalid attribute": {
			args: []string{"kuadrant", "differs.yaml", "--map", "userid=header:a"}, status: 2,
			stderr: "weir import kuadrant: invalid --map: \"userid=header:a\" must begin with an attribute such as auth.identity.userid, and an equals sign\n",
		},
		"an unknown source of an attribute": {
			args: []string{"kuadrant", "differs.yaml", "--map", "auth.identity.userid=cookie:a"}, status: 2,
			stderr: "weir import kuadrant: invalid --map: \"auth.identity.userid=cookie:a\" must end with header:NAME, query:NAME, claim:NAME or claims\n",
		},
		"an unknown identity of Kong": {
			args: []string{"kong", "differs.yaml", "--map", "user=header:a"}, status: 2,
			stderr: "weir import kong: invalid --map: \"user=header:a\" must begin with consumer, credential or consumer-group, and an equals sign\n",
		},
		"an unknown place of an identity of Kong": {
			args: []string{"kong", "differs.yaml", "--map", "consumer=claims"}, status: 2,
			stderr: "weir import kong: invalid --map: \"consumer=claims\" must end with header:NAME, query:NAME, claim:NAME or address\n",
		},
		"an identity of Kong twice": {
			args: []string{"kong", "differs.yaml", "--map", "consumer=address", "--map", "consumer=header:a"}, status: 2,
			stderr: "weir import kong: invalid --map: \"consumer=header:a\": consumer is already mapped; remove one of them\n",
		},
		"an attribute twice": {
			args: []string{"kuadrant", "differs.yaml", "--map", "auth.a=header:a", "--map", "auth.a=header:b"}, status: 2,
			stderr: "weir import kuadrant: invalid --map: \"auth.a=header:b\": auth.a is already mapped; remove one of them\n",
		},
		"nothing that needs a policy": {
			args:   []string{"envoy-ratelimit", "unlimited.yaml"},
			stderr: "unlimited.yaml:4: note: user is unlimited, so it does not need a policy: the policies for other values leave it out\n0 policies, 0 errors, 0 not imported, 0 differences, 1 note; nothing was written: no part of the source needs a policy\n",
		},
		"a configuration in a ConfigMap": {
			args: []string{"envoy-ratelimit", "configmap.yaml"}, stdout: strings.Replace(importedPolicy, "good.yaml:3", "configmap.yaml:8", 1),
			stderr: "1 policy, 0 errors, 0 not imported, 0 differences, 0 notes\n",
		},
		"policies with a difference are written with --partial": {
			args: []string{"kuadrant", "differs.yaml", "--partial"}, status: 1, stdout: differentPolicy,
			stderr: difference + "1 policy, 0 errors, 0 not imported, 1 difference, 0 notes\n",
		},
		"the rest is written with --partial": {
			args: []string{"envoy-ratelimit", "partial.yaml", "--partial"}, status: 1, stdout: strings.Replace(importedPolicy, "good", "partial", 1),
			stderr: notImported + "1 policy, 0 errors, 1 not imported, 0 differences, 0 notes\n",
		},
		"an invalid source writes nothing": {
			args: []string{"envoy-ratelimit", "good.yaml", "bad.yaml", "--partial"}, status: 1,
			stderr: "bad.yaml:1: error: unknown field domian of the configuration; the fields are domain, descriptors\n" +
				"bad.yaml:1: error: domain is missing or empty; set it to the domain of the rate limit filter of Envoy\n" +
				"0 policies, 2 errors, 0 not imported, 0 differences, 0 notes; nothing was written: correct the errors\n",
		},
		"policies in Shadow": {
			args:   []string{"envoy-ratelimit", "good.yaml", "--shadow"},
			stdout: strings.Replace(importedPolicy, "  identifier:", "  enforcement: Shadow\n  identifier:", 1), stderr: "1 policy, 0 errors, 0 not imported, 0 differences, 0 notes\n",
		},
		"an unknown algorithm": {
			args: []string{"envoy-ratelimit", "good.yaml", "--algorithm", "GCRA"}, status: 2,
			stderr: "weir import envoy-ratelimit: invalid --algorithm \"GCRA\": use one of FixedWindow, SlidingWindowCounter, SlidingWindowLog, TokenBucket, LeakyBucket\n",
		},
		"no file": {
			args: []string{"envoy-ratelimit"}, status: 2,
			stderr: "weir import envoy-ratelimit: missing argument: name files or directories, or - for standard input; see weir import envoy-ratelimit --help\n",
		},
		"a missing file": {
			args: []string{"envoy-ratelimit", "missing.yaml"}, status: 2,
			stderr: "weir import envoy-ratelimit: missing.yaml does not exist: check the name, and the directory that the command runs in\n",
		},
		"an unknown source": {
			args: []string{"envoy-ratelimits"}, status: 2, stderr: "weir import: unknown command \"envoy-ratelimits\"; did you mean envoy-ratelimit?\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			writeImportFiles(t)
			status, stdout, stderr := runImport(tc.args...)
			if status != tc.status {
				t.Errorf("status %d, want %d", status, tc.status)
			}
			if diff := cmp.Diff(tc.stdout, stdout) + cmp.Diff(tc.stderr, stderr); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestImport_WritesAFileForEachNamespace(t *testing.T) {
	writeImportFiles(t)
	if err := os.WriteFile("edge.yaml", []byte(strings.Replace(envoyRateLimitConfig, "shop", "edge_proxy", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := runImport("envoy-ratelimit", "good.yaml", "edge.yaml", "-o", "new/policies")
	if status != 0 || stdout != "" {
		t.Fatalf("status %d, %q, %q", status, stdout, stderr)
	}
	if status, _, stderr := runLint("", "new/policies"); status != 0 {
		t.Errorf("the policies are invalid: %s", stderr)
	}
	for file, want := range map[string]string{"shop.yaml": "name: user\n  namespace: shop\n", "cluster.yaml": "  name: edge-proxy-user\n"} {
		content, err := os.ReadFile(filepath.Join("new", "policies", file))
		if err != nil || !strings.Contains(string(content), want) {
			t.Errorf("%s: %v, without %q:\n%s", file, err, want, content)
		}
	}
	if status, stdout, stderr := runImport("envoy-ratelimit", "good.yaml", "--cluster"); !strings.Contains(stdout, "domains:\n  - shop\n") {
		t.Errorf("--cluster: status %d, %s%s", status, stdout, stderr)
	}
	if status, _, stderr := runImport("envoy-ratelimit", "good.yaml", "-o", "good.yaml"); status != 1 || !strings.Contains(stderr, "write policies: mkdir good.yaml: not a directory") {
		t.Errorf("a file as directory: status %d, %q", status, stderr)
	}
}

// Traefik's own pages have their examples in TOML, too.
func TestImport_ReadsTOMLOfTraefik(t *testing.T) {
	const config = "[http.middlewares.slow.rateLimit]\naverage = 5\n[http.middlewares.slow.rateLimit.redis]\n\n" +
		"[http.routers.api]\nrule = \"Host(`a.example`)\"\nmiddlewares = [\"slow\"]\n"
	inDirectory(t, map[string]string{"dynamic/shop.toml": config, "broken.toml": "[http]\na = \n", "dynamic/README.md": "text"})
	for name, c := range map[string]struct{ stdin, argument, place string }{
		"a file": {"", "dynamic/shop.toml", "dynamic/shop.toml"}, "a directory": {"", "dynamic", "dynamic/shop.toml"}, "the standard input": {config, "-", "-"},
	} {
		status, stdout, stderr := runCommand(ImportCommand(), c.stdin, "traefik", c.argument)
		if status != 0 || !strings.HasPrefix(stdout, "# "+c.place+":1: router api, middleware slow, 5 per 1s, burst 1\n") || !strings.Contains(stdout, "      hosts:\n      - a.example\n") ||
			!strings.Contains(stderr, c.place+":3: note: redis has no effect") {
			t.Errorf("%s: status %d\n%s%s", name, status, stdout, stderr)
		}
	}
	if status, _, stderr := runImport("traefik", "broken.toml"); status != 1 || !strings.Contains(stderr, "broken.toml:2: error: invalid TOML: ") {
		t.Errorf("status %d\n%s", status, stderr)
	}
}

func TestImport_HelpListsTheSources(t *testing.T) {
	status, stdout, _ := runImport()
	if status != 0 || !strings.Contains(stdout, "envoy-ratelimit") || !strings.Contains(stdout, "--partial") {
		t.Errorf("status %d, %s", status, stdout)
	}
}

func writeImportFiles(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	for file, content := range map[string]string{
		"good.yaml":      envoyRateLimitConfig,
		"partial.yaml":   envoyRateLimitConfig + "- key: all\n  rate_limit: {unit: second, requests_per_unit: 2000000000}\n",
		"differs.yaml":   kuadrantPolicy,
		"bad.yaml":       "domian: edge\n",
		"unlimited.yaml": "domain: shop\ndescriptors:\n- key: user\n  rate_limit: {unlimited: true}\n",
		"configmap.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ratelimit}\ndata:\n  config.yaml: |\n    " +
			strings.ReplaceAll(strings.TrimSpace(envoyRateLimitConfig), "\n", "\n    ") + "\n",
	} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func runImport(args ...string) (status int, stdout, stderr string) {
	return runCommand(ImportCommand(), "", args...)
}

func TestImport_DoesNotReplaceItsInput(t *testing.T) {
	inDirectory(t, map[string]string{"shop.yaml": envoyRateLimitConfig})
	status, _, stderr := runImport("envoy-ratelimit", "shop.yaml", "--output", ".")
	if want := "--output .: shop.yaml is an input of the command (shop.yaml), and writing would replace it: name another file"; status != 1 || !strings.Contains(stderr, want) {
		t.Errorf("status %d: %s", status, stderr)
	}
	if content, err := os.ReadFile("shop.yaml"); err != nil || string(content) != envoyRateLimitConfig {
		t.Errorf("%v\n%s", err, content)
	}
}
