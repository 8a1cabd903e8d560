package rediscommand

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/limiter/admin/adminapi"
	"github.com/weir-dev/weir/test/fixture"
)

// run runs weir redis check, and returns its output and exit status.
func run(t *testing.T, arguments ...string) (output string, status int) {
	t.Helper()
	cmd := Command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append([]string{"check"}, arguments...))
	err := cmd.ExecuteContext(t.Context())
	var exit *cli.ExitError
	switch {
	case err == nil:
		return out.String(), 0
	case errors.As(err, &exit):
		return out.String() + exit.Error(), exit.Code
	default:
		t.Fatal(err)
		return "", 0
	}
}

func do(t *testing.T, server *fixture.RedisProcess, words ...string) {
	t.Helper()
	if _, err := server.Do(t.Context(), words...); err != nil {
		t.Fatal(err)
	}
}

func TestCheck_FindsWrongSetUps(t *testing.T) {
	locked := fixture.Redis(t, "--requirepass", "right")
	primary := fixture.Redis(t)
	replica := fixture.Redis(t, "--replicaof", strings.ReplaceAll(primary.Addr(), ":", " "))
	encrypted, files := fixture.RedisTLS(t, false)
	forbidden := fixture.Redis(t, "--user", "default", "on", "nopass", "~*", "&*", "+@all", "-evalsha", "-pexpireat")
	sentinel := fixture.Sentinel(t, primary.Addr())
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	for name, test := range map[string]struct {
		arguments []string
		wants     []string
	}{
		"wrong password":   {[]string{"redis://:hunter2@" + locked.Addr()}, []string{"rejects the user or the password"}},
		"no password":      {[]string{"redis://" + locked.Addr()}, []string{"requires a password"}},
		"a replica":        {[]string{replica.URL()}, []string{"is a replica of " + primary.Addr()}},
		"a Sentinel":       {[]string{"redis://" + sentinel.Addr()}, []string{"is a Sentinel that monitors"}},
		"another name":     {[]string{"redis://" + sentinel.Addr() + "?master=typo"}, []string{`does not monitor "typo"`}},
		"TLS":              {[]string{"redis://" + encrypted.Addr()}, []string{"requires TLS"}},
		"no TLS":           {[]string{"rediss://" + primary.Addr()}, []string{"does not use TLS"}},
		"an unknown CA":    {[]string{"rediss://" + encrypted.Addr()}, []string{"is not trusted", "--redis-ca"}},
		"HTTP":             {[]string{"redis://" + web.Listener.Addr().String()}, []string{"is an HTTP server"}},
		"ACL":              {[]string{forbidden.URL()}, []string{"grant the user +evalsha", "grant the user +pexpireat"}},
		"no cluster":       {[]string{primary.URL() + "?cluster=true"}, []string{"not a node of a Redis Cluster"}},
		"nothing listens":  {[]string{"redis://127.0.0.1:1"}, []string{"Redis is unavailable", "connection refused"}},
		"no such database": {[]string{primary.URL() + "/99"}, []string{"has no database 99"}},
	} {
		t.Run(name, func(t *testing.T) {
			output, status := run(t, test.arguments...)
			if status != cli.ExitFailed || !strings.Contains(output, "Weir cannot use this Redis") || strings.Contains(output, "hunter2") {
				t.Errorf("status %d:\n%s", status, output)
			}
			for _, want := range test.wants {
				if !strings.Contains(output, want) {
					t.Errorf("the output does not contain %q:\n%s", want, output)
				}
			}
		})
	}
	if output, status := run(t, "rediss://"+encrypted.Addr(), "--redis-ca", files.CA); status != 0 {
		t.Errorf("TLS with its CA: status %d:\n%s", status, output)
	}
}

func TestCheck_FindsTheClusterOfANode(t *testing.T) {
	output, status := run(t, fixture.RedisCluster(t).Nodes()[0].URL())
	if status != 0 {
		t.Errorf("status %d", status)
	}
	for _, want := range []string{"Cluster with 3 primaries", "Weir uses the cluster", "cluster-require-full-coverage", "Weir can use this Redis"} {
		if !strings.Contains(output, want) {
			t.Errorf("the output does not contain %q:\n%s", want, output)
		}
	}
	if trips := strings.Count(output, "round trip"); trips != 3 {
		t.Errorf("%d primaries were measured, want 3:\n%s", trips, output)
	}
}

// checkJSON returns the report of a Redis that can be used.
func checkJSON(t *testing.T, arguments ...string) adminapi.RedisReport {
	t.Helper()
	output, status := run(t, append(arguments, "-o", "json", "--samples", "10")...)
	var r adminapi.RedisReport
	if err := json.Unmarshal([]byte(output), &r); err != nil || status != 0 || !r.Usable {
		t.Fatalf("status %d, %v:\n%s", status, err, output)
	}
	return r
}

func TestCheck_ReportsMemoryAndSettings(t *testing.T) {
	dir := t.TempDir()
	const policies = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: log, namespace: shop}
spec: {axis: Tenant, limit: 100, window: 1h, algorithm: SlidingWindowLog}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: window, namespace: shop}
spec: {axis: Tenant, limit: 100, window: 1h, algorithm: FixedWindow}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: compact, namespace: shop}
spec: {axis: Tenant, limit: 100, window: 1h, algorithm: FixedWindow, storage: Compact}
`
	if err := os.WriteFile(filepath.Join(dir, "p.yaml"), []byte(policies), 0o600); err != nil {
		t.Fatal(err)
	}
	server := fixture.Redis(t, "--maxmemory", "100mb", "--appendonly", "yes")
	r := checkJSON(t, server.URL(), "--policies", dir)
	if r.FreeMemory < 90<<20 || r.FreeMemory >= 100<<20 {
		t.Errorf("%d bytes are free, want a little less than 100 MiB", r.FreeMemory)
	}
	bytesOf := map[string]int64{}
	for _, p := range r.Policies {
		bytesOf[p.Policy] = p.Bytes
		if p.Identifiers != r.FreeMemory/p.Bytes {
			t.Errorf("%+v, want %d identifiers", p, r.FreeMemory/p.Bytes)
		}
	}
	if bytesOf["shop/log"] < 800 || bytesOf["shop/window"] != 200 || bytesOf["shop/compact"] > 50 {
		t.Errorf("bytes %v", bytesOf)
	}
	if len(r.Findings) != 1 || r.Findings[0].Severity != adminapi.RedisWarning || !strings.Contains(r.Findings[0].Text, "saves its data to disk (AOF)") {
		t.Errorf("findings %v, want one about AOF", r.Findings)
	}
	do(t, server, "CONFIG", "SET", "appendonly", "no", "maxmemory-policy", "allkeys-lru")
	r = checkJSON(t, server.URL())
	if len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Text, "maxmemory-policy allkeys-lru") || r.FreeMemory != 0 {
		t.Errorf("%+v, want a finding about eviction", r)
	}
}

func TestCheck_ComparesClocksAndTheTimeout(t *testing.T) {
	server, clock := fixture.RedisWithClock(t, "--maxmemory", "100mb")
	if err := clock.Shift(time.Minute); err != nil {
		t.Fatal(err)
	}
	r := checkJSON(t, server.URL(), "--redis-timeout", "1ns")
	var lines []string
	for _, f := range r.Findings {
		lines = append(lines, f.Text)
	}
	text := strings.Join(lines, "\n")
	if len(r.Findings) != 2 || !strings.Contains(text, "s ahead of the clock of its client") || !strings.Contains(text, "more than half of --redis-timeout 1ns") {
		t.Errorf("findings:\n%s", text)
	}
	if p := r.Primaries[0]; p.Samples != 10 || p.P50 <= 0 || p.P50 > p.P90 || p.P90 > p.P99 || p.P99 > p.Max || p.ClockAhead < 59 || p.ClockAhead > 61 {
		t.Errorf("%+v", p)
	}
}

func TestCheck_TriesThePermissionsOfALimiter(t *testing.T) {
	server := fixture.Redis(t)
	acl := strings.Fields("on >secret resetkeys %R~weir:rules:a/b:* ~weir:replicas:a/b ~weir:a/b:throttle:* resetchannels &weir:rules:a/b &weir:forget -@all " +
		"+ping +info +subscribe +publish +evalsha +eval +time +mget +set +getrange +setrange +pexpireat +del +unlink +hset +hget +hgetall +hlen +hdel +pexpire")
	do(t, server, append([]string{"ACL", "SETUSER", "weir"}, acl...)...)
	url := "redis://weir:secret@" + server.Addr()
	if r := checkJSON(t, url, "--limiter", "a/b"); len(r.Permissions) != 0 {
		t.Errorf("with all permissions: %+v", r)
	}
	for name, arguments := range map[string][]string{
		"weir serve": nil, "another Limiter": {"--limiter", "a/c"}, "a group": {"--limiter", "a/b", "--counter-group", "g"}, "a prefix": {"--limiter", "a/b", "--prefix", "x:"},
	} {
		if output, status := run(t, append(arguments, url)...); status != cli.ExitFailed || !strings.Contains(output, "grant the user ~") {
			t.Errorf("%s: status %d:\n%s", name, status, output)
		}
	}
	do(t, server, "ACL", "SETUSER", "weir", "-hget", "-info")
	r := checkJSON(t, url, "--limiter", "a/b")
	if !slices.ContainsFunc(r.Permissions, func(m adminapi.MissingRedisPermission) bool { return m.Rule == "+hget" && m.Optional }) || len(r.Permissions) != 2 {
		t.Errorf("without optional permissions: %+v", r.Permissions)
	}
}

func TestCheck_RejectsAnInvalidCommandLine(t *testing.T) {
	for name, arguments := range map[string][]string{
		"a URL":           {"http://127.0.0.1"},
		"two URLs":        {"redis://a", "redis://b"},
		"no samples":      {"--samples", "0"},
		"an output":       {"-o", "yaml"},
		"a prefix":        {"--prefix", "{"},
		"a Limiter":       {"--limiter", "default"},
		"a directory":     {"--policies", "does-not-exist"},
		"a file for CAs":  {"rediss://a", "--redis-ca", "does-not-exist"},
		"invalid polices": {"--policies", invalidPolicies(t)},
	} {
		if output, status := run(t, arguments...); status != cli.ExitUsage {
			t.Errorf("%s: status %d:\n%s", name, status, output)
		}
	}
}

func invalidPolicies(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "p.yaml")
	text := "apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: a, namespace: b}\nspec: {axis: Tenant, limit: -1, window: 1h}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestCheck_AuthenticatesWithTokens has a provider that is slow, one that rejects the identity, and a service that rejects the token.
func TestCheck_AuthenticatesWithTokens(t *testing.T) {
	server, files := fixture.RedisTLS(t, false)
	if _, err := server.Do(t.Context(), "ACL", "SETUSER", "default", "resetpass", ">the-token"); err != nil {
		t.Fatal(err)
	}
	token, status, pause := "the-token", http.StatusOK, time.Duration(0)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(pause)
		w.Header().Set("Metadata-Flavor", "Google")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"access_token":"` + token + `","expires_in":3599,"token_type":"Bearer"}`))
	}))
	defer provider.Close()
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(provider.URL, "http://"))
	arguments := []string{"rediss://" + server.Addr(), "--redis-ca", files.CA, "--redis-auth", "Google"}
	pause = 2 * time.Second
	if output, status := run(t, arguments...); status != 0 {
		t.Errorf("with a slow provider: status %d:\n%s", status, output)
	}
	pause, token = 0, "another-secret"
	output, code := run(t, arguments...)
	if code != cli.ExitFailed || !strings.Contains(output, "rejects the token: check that the instance has the authorization mode IAM") {
		t.Errorf("status %d:\n%s", code, output)
	}
	status = http.StatusForbidden
	denied, code := run(t, arguments...)
	if code != cli.ExitFailed || !strings.Contains(denied, "no valid credentials for Redis: access token from the metadata server") {
		t.Errorf("status %d:\n%s", code, denied)
	}
	if strings.Contains(output, "another-secret") {
		t.Errorf("the output contains the token:\n%s", output)
	}
}
