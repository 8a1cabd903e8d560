package files

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-dev/weir/cmd/internal/cli/findings"
	"github.com/weir-dev/weir/cmd/internal/cli/policytest"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/structure"
)

const samples = "../../../config/samples"

// TestSamples_AreWhatTheirTestsExpect runs the tests of the samples, and expects one of each policy.
func TestSamples_AreWhatTheirTestsExpect(t *testing.T) {
	status, stdout, stderr := runTests(samples, "-v")
	if status != 0 || !strings.Contains(stdout, " tests, 0 failed\n") {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	result, err := policyfile.NewLoader(compile.DefaultIdentity(), structure.Schema{}).Load(nil, samples)
	if err != nil {
		t.Fatal(err)
	}
	for name := range result.Rules.Policies() {
		_, short, _ := strings.Cut(name, "/")
		text, err := os.ReadFile(filepath.Join(samples, "tests", short+".yaml"))
		if err != nil || !strings.Contains(string(text), "name: "+short) && !strings.Contains(string(text), `name: "`+short+":") {
			t.Errorf("%s has no test of its own: %v", name, err)
		}
	}
}

const freeTenant = `apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: free, namespace: shop}
spec:
  axis: Tenant
  limit: 10
  window: 1m
  algorithm: SlidingWindowLog
  match: {http: {paths: [{value: /v1}]}}
  tiers:
  - {name: paid, when: {header: {name: x-plan, value: paid}}, limit: 100}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: other, namespace: shop}
spec: {axis: Tenant, limit: 1000, window: 1m, algorithm: SlidingWindowLog, match: {http: {paths: [{value: /v1/reports}]}}}
`

const testHeader = "apiVersion: cli.weir.dev/v1alpha1\nkind: PolicyTest\ntests:\n"

func runTests(args ...string) (status int, stdout, stderr string) {
	return runCommand(TestCommand(), "", args...)
}

// runTestFile runs a test file next to policies.
func runTestFile(t *testing.T, tests string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	inDirectory(t, map[string]string{"policies.yaml": freeTenant, "test.yaml": tests})
	return runTests(append([]string{"test.yaml"}, args...)...)
}

func TestTest_ComparesEachField(t *testing.T) {
	const request = "- name: a\n  request: {path: /v1/a, headers: {x-tenant-id: acme}}\n  repeat: 11\n  want: "
	for want, failure := range map[string]string{
		"{allowed: 10, status: 429, retryAfter: 60s, decidedBy: free}":           "",
		"{decidedBy: shop/free, policies: [{name: shop/free, outcome: Denies}]}": "",
		"{allowed: 11}":                                               "allowed: want 11, got 10 of 11",
		"{status: 200}":                                               "status: want 200, got 429",
		"{retryAfter: 59s}":                                           "retryAfter: want 59s, got 1m0s",
		"{delay: 1s}":                                                 "delay: want 1s, got 0s",
		"{decidedBy: other}":                                          "decidedBy: want other, got shop/free\n",
		"{decidedBy: paid}":                                           "decidedBy: want paid, got shop/free; there is no policy paid for the domain of the request",
		`{decidedBy: ""}`:                                             "decidedBy: want no policy, got shop/free",
		"{policies: []}":                                              "policies: shop/free counts the request, and want.policies does not list it",
		"{policies: [{name: free, tier: paid}]}":                      `policies: free: tier: want "paid", got ""`,
		"{policies: [{name: free, cost: 2}]}":                         "policies: free: cost: want 2, got 1",
		"{policies: [{name: free, identifier: globex}]}":              `policies: free: identifier: want "globex", got "acme"`,
		"{policies: [{name: free, limit: 5}]}":                        "policies: free: limit: want 5, got 10",
		"{policies: [{name: free, remaining: 5}]}":                    "policies: free: remaining: want 5, got 0",
		"{policies: [{name: free, outcome: Allows}]}":                 "policies: free: outcome: want Allows, got Denies",
		"{policies: [{name: free}, {name: other}]}":                   "policies: other does not count the request: ",
		"{policies: [{name: free}, {name: shop/missing}]}":            "policies: there is no policy shop/missing for the domain of the request",
		"{policies: [{name: free}, {name: other, outcome: NoMatch}]}": "",
	} {
		status, stdout, stderr := runTestFile(t, testHeader+request+want+"\n")
		switch {
		case failure == "" && status != 0, failure != "" && (status != 1 || !strings.Contains(stdout, "FAIL  test.yaml:4: a\n      "+failure)):
			t.Errorf("%s: status %d\n%s%s", want, status, stdout, stderr)
		case failure != "" && (!strings.Contains(stdout, "Denied by shop/free. Retry after 1m0s.") || !strings.Contains(stdout, "10 of 10 units used")):
			t.Errorf("%s: the failure has no explanation:\n%s", want, stdout)
		}
	}
}

func TestTest_StepsHaveTheCountersOfTheTest(t *testing.T) {
	status, stdout, stderr := runTestFile(t, testHeader+`- name: time passes
  request: {path: /v1/a, headers: {x-tenant-id: acme}}
  steps:
  - {repeat: 10, every: 1s, want: {allowed: 10}}
  - {want: {allowed: 0, retryAfter: 51s}}
  - {at: 60s, want: {allowed: 1}}
  - {request: {headers: {x-plan: paid}}, want: {allowed: 1, policies: [{name: free, tier: paid, limit: 100, identifier: acme}]}}
  - {at: 1h, repeat: 11, want: {allowed: 11}}
- name: the next test has counters of its own
  request: {path: /v1/a, headers: {x-tenant-id: acme}}
  repeat: 10
  want: {allowed: 10}
`)
	want := "FAIL  test.yaml:4: time passes\n      step 5, which ends at 1h0m0s: allowed: want 11, got 10 of 11\n"
	if status != 1 || !strings.HasPrefix(stdout, want) || !strings.HasSuffix(stdout, "2 tests, 1 failed\n") {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
}

func TestTest_RejectsWhatTestsNothing(t *testing.T) {
	const valid = "- name: a\n  request: {path: /v1}\n  want: {allowed: 1}\n"
	for text, want := range map[string]struct {
		status int
		text   string
	}{
		testHeader + valid:                                         {0, ""},
		"kind: Other\napiVersion: v1\n":                            {1, "there is no test in test.yaml: a test is in a document with apiVersion: cli.weir.dev/v1alpha1 and kind: PolicyTest"},
		strings.Replace(testHeader, "cli.weir", "weir", 1) + valid: {2, `test.yaml:1: apiVersion: PolicyTest has no version "weir.dev/v1alpha1"; write apiVersion: cli.weir.dev/v1alpha1`},
		testHeader + " []\n":                                       {2, "test.yaml:3: tests: the list tests is missing or empty"},
		testHeader + strings.Replace(valid, "want: {allowed: 1}", "want: {}", 1):    {2, `test.yaml:4: tests[0]: test "a": no step has a want, so that the test checks nothing`},
		testHeader + strings.Replace(valid, "  want: {allowed: 1}\n", "", 1):        {2, "no step has a want, so that the test checks nothing"},
		testHeader + strings.Replace(valid, "name: a", "name: ''", 1):               {2, "a test needs a name"},
		testHeader + strings.Replace(valid, "allowed", "allow", 1):                  {2, `weir test: test.yaml:6: tests[0].want.allow: unknown field; did you mean allowed?`},
		testHeader + strings.Replace(valid, "path", "pth", 1):                       {2, `pth`},
		testHeader + strings.Replace(valid, "  want", "  at: 60\n  want", 1):        {2, "test.yaml:6: tests[0].at: must be a length of time such as 90s, 1h30m or 1d, and is 60; write at: 1m"},
		testHeader + strings.Replace(valid, "  want", "  every: 1x\n  want", 1):     {2, `tests[0].every: must be a length of time such as 90s, 1h30m or 1d, and is "1x"`},
		testHeader + strings.Replace(valid, "  want", "  repeat: -1\n  want", 1):    {2, "repeat must be from 1 to 10000000, and is -1"},
		testHeader + strings.Replace(valid, "request: {path: /v1}", "write: {}", 1): {2, "a write needs a user and an object"},
		testHeader + strings.Replace(valid, "  request: {path: /v1}\n", "", 1):      {2, "needs a request or a write"},
		testHeader + valid + "  steps: [{want: {allowed: 1}}]\n":                    {2, "at, repeat, every and want of a test with steps are in its steps"},
		testHeader + "- {name: a, request: {path: /}, steps: [{at: 1m, want: {allowed: 1}}, {at: 1s}]}\n": {
			2, "step 2: at 1s is before the previous step, which ends at 1m0s",
		},
		"policies: [missing.yaml]\n" + testHeader + valid: {2, "missing.yaml does not exist"},
		"policies: [test.yaml]\n" + testHeader + valid:    {2, "there is no policy in test.yaml"},
	} {
		status, stdout, stderr := runTestFile(t, text)
		if status != want.status || !strings.Contains(stderr, want.text) {
			t.Errorf("%s\nstatus %d, want %d with %s\n%s%s", text, status, want.status, want.text, stdout, stderr)
		}
	}
	if status, _, stderr := runTestFile(t, testHeader+valid, "--run", "nothing"); status != 1 || !strings.Contains(stderr, `no test has a name that matches --run "nothing" in test.yaml`+"\n") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// Mistakes in a document next to a valid one: each is an error. The document is never taken for one of another program.
func TestTest_SkipsNoDocumentWithTests(t *testing.T) {
	const valid = "- name: a\n  request: {path: /v1}\n  want: {allowed: 1}\n"
	failing := testHeader + strings.Replace(valid, "allowed: 1", "allowed: 0", 1)
	for text, want := range map[string]struct {
		status int
		text   string
	}{
		"kind: Other\napiVersion: v1\n":                                                         {0, ""},
		strings.Replace(failing, "PolicyTest", "PolicyTets", 1):                                 {2, "b.yaml:2: kind: unknown kind PolicyTets in cli.weir.dev/v1alpha1; supported kinds: PolicyTest in cli.weir.dev/v1alpha1; did you mean PolicyTest?"},
		strings.Replace(failing, "PolicyTest", "policytest", 1):                                 {2, "did you mean PolicyTest?"},
		strings.Replace(failing, "kind: PolicyTest\n", "", 1):                                   {2, "b.yaml:1: an object must have apiVersion and kind"},
		strings.Replace(failing, "kind:", "Kind:", 1):                                           {2, "did you mean kind in place of Kind?"},
		strings.Replace(failing, "cli.weir.dev/v1alpha1", "v1", 1):                              {2, `PolicyTest has no version "v1"; write apiVersion: cli.weir.dev/v1alpha1`},
		strings.Replace(failing, "  request", "\trequest", 1):                                   {2, "b.yaml:5: a tab: YAML needs spaces for indentation"},
		"--- # a comment\n" + failing:                                                           {1, "FAIL  b.yaml:5: a"},
		testHeader + valid + "--- # a comment\n" + failing:                                      {1, "FAIL  b.yaml:11: a"},
		testHeader + valid + "...\n" + failing:                                                  {2, "b.yaml:8: something follows the document"},
		testHeader + valid + failing:                                                            {2, "b.yaml:7: apiVersion: duplicate field; a second document begins with a line ---"},
		"apiVersion: v1\nkind: List\nitems:\n- " + indented(failing):                            {1, "FAIL  b.yaml:7: a"},
		strings.Replace(failing, "want:", "Want:", 1):                                           {2, "b.yaml:6: tests[0].Want: unknown field; did you mean want?"},
		strings.Replace(failing, "allowed: 0", `allowed: "0"`, 1):                               {2, `b.yaml:6: tests[0].want.allowed: must be of type integer, and is the string "0"; write allowed: 0`},
		strings.Replace(failing, "allowed: 0", "allowed: 2", 1):                                 {2, "b.yaml:6: tests[0].want.allowed: test \"a\": allowed must be from 0 to 1, the number of requests of the step, and is 2"},
		strings.Replace(failing, "want: {allowed: 0}", "want: 0", 1):                            {2, "b.yaml:6: tests[0].want: must be of type object, and is the integer 0"},
		strings.Replace(failing, "allowed: 0", "policies: [free]", 1):                           {2, `b.yaml:6: tests[0].want.policies[0]: must be of type object, and is the string "free"; write - {name: free}`},
		strings.Replace(failing, "allowed: 0", "policies: [{name: free, outcome: Allowed}]", 1): {2, `did you mean Allows?`},
		strings.Replace(failing, "allowed: 0", "status: denied", 1):                             {2, `b.yaml:6: tests[0].want.status: must be of type integer, and is the string "denied"`},
		strings.Replace(failing, "path: /v1", "headers: {x-tenant-id: 5}", 1):                   {2, "b.yaml:5: tests[0].request.headers.x-tenant-id: must be a text or a list of texts, and is 5; write it in quotes"},
		strings.Replace(failing, "path", "pth", 1):                                              {2, "b.yaml:5: tests[0].request.pth: unknown field; did you mean path?"},
		strings.Replace(failing, "path: /v1", "path: /v1, cost: -1", 1):                         {2, "b.yaml:5: tests[0].request.cost: must be at least 1, and is -1"},
		strings.Replace(failing, "  want", "  repeat: 1k\n  want", 1):                           {2, `b.yaml:6: tests[0].repeat: must be of type integer, and is the string "1k"; write repeat: 1000`},
		strings.Replace(failing, "  want", "  repeat: 0\n  want", 1):                            {2, "b.yaml:6: tests[0].repeat: test \"a\": repeat must be from 1 to 10000000, and is 0"},
		strings.Replace(failing, "  want", "  every: 1s\n  want", 1):                            {2, "every has no effect without repeat"},
		"start: yesterday\n" + failing:                                                          {2, `b.yaml:1: start: "yesterday" must be a time such as 2026-01-31T12:00:00Z`},
		"policies: policies.yaml\n" + failing:                                                   {2, `b.yaml:1: policies: must be of type array, and is the string "policies.yaml"; write policies: [policies.yaml]`},
		"namespaces: [{nam: shop}]\n" + failing:                                                 {2, `b.yaml:1: namespaces[0].nam: unknown field; did you mean name?`},
		strings.Replace(failing, "request", "write", 1):                                         {2, "b.yaml:5: tests[0].write.path: unknown field"},
	} {
		inDirectory(t, map[string]string{"policies.yaml": freeTenant, "a.yaml": testHeader + valid, "b.yaml": text})
		status, stdout, stderr := runTests("a.yaml", "b.yaml")
		if status != want.status || !strings.Contains(stdout+stderr, want.text) {
			t.Errorf("%s\nstatus %d, want %d with %s\n%s%s", text, status, want.status, want.text, stdout, stderr)
		}
	}
}

// indented returns a document as an item of a list.
func indented(document string) string {
	return strings.ReplaceAll(strings.TrimSuffix(document, "\n"), "\n", "\n  ") + "\n"
}

func TestTest_WritesReports(t *testing.T) {
	tests := testHeader + "- name: passes\n  request: {path: /v1}\n  want: {allowed: 1}\n- name: fails\n  request: {path: /v1}\n  want: {allowed: 0}\n"
	status, stdout, stderr := runTestFile(t, tests, "-o", "json", "-o", "junit=test.xml")
	var results []policytest.Result
	if err := json.Unmarshal([]byte(stdout), &results); err != nil || status != 1 || len(results) != 2 || !results[0].Passed() || results[1].Passed() {
		t.Errorf("status %d, %v\n%s%s", status, err, stdout, stderr)
	}
	text, err := os.ReadFile("test.xml")
	if err != nil {
		t.Fatal(err)
	}
	var suites findings.Suites
	if err := xml.Unmarshal(text, &suites); err != nil || suites.Tests != 2 || suites.Failures != 1 {
		t.Errorf("%v\n%s", err, text)
	}
	if c := suites.Suites[0].Cases[1]; c.Name != "fails" || c.Line != 7 || c.Failures[0].Message != "allowed: want 0, got 1 of 1" ||
		!strings.Contains(c.Failures[0].Text, "shop/free") {
		t.Errorf("%+v", c)
	}
}

// The identity table of a Limiter next to the policies applies.
func TestTest_UsesTheLimiterOfTheFiles(t *testing.T) {
	inDirectory(t, map[string]string{"policies.yaml": limiterWithTable + strings.Replace(twoPolicies, "rules: 1}", "rules: 9}", 1), "test.yaml": testHeader +
		"- name: a\n  request: {path: /, clientIP: 192.0.2.1, headers: {x-account: acme}}\n  want: {policies: [{name: accounts, tier: partner}, {name: addresses, identifier: 192.0.2.1}]}\n"})
	if status, stdout, stderr := runTests("."); status != 0 {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
}

// TestPage_RunsItsExample runs the policy and the test of the reference page, also with a lower limit, which the page shows as a failure.
func TestPage_RunsItsExample(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/policy-tests.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```(yaml|console)\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 4 {
		t.Fatalf("%d blocks", len(blocks))
	}
	for limit, shown := range map[string]string{"limit: 100": blocks[2][2], "limit: 50": blocks[3][2]} {
		inDirectory(t, map[string]string{
			"policies/tenant-free.yaml": strings.Replace(blocks[0][2], "limit: 100", limit, 1), "policies/tests/tenant-free.yaml": blocks[1][2],
		})
		_, stdout, stderr := runTests("policies/")
		words := func(text string) string { return strings.Join(strings.Fields(text), " ") }
		if want := words(strings.TrimPrefix(shown, "$ weir test policies/\n")); !strings.Contains(words(stdout), want) {
			t.Errorf("%s: the page shows\n%s\nprinted:\n%s%s", limit, shown, stdout, stderr)
		}
	}
}
