package files

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-dev/weir/cmd/internal/cli/policydiff"
)

func policyNamed(name, spec string) string {
	return "apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: " + name + ", namespace: shop}\nspec: " + spec + "\n---\n"
}

func clusterPolicyNamed(name, spec string) string {
	return "apiVersion: weir.dev/v1alpha1\nkind: ClusterRateLimitPolicy\nmetadata: {name: " + name + "}\nspec: " + spec + "\n---\n"
}

// diffOf compares two files.
func diffOf(t *testing.T, before, after string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	inDirectory(t, map[string]string{"before.yaml": before, "after.yaml": after})
	return runCommand(DiffCommand(), "", append([]string{"before.yaml", "after.yaml"}, args...)...)
}

func TestDiff_NamesTheEffectOfEachField(t *testing.T) {
	const base = "axis: Tenant, limit: 100, window: 1m"
	for _, c := range []struct{ before, after, want string }{
		{base, "axis: Tenant, limit: 50, window: 1m", "stricter: a: spec.limit: 100 → 50 [stricter]"},
		{base, "axis: Tenant, limit: 200, window: 1m", "looser: a: spec.limit: 100 → 200 [looser]"},
		{base, "axis: Tenant, limit: 100, window: 2m", "stricter: a: spec.window: 1m → 2m [stricter]"},
		{base, "axis: Tenant, limit: 1000, window: 1h", "different: a: spec.limit: 100 → 1000; on average 16.67 a minute instead of 100 a minute [different] spec.window: 1m → 1h [different]"},
		{base, "axis: Tenant, limit: 100, window: 60s", "the same: a: enforces the same spec.window: 1m → 60s"},
		{base, base + ", algorithm: SlidingWindowCounter", ""},
		{base, base + ", algorithm: FixedWindow", "different: a: spec.algorithm: added FixedWindow; counts by another algorithm, and starts new counters [different]"},
		{base, base + ", enforcement: Shadow", "looser: a: spec.enforcement: added Shadow; denies no request any more [looser]"},
		{base + ", enforcement: Shadow", base, "stricter: a: spec.enforcement: removed Shadow; denies requests, and only reported them before [stricter]"},
		{base + ", enforcement: Shadow", "axis: Tenant, limit: 5, window: 1m, enforcement: Shadow", "stricter: a: with enforcement: Shadow, which denies nothing spec.limit: 100 → 5 [stricter]"},
		{base, base + ", onStoreFailure: Deny", "stricter: a: spec.onStoreFailure: added Deny; while Redis is unavailable [stricter]"},
		{base, base + ", onStoreFailure: Allow", "looser: a: spec.onStoreFailure: added Allow; while Redis is unavailable [looser]"},
		{base, base + ", localShare: Whole", "looser: a: spec.localShare: added Whole; while Redis is unavailable [looser]"},
		{base, base + ", lease: {}", "looser: a: spec.lease: added {}; replicas can admit slightly more than the limit [looser]"},
		{base, base + ", denial: {status: 503}", "the same: a: spec.denial: added {status: 503}; another response to denied requests"},
		{base, base + ", identifier: {header: x-org}", "different: a: spec.identifier: added {header: x-org}; counts other requests together [different]"},
		{
			base + ", replaces: [x], enforcement: Shadow", base + ", replaces: [x]",
			"different: a: spec.enforcement: removed Shadow; a policy with enforcement: Shadow replaces no default [different]",
		},
		{base + ", cost: {value: 1}", base + ", cost: {value: 2}", "stricter: a: spec.cost.value: 1 → 2 [stricter]"},
		{base + ", match: {http: {methods: [GET]}}", base + ", match: {http: {methods: [GET, POST]}}", "stricter: a: spec.match.http.methods: added [POST]; limits more requests [stricter]"},
		{base + ", match: {http: {methods: [GET, PUT]}}", base + ", match: {http: {methods: [GET]}}", "looser: a: spec.match.http.methods: removed [PUT]; limits fewer requests [looser]"},
		{base + ", match: {http: {methods: [GET]}}", base + ", match: {http: {methods: [POST]}}", "different: a: spec.match.http.methods: removed [GET], added [POST]; limits other requests [different]"},
		{base + ", match: {http: {paths: [{value: /v1}]}}", base + ", match: {http: {paths: [{value: /v1/a}]}}", "looser: a: spec.match.http.paths: removed [{value: /v1}], added [{value: /v1/a}]; limits fewer requests [looser]"},
		{base + ", match: {http: {paths: [{value: /v1}]}}", base, "stricter: a: spec.match: removed {http: {paths: [{value: /v1}]}}; limits more requests [stricter]"},
		{base + tiers("limit: 500"), base + tiers("limit: 600"), "looser: a: spec.tiers[paid].limit: 500 → 600 [looser]"},
		{base + tiers("limit: 500"), base + tiers("unlimited: true"), "looser: a: spec.tiers[paid].limit: removed 500 [looser] spec.tiers[paid].unlimited: added true [looser]"},
		{base, base + tiers("limit: 500"), "looser: a: spec.tiers[paid]: added {limit: 500, name: paid, when: {groups: [paid]}}; for the requests of the tier [looser]"},
		{base, base + tiers("limit: 5"), "stricter: a: spec.tiers[paid]: added {limit: 5, name: paid, when: {groups: [paid]}}; for the requests of the tier [stricter]"},
		{base + tiers("limit: 500"), base, "stricter: a: spec.tiers[paid]: removed {limit: 500, name: paid, when: {groups: [paid]}}; for the requests of the tier [stricter]"},
		{
			"axis: Tenant, rates: [{limit: 10, window: 1s}, {limit: 100, window: 1m}]", "axis: Tenant, rates: [{limit: 10, window: 1s}, {limit: 50, window: 1m}]",
			"stricter: a: spec.rates[1m].limit: 100 → 50 [stricter]",
		},
		{
			base + ", match: {http: {methods: [GET]}}", "axis: Tenant, limit: 50, window: 1m, match: {http: {methods: [GET, POST]}}",
			"stricter: a: spec.limit: 100 → 50 [stricter] spec.match.http.methods: added [POST]; limits more requests [stricter]",
		},
		{
			base + ", match: {http: {methods: [GET]}}", "axis: Tenant, limit: 200, window: 1m, match: {http: {methods: [GET, POST]}}",
			"different: a: spec.limit: 100 → 200 [looser] spec.match.http.methods: added [POST]; limits more requests [stricter]",
		},
		{ // each side hashes API keys with a key of its own
			"axis: APIKey, limit: 1, window: 1m, tiers: [{name: paid, when: {identifiers: [a]}, limit: 5}]",
			"axis: APIKey, limit: 1, window: 1m, tiers: [{name: paid, when: {identifiers: [a, b]}, limit: 5}]",
			"different: a: spec.tiers[paid].when.identifiers: added [b]; another selection of requests for the tier [different]",
		},
		{
			"axis: APIKey, limit: 1, window: 1m, tiers: [{name: paid, when: {identifiers: [a]}, limit: 5}]",
			"axis: APIKey, limit: 1, window: 1m, tiers: [{name: paid, when: {identifiers: [a]}, limit: 5}]", "",
		},
	} {
		status, stdout, stderr := diffOf(t, policyNamed("a", "{"+c.before+"}"), policyNamed("a", "{"+c.after+"}"))
		wantStatus := 1
		body, summary, _ := strings.Cut(stdout, "\n\n")
		if c.want == "" {
			wantStatus, body, summary = 0, "", stdout
		}
		got := strings.Join(strings.Fields(strings.ReplaceAll(body, "shop/a (after.yaml:1)", "a:")), " ")
		got = strings.ReplaceAll(got, "a:: ", "a: ")
		if status != wantStatus || got != c.want || summary == "" {
			t.Errorf("%s\n%s\nstatus %d, got\n%s\nwant\n%s\n%s%s", c.before, c.after, status, got, c.want, summary, stderr)
		}
		// The opposite change has the opposite effect.
		_, reversed, _ := diffOf(t, policyNamed("a", "{"+c.after+"}"), policyNamed("a", "{"+c.before+"}"))
		effect, _, _ := strings.Cut(c.want, ":")
		if opposite := map[string]string{"stricter": "looser: ", "looser": "stricter: ", "different": "different: ", "the same": "the same: ", "": "The policies"}[effect]; !strings.HasPrefix(reversed, opposite) {
			t.Errorf("%s\n%s\nthe opposite change is\n%swant %s", c.after, c.before, reversed, opposite)
		}
	}
}

func tiers(limit string) string {
	return ", tiers: [{name: paid, when: {groups: [paid]}, " + limit + "}]"
}

func TestDiff_NamesWhatIsNewGoneAndRenamed(t *testing.T) {
	const spec = "{axis: IP, limit: 10, window: 1m}"
	before := policyNamed("gone", "{axis: IP, limit: 5, window: 1h}") + policyNamed("old", spec) + policyNamed("kept", "{axis: User, limit: 7, window: 1m}") +
		clusterPolicyNamed("platform", "{axis: Tenant, limit: 7, window: 1m, domains: [shop]}") + policyNamed("same", "{axis: IP, limit: 1, window: 1d}")
	after := policyNamed("same", "{axis: IP, limit: 1, window: 1d}") + policyNamed("new", "{axis: Custom, identifier: {query: q}, rates: [{limit: 5, window: 1s}, {limit: 9, window: 1m}]}") +
		policyNamed("newer", spec) + policyNamed("kept-v2", "{axis: User, limit: 7, window: 1m, counterName: kept}") +
		policyNamed("trial", "{axis: IP, limit: 1, window: 1m, enforcement: Shadow}") + clusterPolicyNamed("platform", "{axis: Tenant, limit: 7, window: 1m}")
	status, stdout, stderr := diffOf(t, before, after)
	want := `stricter: _cluster/platform (after.yaml:26)
  spec.domains: removed [shop]; limits more requests [stricter]
gone (looser): shop/gone (before.yaml:1): 5 per 1h for each IP, for all requests
renamed (the same): shop/kept is now shop/kept-v2 (after.yaml:16): keeps the counters
new (stricter): shop/new (after.yaml:6): 5 per 1s and 9 per 1m for each identifier, for all requests
renamed (looser): shop/old is now shop/newer (after.yaml:11): starts new counters; to keep them, set counterName: old
new (the same): shop/trial (after.yaml:21): 1 per 1m for each IP, for all requests, enforcement: Shadow

6 policies differ: 1 stricter, 1 gone (looser), 1 renamed (the same), 1 new (stricter), 1 renamed (looser), 1 new (the same).
`
	if status != 1 || stdout != want || stderr != "" {
		t.Errorf("status %d\ngot\n%s\nwant\n%s\n%s", status, stdout, want, stderr)
	}
}

func TestDiff_WritesACommentAndJSON(t *testing.T) {
	before := policyNamed("a", `{axis: IP, limit: 10, window: 1m, match: {http: {expression: "request.path == '/a|b' || request.host.startsWith('x')"}}}`)
	after := strings.NewReplacer("limit: 10", "limit: 5", "'/a|b'", "'/`c`'").Replace(before)
	status, stdout, _ := diffOf(t, before, after, "-o", "json", "-o", "markdown=comment.md")
	var diff policydiff.Diff
	if err := json.Unmarshal([]byte(stdout), &diff); err != nil || status != 1 || len(diff.Policies) != 1 || diff.Policies[0].Effect != policydiff.Different ||
		diff.Before != "before.yaml" || diff.After != "after.yaml" || len(diff.Policies[0].Changes) != 2 {
		t.Errorf("status %d, %v, %+v", status, err, diff)
	}
	comment, err := os.ReadFile("comment.md")
	want := "### Rate limits\n\n1 policy differs: 1 different.\n\n| effect | policy | change |\n|---|---|---|\n" +
		"| 🔀 different | `shop/a` | `spec.limit`: `10` → `5`<br>`spec.match.http.expression`: `request.path == '/a\\|b' \\|\\| request.host.startsWith('x')` → " +
		"<code>request.path == '/&#96;c&#96;' &#124;&#124; request.host.startsWith&#40;'x'&#41;</code>; limits other requests |\n"
	if err != nil || string(comment) != want {
		t.Errorf("%v\ngot\n%s\nwant\n%s", err, comment, want)
	}
}

func TestDiff_BoundsTheComment(t *testing.T) {
	var after strings.Builder
	for i := range 2000 {
		after.WriteString(policyNamed(fmt.Sprintf("p%d", i), "{axis: IP, limit: 10, window: 1m}"))
	}
	_, stdout, _ := diffOf(t, "# nothing\n", after.String(), "-o", "markdown")
	if len(stdout) > 61_000 || !strings.Contains(stdout, " more; weir diff lists them\n") || !strings.Contains(stdout, "2000 policies differ: 2000 new (stricter).") {
		t.Errorf("%d bytes", len(stdout))
	}
}

// The policies of a cluster come from kubectl, with their status and those of other namespaces.
func TestDiff_ComparesWithACluster(t *testing.T) {
	stored := `apiVersion: v1
kind: List
items:
- apiVersion: weir.dev/v1alpha1
  kind: RateLimitPolicy
  metadata: {name: a, namespace: shop, uid: 1b671a64-40d5-491e-99b0-da01ff1f3341, resourceVersion: "7", generation: 1, creationTimestamp: "2026-01-01T00:00:00Z"}
  spec: {axis: IP, limit: 10, window: 1m}
  status: {ancestors: []}
- apiVersion: weir.dev/v1alpha1
  kind: RateLimitPolicy
  metadata: {name: b, namespace: bank}
  spec: {axis: IP, limit: 10, window: 1m}
`
	inDirectory(t, map[string]string{"policies.yaml": policyNamed("a", "{axis: IP, limit: 20, window: 1m}")})
	status, stdout, stderr := runCommand(DiffCommand(), stored, "-", "policies.yaml")
	if status != 1 || !strings.HasPrefix(stdout, "looser: shop/a (policies.yaml:1)\n  spec.limit: 10 → 20 [looser]\n\n1 policy differs") {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
}

func TestDiff_ReportsErrors(t *testing.T) {
	valid, invalid := policyNamed("a", "{axis: IP, limit: 10, window: 1m}"), policyNamed("a", "{axis: IP, limit: -1, window: 1m}")
	status, stdout, stderr := diffOf(t, invalid, valid)
	if status != 1 || !strings.Contains(stdout, "new (stricter): shop/a") || !strings.Contains(stderr, "left out: before.yaml:4: shop/a: spec.limit: ") {
		t.Errorf("an invalid policy before: status %d\n%s%s", status, stdout, stderr)
	}
	status, _, stderr = diffOf(t, valid, invalid)
	if status != 2 || !strings.Contains(stderr, "after.yaml:4: shop/a: spec.limit: ") || !strings.Contains(stderr, "1 problem in after.yaml") {
		t.Errorf("an invalid policy after: status %d\n%s", status, stderr)
	}
	for args, want := range map[string]string{
		"a":                   "got 1 argument: name the policies before and after the change",
		"cluster a":           "weir has no Kubernetes client: run kubectl weir diff FILES, or print the policies of the cluster with kubectl get ratelimitpolicies.weir.dev,",
		"a a":                 "both sides are a: name two different ones",
		"missing a":           "missing does not exist: check the name",
		"a b -o xml":          `--output "xml" is invalid: must be one of text, json, markdown`,
		"before.yaml missing": "missing does not exist: check the name",
	} {
		if status, _, stderr := runCommand(DiffCommand(), "", strings.Fields(args)...); status != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d\n%s", args, status, stderr)
		}
	}
}

// A policy is the same as itself, whatever it has: also with hashes of API keys.
func TestDiff_FindsNothingInTheSamples(t *testing.T) {
	here, err := filepath.Abs(samples)
	if err != nil {
		t.Fatal(err)
	}
	inDirectory(t, nil)
	if err := os.Symlink(here, "copy"); err != nil {
		t.Fatal(err)
	}
	if status, stdout, stderr := runCommand(DiffCommand(), "", here, "copy"); status != 0 || stdout != "The policies are the same.\n" {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
}

// TestPage_ShowsADiff compares the policy of the page about tests with a lower limit, as the page about continuous integration shows it.
func TestPage_ShowsADiff(t *testing.T) {
	pages := filepath.Join("..", "..", "..", "docs")
	tests, err := os.ReadFile(filepath.Join(pages, "reference", "policy-tests.md"))
	if err != nil {
		t.Fatal(err)
	}
	review, err := os.ReadFile(filepath.Join(pages, "how-to", "check-policies-in-ci.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, policy, _ := strings.Cut(string(tests), "```yaml\n")
	policy, _, _ = strings.Cut(policy, "```")
	_, want, _ := strings.Cut(string(review), "$ weir diff ../before/policies policies\n")
	want, _, _ = strings.Cut(want, "```")
	inDirectory(t, map[string]string{"before/tenant-free.yaml": policy, "policies/tenant-free.yaml": strings.Replace(policy, "limit: 100", "limit: 50", 1)})
	if _, stdout, stderr := runCommand(DiffCommand(), "", "before", "policies"); stdout != want {
		t.Errorf("the page shows\n%s\nprinted:\n%s%s", want, stdout, stderr)
	}
}

// With a log, each policy that differs has what its requests would notice.
func TestDiff_ReplaysALog(t *testing.T) {
	var log strings.Builder
	for second := range 20 {
		for _, address := range []string{"192.0.2.1", "192.0.2.1", "198.51.100.7"} {
			fmt.Fprintf(&log, "%s - - [02/Jan/2026:15:04:%02d +0000] \"GET /v1 HTTP/1.1\" 200 5 \"-\" \"curl\"\n", address, second)
		}
	}
	const ip = "axis: IP, limit: 100, window: 1m"
	inDirectory(t, map[string]string{
		"before.yaml": policyNamed("a", "{"+ip+"}") + policyNamed("b", "{"+ip+", match: {http: {paths: [{value: /other}]}}}") + policyNamed("c", "{axis: Tenant, limit: 100, window: 1m}"),
		"after.yaml": policyNamed("a", "{axis: IP, limit: 25, window: 1m}") + policyNamed("b", "{axis: IP, limit: 7, window: 1m, match: {http: {paths: [{value: /other}]}}}") +
			policyNamed("c", "{axis: Tenant, limit: 90, window: 1m}"),
		"access.log": log.String(), "policies.log": "no request\n",
	})
	status, stdout, stderr := runCommand(DiffCommand(), "", "before.yaml", "after.yaml", "--replay", "access.log")
	for _, want := range []string{
		`of 60 requests in the log, it newly denies 15, of 1 identifier; most of them of "192.0.2.1" (15)`, "of 60 requests in the log, it decides all as before",
		"of 60 requests in the log, it matches no request: No request has one of the paths of the policy, for example /other",
		"60 of the requests do not have its first identifier, and are counted by another one, such as the address: add it to the log",
	} {
		if status != 1 || !strings.Contains(stdout, want) {
			t.Errorf("status %d, want 1 and %q:\n%s%s", status, want, stdout, stderr)
		}
	}
	if _, stdout, _ := runCommand(DiffCommand(), "", "after.yaml", "before.yaml", "--replay", "access.log"); !strings.Contains(stdout, "it newly allows 15, of 1 identifier") {
		t.Errorf("the opposite change:\n%s", stdout)
	}
	for want, args := range map[string][]string{
		"missing.log does not exist":                        {"before.yaml", "after.yaml", "--replay", "missing.log"},
		"policies.log":                                      {"before.yaml", "after.yaml", "--replay", "policies.log"},
		"--map, --format and --domain have no effect":       {"before.yaml", "after.yaml", "--domain", "shop"},
		"standard input can be read once: write it to a fi": {"-", "after.yaml", "--replay", "access.log"},
	} {
		if status, _, stderr := runCommand(DiffCommand(), "", args...); status != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, want 2 and %q: %s", args, status, want, stderr)
		}
	}
}

// An edit of a Limiter changes the decisions of policies that are not edited.
func TestDiff_ReplaysALogForAnEditOfALimiter(t *testing.T) {
	var log strings.Builder
	for second := range 30 {
		fmt.Fprintf(&log, "192.0.2.1 - - [02/Jan/2026:15:04:%02d +0000] \"GET /v1 HTTP/1.1\" 200 5 \"-\" \"agent-%d\"\n", second, second%2)
	}
	limiter := func(name, identity string) string {
		return "apiVersion: weir.dev/v1alpha1\nkind: Limiter\nmetadata: {name: " + name + ", namespace: weir-system}\n" +
			"spec: {redis: {addresses: [redis:6379]}, identity: " + identity + "}\n---\n"
	}
	const account, agent = "{tenant: {header: x-account}}", "{tenant: {header: user-agent}}"
	tenants := policyNamed("tenants", "{axis: Tenant, limit: 20, window: 1m}") + policyNamed("all", "{axis: IP, limit: 100, window: 1m}")
	inDirectory(t, map[string]string{
		"before.yaml": tenants + limiter("edge", account), "after.yaml": tenants + limiter("edge", agent),
		"address.yaml": tenants + limiter("edge", "{tenant: {header: x-account}, ip: {header: Forwarded}}"),
		"two.yaml":     tenants + limiter("edge", account) + limiter("other", account), "one.yaml": tenants + limiter("edge", agent) + limiter("other", "{tenant: {header: x-other}}"),
		"exempt.yaml": tenants + limiter("edge", account+", kubernetesThrottle: {mode: Enforce, additionalExemptUsers: [ci]}"), "same.yaml": tenants + limiter("edge", account),
		"alone.yaml": policyNamed("tenants", "{axis: Tenant, limit: 10, window: 1m}"),
		"access.log": log.String(),
	})
	for name, test := range map[string]struct {
		args           []string
		stdout, stderr string
	}{
		"another header":    {[]string{"before.yaml", "after.yaml"}, "log, it newly allows 10, of 1 identifier; most of them of \"address:192.0.2.1\" (10)\n", ""},
		"the opposite":      {[]string{"after.yaml", "before.yaml"}, "log, it newly denies 10, of 1 identifier", ""},
		"one of two":        {[]string{"two.yaml", "one.yaml", "--limiter", "weir-system/edge"}, "log, it newly allows 10", ""},
		"only before":       {[]string{"after.yaml", "alone.yaml"}, "log, it newly denies 10, of 2 identifiers; most of them of \"agent-0\" (5)", ""},
		"only after":        {[]string{"alone.yaml", "after.yaml"}, "log, it newly allows 10, of 2 identifiers; most of them of \"agent-0\" (5)", ""},
		"other addresses":   {[]string{"before.yaml", "address.yaml"}, "it does not show what spec.identity.ip changes\n\nThe policies are the same. 1 Limiter differs", "no policy differs, so the log is not replayed"},
		"no difference":     {[]string{"before.yaml", "same.yaml"}, "The policies are the same.", "no policy differs, so the log is not replayed"},
		"other exempt ones": {[]string{"before.yaml", "exempt.yaml"}, "it does not show what spec.kubernetesThrottle changes\n\nThe policies are the same. 1 Limiter differs", "no policy differs"},
	} {
		status, stdout, stderr := runCommand(DiffCommand(), "", append(test.args, "--replay", "access.log")...)
		wantStatus := 1
		if name == "no difference" {
			wantStatus = 0
		}
		if status != wantStatus || !strings.Contains(stdout, test.stdout) || !strings.Contains(stderr, test.stderr) {
			t.Errorf("%s: status %d, want %d, %q and %q:\n%s%s", name, status, wantStatus, test.stdout, test.stderr, stdout, stderr)
		}
	}
}
