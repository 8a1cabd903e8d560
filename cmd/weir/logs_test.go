package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/weir/flags"
	"github.com/weir-dev/weir/limiter/decisionlog"
	"github.com/weir-dev/weir/test/fixture"
)

// follow runs weir logs until the test ends.
func follow(t *testing.T, args ...string) (stdout *fixture.LockedBuffer) {
	t.Helper()
	stdout = &fixture.LockedBuffer{}
	cmd := rootCommand() // not at the same time as that of another call: it sets variables of libraries
	cmd.SetArgs(append([]string{"logs"}, args...))
	cmd.SetOut(stdout)
	cmd.SetErr(io.Discard)
	launch(t, cmd.ExecuteContext)
	return stdout
}

func TestLogs_FollowsDenials(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	base, _ := serveWithAdmin(t, "unix:"+path, "")
	text := follow(t, "--admin", "unix:"+path)
	object := follow(t, "--admin", "unix:"+path, "--policy", "shop/tenant", "--identifier", "acme", "--endpoint", "check", "-o", "json")
	fixture.Await(t, "denials", func() bool {
		check(t, base, acme)
		return strings.Contains(text.String(), "\n") && strings.Contains(object.String(), "\n")
	})
	if line := find(t, text, `(?m)^\d\d:\d\d:\d\d\.\d{3}  (.*)$`); !strings.HasPrefix(line, "shop/tenant  acme  denied, retry after ") || !strings.Contains(line, "  limit 2  memory  check") {
		t.Errorf("%s", line)
	}
	var record decisionlog.Record
	if err := json.NewDecoder(strings.NewReader(object.String())).Decode(&record); err != nil || record.Policy != "shop/tenant" || record.Result != "denied" {
		t.Errorf("%v: %s", err, object)
	}
}

func TestLogs_ReportsUsageErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	serveWithAdmin(t, "unix:"+path, "")
	for args, want := range map[string]string{
		"logs":                                   "--admin is required",
		"logs --admin unix:/x -o yaml":           `--output "yaml" is invalid`,
		"logs --admin unix:/nowhere":             "does not answer",
		"logs --policy a/b --admin unix:" + path: `policy "a/b" is not enforced by this limiter`,
	} {
		if status, _, stderr := runWithInput(t, "", strings.Fields(args)...); status == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s, want %q", args, status, stderr, want)
		}
	}
}

func TestServe_WritesTheDecisionLog(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tenant.yaml"), []byte(tenantPolicy("2")), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, log, decisions := &bytes.Buffer{}, &Transcript{}, &fixture.LockedBuffer{}
	sockets := anyPort
	sockets.decisionLog = flags.DecisionLog{Denials: 10, Sample: 1, Identifiers: "Counted", Out: decisions}
	launch(t, func(ctx context.Context) error {
		return runServe(ctx, serveFlags{policies: dir, counters: countersOf("weir:"), sockets: sockets}, stdout, log.Logger())
	})
	base := "http://" + find(t, log, `msg=serving listen=(\S+)`)
	for range 3 {
		check(t, base, acme)
	}
	fixture.Await(t, "three decisions", func() bool { return strings.Count(decisions.String(), "\n") == 3 })
	if text := decisions.String(); strings.Count(text, `"result":"allowed"`) != 2 || strings.Count(text, `"result":"denied"`) != 1 {
		t.Errorf("%s", text)
	}
	if stdout.Len() > 0 {
		t.Errorf("stdout has %s", stdout)
	}
}

func TestDecisionLogFlags_AreValidated(t *testing.T) {
	dir := t.TempDir()
	for args, want := range map[string]string{
		"--decision-log-denials -1":                                     "must not be negative",
		"--decision-log-sample -1":                                      "must not be negative",
		"--decision-log-identifiers Plain":                              `"Plain" is invalid`,
		"--decision-log-identifiers Hashed --redis redis://127.0.0.1:1": "Hashed requires a hash key",
	} {
		all := append([]string{"serve", "--policies", dir, "--listen", "127.0.0.1:0", "--grpc-listen", "", "--ops-listen", "127.0.0.1:0"}, strings.Fields(args)...)
		if status, _, stderr := runWithInput(t, "", all...); status != cli.ExitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s, want %q", args, status, stderr, want)
		}
	}
}
