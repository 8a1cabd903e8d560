package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/ask"
	"github.com/weir-dev/weir/limiter/admin"
)

// serveWithAdmin runs weir serve with the policy shop/tenant, and returns its URL. The admin endpoint is at listen.
func serveWithAdmin(t *testing.T, listen, token string) (base string, out *Transcript) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tenant.yaml"), []byte(tenantPolicy("2")), 0o600); err != nil {
		t.Fatal(err)
	}
	out = &Transcript{}
	log, err := cli.NewLogger(out, "text", "info")
	if err != nil {
		t.Fatal(err)
	}
	f := serveFlags{policies: dir, counters: countersOf("weir:"), sockets: anyPort, admin: adminFlags{listen: listen, tokenFile: token}}
	launch(t, func(ctx context.Context) error { return runServe(ctx, f, out, log) })
	return find(t, out, `at (http://\S+)/v1/check`), out
}

func TestAdmin_UnixSocketAnswersItsOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	_ = left.Close() // as a process that was killed: the file stays
	base, out := serveWithAdmin(t, "unix:"+path, "")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v), want 0600", info.Mode(), err)
	}
	for range 2 {
		check(t, base, acme)
	}

	status, stdout, stderr := runWithInput(t, "", "explain", "--admin", "unix:"+path, "--domain", "shop", "-H", "x-tenant-id: acme", "-o", "json")
	var x admin.Explanation
	if err := json.Unmarshal([]byte(stdout), &x); err != nil || status != exitDenied {
		t.Fatalf("status %d, %v: %s%s", status, err, stdout, stderr)
	}
	if p := x.Policies[0]; p.Outcome != admin.Denies || *p.Charge.Used != 2 || x.Answer.Policy != "shop/tenant" {
		t.Errorf("%+v", x)
	}
	status, stdout, stderr = runWithInput(t, "", "rules", "--admin", "unix:"+path)
	if status != 0 || !strings.Contains(stdout, "shop/tenant  shop     Tenant  header x-tenant-id  2 per 1h  SlidingWindowLog  0      Enforce") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	var level admin.Level
	response, closeConnection, err := (&ask.Process{Address: "unix:" + path}).Request(t.Context(), http.MethodPut, "/admin/v1/log-level", []byte(`{"level":"debug"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer closeConnection()
	if err := ask.Decode(response, &level); err != nil || level.Level != slog.LevelDebug {
		t.Errorf("level %v (%v)", level, err)
	}
	find(t, out, fmt.Sprintf(`(log level changed" from=INFO to=DEBUG caller="uid %d, pid %d")`, os.Getuid(), os.Getpid()))
}

func TestAdmin_LoopbackRequiresTheToken(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(strings.Repeat("t", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, out := serveWithAdmin(t, "127.0.0.1:0", token)
	address := find(t, out, `admin=(127\.0\.0\.1:[0-9]+)`)
	status, stdout, _ := runWithInput(t, "", "rules", "--admin", address, "--admin-token-file", token)
	if status != 0 || !strings.Contains(stdout, "shop/tenant") {
		t.Errorf("with the token: status %d, %s", status, stdout)
	}
	status, _, stderr := runWithInput(t, "", "rules", "--admin", address)
	if status != cli.ExitFailed || !strings.Contains(stderr, "the header Authorization must contain a bearer token") {
		t.Errorf("without a token: status %d, %s", status, stderr)
	}
	if status, body := get(t, "http://"+address+"/admin/v1/pprof/goroutine"); status != http.StatusUnauthorized {
		t.Errorf("a profile without a token: %d %s", status, body)
	}
}

func TestAdmin_RejectsAddressesThatOthersCanUse(t *testing.T) {
	dir := t.TempDir()
	token, short := filepath.Join(dir, "token"), filepath.Join(dir, "short")
	for file, text := range map[string]string{token: strings.Repeat("t", 32), short: "short"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for f, want := range map[adminFlags]string{
		{}:                          "",
		{listen: "unix:/tmp/a"}:     "",
		{"127.0.0.1:0", token}:      "",
		{"[::1]:0", token}:          "",
		{listen: "127.0.0.1:0"}:     "requires --admin-token-file",
		{":9091", token}:            "must be unix:PATH, or a loopback address",
		{"0.0.0.0:9091", token}:     "must be unix:PATH, or a loopback address",
		{"192.0.2.1:9091", token}:   "must be unix:PATH, or a loopback address",
		{"localhost:9091", token}:   "must be unix:PATH, or a loopback address", // a name can have other addresses
		{listen: "unix:"}:           "must be unix: and a path",
		{"unix:/tmp/a", token}:      "is not used with a Unix socket",
		{tokenFile: token}:          "requires --admin-listen",
		{"127.0.0.1:0", short}:      "must have at least 32 bytes",
		{"127.0.0.1:0", "/missing"}: "no such file",
	} {
		if err := f.validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", f, err, want)
		}
	}
}

func TestAdmin_KeepsFilesAndSocketsOfOthers(t *testing.T) {
	dir := t.TempDir()
	file, live := filepath.Join(dir, "file"), filepath.Join(dir, "live")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", live)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	for path, want := range map[string]string{file: "is not a socket", live: "another process listens"} {
		if _, err := (&adminFlags{listen: "unix:" + path}).open(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
}
