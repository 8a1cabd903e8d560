package replaycommand_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/weir/replaycommand"
	"github.com/weir-dev/weir/internal/replay/result"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // the schema compiles expressions
)

// weir runs a command line.
func weir(args ...string) (status int, stdout, stderr string) {
	root := &cobra.Command{Use: "weir"}
	root.AddCommand(replaycommand.Command())
	var out, notes bytes.Buffer
	status = cli.Run(cli.Complete(root), args, &out, &notes)
	return status, out.String(), notes.String()
}

func write(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func policy(name, spec string) string {
	return fmt.Sprintf("---\napiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {namespace: shop, name: %s}\nspec: {%s}\n", name, spec)
}

// accessLog has a request of each of 10 clients in each of 10 seconds, and 20 of another client in the last one.
func accessLog() string {
	var text strings.Builder
	line := func(second, client int) {
		at := time.Date(2026, 11, 2, 10, 0, second, 0, time.UTC).Format("02/Jan/2006:15:04:05 -0700")
		fmt.Fprintf(&text, "192.0.2.%d - - [%s] \"GET /v1/items HTTP/1.1\" 200 612 \"-\" \"app/1\"\n", client, at)
	}
	for second := range 10 {
		for client := range 10 {
			line(second, client)
		}
	}
	for range 20 {
		line(9, 77)
	}
	return text.String()
}

func TestReplay_PrintsWhatPoliciesWouldHaveDenied(t *testing.T) {
	log := write(t, "access.log", accessLog())
	policies := write(t, "p.yaml", policy("ip", "axis: IP, limit: 15, window: 1m")+
		policy("trial", "axis: IP, limit: 5, window: 1m, enforcement: Shadow")+policy("tenant", "axis: Tenant, limit: 1, window: 1m, match: {http: {paths: [{type: PathPrefix, value: /v2}]}}"))
	status, stdout, stderr := weir("replay", "--policies", policies, "--limits", "5,20", log)
	if status != 0 || stderr != "" {
		t.Fatalf("status %d: %s", status, stderr)
	}
	want := `Policy shop/tenant matched no request. No request has one of the paths of the policy, for example /v2 (120 of 120 requests that were examined).
120 requests from 2026-11-02 10:00:00Z to 2026-11-02 10:00:09Z (9s)
120 matched by a policy, 5 denied (4.17%), 65 would be denied in Shadow mode

POLICY       LIMIT  ALGORITHM             MODE     MATCHED  DENIED  SHARE  IDENTIFIERS  DENIED  SHARE  PEAK USE  FIRST DENIAL
shop/ip      15/1m  SlidingWindowCounter  Enforce  120      5       4.17%  11           1       9.09%  15 of 15  2026-11-02 10:00:09Z
shop/tenant  1/1m   SlidingWindowCounter  Enforce  0        0       0%     0            0       0%     -         -
shop/trial   5/1m   SlidingWindowCounter  Shadow   120      65      54.2%  11           11      100%   5 of 5    2026-11-02 10:00:05Z

shop/ip
  busiest minute 2026-11-02 10:00:00Z: 120 requests, 5 denied; busiest hour 2026-11-02 10:00:00Z: 120 requests, 5 denied
  IDENTIFIER  DENIED  REQUESTS  PEAK IN 1m  FIRST DENIAL
  192.0.2.77  5       20        20          2026-11-02 10:00:09Z
  WITH LIMIT  DENIED REQUESTS  SHARE  DENIED IDENTIFIERS  SHARE
  5           65               54.2%  11                  100%
  20          0                0%     0                   0%
`
	if !strings.HasPrefix(stdout, want) {
		t.Errorf("%s\nwant it to begin with:\n%s", stdout, want)
	}
}

func TestReplay_WritesJSON(t *testing.T) {
	status, stdout, stderr := weir("replay", "--policies", write(t, "p.yaml", policy("ip", "axis: IP, limit: 15, window: 1m")), "-o", "json", write(t, "access.log", accessLog()))
	var found result.Result
	if err := json.Unmarshal([]byte(stdout), &found); err != nil || status != 0 {
		t.Fatalf("status %d, %v: %s", status, err, stderr)
	}
	in := found.Input
	if found.Version != result.Version || found.Total.Denied != 5 || in.Lines != 120 || in.Bytes != int64(len(accessLog())) || len(in.Files) != 1 || in.Files[0].Format != "nginx" {
		t.Errorf("%+v, %+v", found.Total, in)
	}
}

func TestReplay_FailsAboveMaxDenied(t *testing.T) {
	log := write(t, "access.log", accessLog())
	for spec, want := range map[string]int{
		"axis: IP, limit: 15, window: 1m": 3, "axis: IP, limit: 15, window: 1m, enforcement: Shadow": 3, "axis: IP, limit: 20, window: 1m": 0,
	} {
		status, _, stderr := weir("replay", "--policies", write(t, "p.yaml", policy("ip", spec)), "--max-denied", "4.1%", log)
		if status != want || want == 3 && !strings.Contains(stderr, "policies deny 4.17% of the requests, which is more than --max-denied 4.1%") {
			t.Errorf("%s: status %d, want %d: %s", spec, status, want, stderr)
		}
	}
}

func TestReplay_ComparesDirectories(t *testing.T) {
	before, after := write(t, "p.yaml", policy("ip", "axis: IP, limit: 18, window: 1m")), write(t, "p.yaml", policy("ip", "axis: IP, limit: 15, window: 1m"))
	status, stdout, stderr := weir("replay", "--policies", after, "--policies-before", before, write(t, "access.log", accessLog()))
	for _, want := range []string{"Change: 3 requests are newly denied, and 0 newly allowed", "NEWLY DENIED  REQUESTS  POLICY\n192.0.2.77    3         shop/ip"} {
		if status != 0 || !strings.Contains(stdout, want) {
			t.Errorf("status %d, want %q:\n%s%s", status, want, stdout, stderr)
		}
	}
}

func TestReplay_ProposesAPolicy(t *testing.T) {
	log := write(t, "access.log", accessLog())
	status, stdout, stderr := weir("replay", "--axis", "ip", "--domain", "shop", "--path-prefix", "/v1", "--suggest=10%", log)
	if row := strings.Join(strings.Fields(stdout), " "); !strings.Contains(row, "shop/proposed-ip not yet SlidingWindowCounter Shadow 120 0 0% 11 0 0% - - shop/proposed-ip") {
		t.Errorf("the limit with which the log is replayed is shown: %s", row)
	}
	_, text, found := strings.Cut(stdout, "Proposed policy, in Shadow mode:\n\n")
	if status != 0 || !found || !strings.Contains(text, "limit: 10\n") || !strings.Contains(text, "enforcement: Shadow") {
		t.Fatalf("status %d: %s%s", status, stdout, stderr)
	}
	text, _, _ = strings.Cut(text, "\n\n")
	status, stdout, _ = weir("replay", "--policies", write(t, "p.yaml", text), log)
	if status != 0 || !strings.Contains(strings.Join(strings.Fields(stdout), " "), "shop/proposed-ip 10/1m SlidingWindowCounter Shadow 120 10 8.33%") {
		t.Errorf("status %d: %s", status, stdout)
	}
}

func TestReplay_ProposesAPolicyForTheNamespaceOfTheOthers(t *testing.T) {
	policies := write(t, "p.yaml", policy("ip", "axis: IP, limit: 15, window: 1m"))
	status, stdout, stderr := weir("replay", "--policies", policies, "--axis", "ip", write(t, "access.log", accessLog()))
	if status != 0 || !strings.Contains(stdout, "name: proposed-ip\n  namespace: shop\n") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
}

func TestReplay_WritesAReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.html")
	policies := write(t, "p.yaml", policy("ip", "axis: IP, limit: 15, window: 1m"))
	log := write(t, "access.log", accessLog())
	if status, _, stderr := weir("replay", "--policies", policies, "--report", path, log); status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	if text, err := os.ReadFile(path); err != nil || !bytes.Contains(text, []byte("192.0.2.77")) {
		t.Errorf("%v, %d bytes", err, len(text))
	}
	if status, _, stderr := weir("replay", "--policies", policies, "--report", filepath.Join(path, "no", "directory"), log); status != 2 || !strings.Contains(stderr, "does not exist: create it") {
		t.Errorf("status %d: %s", status, stderr)
	}
	for _, input := range []string{log, policies} {
		status, _, stderr := weir("replay", "--policies", policies, "--report", input, log)
		if content, err := os.ReadFile(input); status != 2 || !strings.Contains(stderr, "--report: "+input+" is an input of the command") || err != nil || bytes.Contains(content, []byte("<html")) {
			t.Errorf("a report in place of an input: status %d: %s", status, stderr)
		}
	}
}

func TestReplay_RejectsBadInput(t *testing.T) {
	log := write(t, "access.log", accessLog())
	policies := write(t, "p.yaml", policy("ip", "axis: IP, limit: 15, window: 1m"))
	two := write(t, "p.yaml", policy("ip", "axis: IP, limit: 15, window: 1m")+strings.ReplaceAll(policy("ip", "axis: IP, limit: 15, window: 1m"), "shop", "other"))
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(strings.Repeat(accessLog(), 50))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	truncated := write(t, "access.log.gz", packed.String()[:packed.Len()-20])
	garbage := write(t, "garbage.log", accessLog()+strings.Repeat("not a line of the log\n", 5))
	tests := []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"--policies", policies}, 2, "missing argument: name the access logs"},
		{[]string{log}, 2, "--policies is required"},
		{[]string{"--policies", policies, "-o", "yaml", log}, 2, `--output "yaml" is invalid`},
		{[]string{"--policies", policies, "--limits", "5,x", log}, 2, `"x" is invalid`},
		{[]string{"--policies", policies, "--max-denied", "0.1", log}, 2, `--max-denied "0.1" is invalid: must be a percentage`},
		{[]string{"--policies", policies, "--suggest-of", "x", log}, 2, `--suggest-of "x" is invalid`},
		{[]string{"--policies", policies, "--path-prefix", "/v1", log}, 2, "--path-prefix has no effect without --axis"},
		{[]string{"--axis", "Planet", log}, 2, `--axis "Planet" is invalid`},
		{[]string{"--axis", "IP", "--path-prefix", "v1", log}, 2, "must begin with /"},
		{[]string{"--policies", policies, "--map", "x", log}, 2, `--map: "x" has no =`},
		{[]string{"--policies", policies, "--top", "-1", log}, 2, "--top -1 is invalid"},
		{[]string{"--policies", "/nowhere", log}, 2, "--policies: /nowhere does not exist"},
		{[]string{"--policies", two, log}, 2, "choose that of the requests with --domain, one of other, shop"},
		{[]string{"--policies", t.TempDir(), log}, 1, "there is no enforced policy in"},
		{[]string{"--policies", write(t, "p.yaml", policy("ip", "axis: IP, limit: many, window: 1m")), log}, 1, "--policies: 1 problem: correct the policies first"},
		{[]string{"--policies", policies, "--policies-before", t.TempDir(), log}, 1, "--policies-before: there is no enforced policy"},
		{[]string{"--policies", policies, write(t, "empty.log", "")}, 1, "the log is empty"},
		{[]string{"--policies", policies, "/nowhere.log"}, 1, "/nowhere.log"},
		{[]string{"--policies", policies, "--format", "x", log}, 2, `--format: "x" is invalid: must be ingress-nginx`},
		{[]string{"--policies", policies, "--format", "nginx:x", log}, 2, `--format: the log_format of nginx is invalid: "x" has no variable`},
		{[]string{"--policies", policies, "--top", "101", log}, 2, "--top 101 is invalid: must be from 0 to 100"},
		{[]string{"--policies", policies, "--suggest-of", "requests", log}, 2, "--suggest-of has no effect without --suggest or --axis"},
		{[]string{"--policies", policies, "--max-denied", "", log}, 2, `--max-denied "" is invalid: must be a percentage`},
		{[]string{"--policies", policies, "--max-bad", "", log}, 2, `--max-bad "" is invalid: must be a percentage`},
		{[]string{"--policies", policies, "--suggest", "5%", log}, 2, "5% is no log: if it is the share of --suggest, write --suggest=5%"},
		{[]string{"--policies", policies, "--suggest=", log}, 2, `--suggest "" is invalid: must be a percentage`},
		{[]string{"--policies", policies, "--domain", "other", log}, 1, "no request matched a policy, so nothing was decided: see the reason of each policy"},
		{[]string{"--policies", policies, truncated}, 1, "access.log.gz"},
		{[]string{"--policies", policies, garbage}, 1, "5 of 125 lines could not be read, which is more than --max-bad 1%"},
	}
	for _, test := range tests {
		status, stdout, stderr := weir(append([]string{"replay"}, test.args...)...)
		if status != test.status || !strings.Contains(stderr, test.want) {
			t.Errorf("%v: status %d, want %d with %q:\n%s%s", test.args, status, test.status, test.want, stdout, stderr)
		}
	}
	if status, stdout, stderr := weir("replay", "--policies", policies, "--max-bad", "5%", garbage); status != 0 ||
		!strings.HasPrefix(stdout, garbage+":121: ") || !strings.Contains(stdout, "not a line of the log") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	if status, _, stderr := weir("replay", "--policies", two, "--domain", "other", log); status != 0 {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// Ctrl-C ends the context of the command. A pipe to which nothing more is written does not end.
func TestReplay_PrintsWhatIsKnownWhenItIsInterrupted(t *testing.T) {
	in, end := io.Pipe()
	ctx, interrupt := context.WithCancel(t.Context())
	root := &cobra.Command{Use: "weir", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(replaycommand.Command())
	var out, notes bytes.Buffer
	root.SetIn(in)
	root.SetOut(&out)
	root.SetErr(&notes)
	root.SetArgs([]string{"replay", "--policies", write(t, "p.yaml", policy("ip", "axis: IP, limit: 15, window: 1m")), "-"})
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	var log bytes.Buffer // is larger than what the command reads ahead of its decisions
	for second := range 150_000 {
		at := time.Date(2026, 11, 2, 10, 0, second, 0, time.UTC).Format("02/Jan/2006:15:04:05 -0700")
		fmt.Fprintf(&log, "192.0.2.%d - - [%s] \"GET /v1/items HTTP/1.1\" 200 612 \"-\" \"app/1\"\n", second%8, at)
	}
	if _, err := end.Write(log.Bytes()); err != nil { // returns when the command has read it
		t.Fatal(err)
	}
	interrupt()
	err := <-done
	var status *cli.ExitError
	if !errors.As(err, &status) || status.Code != cli.ExitInterrupted {
		t.Errorf("%v, want exit status %d", err, cli.ExitInterrupted)
	}
	if text := out.String(); !strings.Contains(text, " requests from 2026-11-02 10:00:00Z to ") || strings.HasPrefix(text, "0 ") || !strings.Contains(text, "shop/ip") {
		t.Errorf("%s%s", &out, &notes)
	}
}

// Lines that wait to be sorted are not decided yet.
func TestReplay_EndsBeforeTheFirstDecision(t *testing.T) {
	in, end := io.Pipe()
	ctx, interrupt := context.WithCancel(t.Context())
	root := &cobra.Command{Use: "weir", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(replaycommand.Command())
	var out bytes.Buffer
	report := filepath.Join(t.TempDir(), "report.html")
	root.SetIn(in)
	root.SetOut(&out)
	root.SetErr(io.Discard)
	root.SetArgs([]string{"replay", "--policies", write(t, "p.yaml", policy("ip", "axis: IP, limit: 15, window: 1m")), "--report", report, "-"})
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	if _, err := end.Write([]byte(strings.Repeat(accessLog(), 20))); err != nil {
		t.Fatal(err)
	}
	interrupt()
	var status *cli.ExitError
	if err := <-done; !errors.As(err, &status) || status.Code != cli.ExitInterrupted || !strings.Contains(err.Error(), "interrupted before a") {
		t.Errorf("%v, want exit status %d", err, cli.ExitInterrupted)
	}
	if _, err := os.Stat(report); err == nil || out.Len() > 0 {
		t.Errorf("there is a report about no request, %v, %s", err, &out)
	}
}

// A pipe to which nothing is written has no first line.
func TestReplay_EndsBeforeTheFirstLine(t *testing.T) {
	in, end := io.Pipe()
	defer end.Close()
	ctx, interrupt := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer interrupt()
	root := &cobra.Command{Use: "weir", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(replaycommand.Command())
	root.SetIn(in)
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	root.SetArgs([]string{"replay", "--policies", write(t, "p.yaml", policy("ip", "axis: IP, limit: 15, window: 1m")), "-"})
	err := root.ExecuteContext(ctx)
	var status *cli.ExitError
	if !errors.As(err, &status) || status.Code != cli.ExitInterrupted || !strings.Contains(err.Error(), "interrupted before a line was read") {
		t.Errorf("%v, want exit status %d", err, cli.ExitInterrupted)
	}
}

func TestReplay_ALogWithoutARequestHasNoTimes(t *testing.T) {
	log := write(t, "access.log", strings.Repeat(`192.0.2.1 - - [02/Nov/2026:10:00:00 +0000] "-" 408 0 "-" "-"`+"\n", 3))
	policies := write(t, "p.yaml", policy("ip", "axis: IP, limit: 1, window: 1m"))
	for output, want := range map[string]string{"text": "0 requests\n3 lines left out: no HTTP request\n", "json": `"reason": "no HTTP request"`} {
		status, stdout, stderr := weir("replay", "--policies", policies, "-o", output, log)
		if status != 1 || !strings.Contains(stdout, want) || strings.Contains(stdout, "0001-") || !strings.Contains(stderr, "the log has no requests, so nothing was decided") {
			t.Errorf("%s: status %d: %s%s", output, status, stdout, stderr)
		}
	}
}

const replayedLimiter = `---
apiVersion: weir.dev/v1alpha1
kind: Limiter
metadata: {name: default, namespace: weir-system}
spec:
  redis: {mode: Standalone, addresses: ["redis:6379"]}
  identity: {tenant: {header: X-Account}, ip: {trustedProxies: [10.0.0.0/8]%s}}
`

// A Limiter next to the policies determines who a client is, as in production.
func TestReplay_ReadsTheLimiterOfThePolicies(t *testing.T) {
	line := func(source, forwarded, account string) string {
		return fmt.Sprintf(`{"time_iso8601":"2026-11-02T10:00:00Z","request":"GET /v1 HTTP/1.1","remote_addr":%q,"http_x_forwarded_for":%q,`+
			`"http_forwarded":"for=203.0.113.99","http_x_account":%q,"http_x_tenant_id":"other"}`+"\n", source, forwarded, account)
	}
	log := write(t, "access.json", strings.Repeat(line("10.0.0.1", "6.6.6.6, 203.0.113.7, 10.0.0.2", "acme"), 3)+line("198.51.100.1", "203.0.113.7", "acme")+
		line("10.0.0.9", "", ""))
	policies := policy("ip", "axis: IP, limit: 1, window: 1m") + policy("tenant", "axis: Tenant, limit: 1, window: 1m")
	limiter := fmt.Sprintf(replayedLimiter, "")
	directory := func(files ...string) string {
		dir := t.TempDir()
		for i, text := range files {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	for name, c := range map[string]struct {
		policies string
		want     []string
		no       string
	}{
		"a Limiter": {directory(policies, limiter), []string{
			"203.0.113.7 2 3 3", "acme 3 4 4", "1 requests come from a trusted proxy, and the log does not have their X-Forwarded-For",
		}, "10.0.0.1 "},
		"no Limiter":       {directory(policies), []string{"10.0.0.1 2 3 3", "other 4 5 5"}, "203.0.113.7 "},
		"the other header": {directory(policies, fmt.Sprintf(replayedLimiter, ", header: Forwarded")), []string{"203.0.113.99 3 4 4"}, "203.0.113.7 "},
	} {
		status, stdout, stderr := weir("replay", "--policies", c.policies, log)
		text := strings.Join(strings.Fields(stdout), " ")
		for _, want := range c.want {
			if status != 0 || !strings.Contains(text, want) {
				t.Errorf("%s: status %d, want %q: %s%s", name, status, want, stdout, stderr)
			}
		}
		if strings.Contains(text, c.no) {
			t.Errorf("%s: %q: %s", name, c.no, stdout)
		}
	}
	other := strings.NewReplacer("name: default", "name: other", "X-Account", "X-Other").Replace(limiter)
	both := directory(policies, limiter, other)
	if status, _, stderr := weir("replay", "--policies", both, log); status != 2 || !strings.Contains(stderr, "the Limiters weir-system/default and weir-system/other have different settings: choose one with --limiter") {
		t.Errorf("status %d: %s", status, stderr)
	}
	if status, stdout, stderr := weir("replay", "--policies", both, "--limiter", "weir-system/default", log); status != 0 || !strings.Contains(stdout, "acme") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	if status, _, stderr := weir("replay", "--policies", both, "--limiter", "weir-system/none", log); status != 2 || !strings.Contains(stderr, "--limiter: --policies has no valid Limiter weir-system/none") {
		t.Errorf("status %d: %s", status, stderr)
	}
	if status, _, stderr := weir("replay", "--axis", "IP", "--limiter", "a/b", log); status != 2 || !strings.Contains(stderr, "--limiter has no effect without --policies") {
		t.Errorf("status %d: %s", status, stderr)
	}
	status, stdout, stderr := weir("replay", "--policies", directory(policies, limiter), "--policies-before", directory(policies), log)
	if status != 0 || !strings.Contains(stdout, "Change: 0 requests are newly denied, and 0 newly allowed") {
		t.Errorf("the Limiter does not apply to policies before the change: status %d: %s%s", status, stdout, stderr)
	}
	status, stdout, stderr = weir("replay", "--policies", directory(policies, limiter), "--policies-before", directory(policies, strings.ReplaceAll(limiter, "10.0.0.0/8", "11.0.0.0/8")), log)
	if status != 0 || !strings.Contains(stdout, "The addresses of clients are those that the Limiter in --policies finds, also for --policies-before.") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
}

// Keys with dots and constants with commas have quotes, which the flag must not read as those of CSV.
func TestReplay_MapsKeysInQuotes(t *testing.T) {
	line := `{"time":"2026-11-02T10:00:00Z","http.method":"GET","url":"/v1","ip":"192.0.2.1","claims":{"a.b":"acme"}}` + "\n"
	policies := write(t, "p.yaml", policy("ip", `axis: IP, limit: 1, window: 1m, match: {http: {methods: [GET], headers: [{name: x-list, value: "a,b"}]}}`))
	status, stdout, stderr := weir("replay", "--policies", policies, "--map", `method=."http.method",header:x-list='a,b'`, "--map", "user=.sub", write(t, "a.json", line))
	if status != 0 || !strings.Contains(stdout, "1 matched by a policy") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
}

func TestReplay_DescribesHowToLogAHeader(t *testing.T) {
	log := write(t, "access.log", accessLog())
	const want = `- To have a header in a log of the format nginx: add "$http_HEADER" to log_format, and pass that text as --format 'nginx:…'.`
	for spec, isNoted := range map[string]bool{
		"axis: IP, limit: 15, window: 1m": false, "axis: Tenant, limit: 15, window: 1m": true,
		"axis: IP, limit: 15, window: 1m, match: {http: {headers: [{name: x-plan, value: gold}]}}": true,
	} {
		policies := write(t, "p.yaml", policy("ip", spec))
		if status, stdout, stderr := weir("replay", "--policies", policies, log); status > 1 || strings.Contains(stdout, want) != isNoted { // 1: no request matches
			t.Errorf("%s: status %d:\n%s%s", spec, status, stdout, stderr)
		}
	}
}

func TestReplay_NamesThePrecisionOfTheLog(t *testing.T) {
	policies := write(t, "p.yaml", policy("ip", "axis: IP, limit: 1, window: 1m"))
	for at, want := range map[string]bool{"2026-11-02T10:00:00Z": true, "2026-11-02T10:00:00.25Z": false} {
		log := write(t, "a.json", fmt.Sprintf(`{"time":%q,"method":"GET","url":"/v1","ip":"192.0.2.1"}`, at))
		if status, stdout, stderr := weir("replay", "--policies", policies, log); status != 0 || strings.Contains(stdout, "The log has times of 1s") != want {
			t.Errorf("%s: status %d: %s%s", at, status, stdout, stderr)
		}
	}
}
