package redisservers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

// policies count each request five times: once for each algorithm, and once in a compact counter. So a request has counters in several slots. Only
// the policy log denies requests.
const policies = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: log, namespace: shop}
spec: {axis: Tenant, limit: 20, window: 1h, algorithm: SlidingWindowLog}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: fixed, namespace: shop}
spec: {axis: IP, limit: 100000, window: 1h, algorithm: FixedWindow}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: sliding, namespace: shop}
spec: {axis: IP, limit: 100000, window: 1h, algorithm: SlidingWindowCounter}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: bucket, namespace: shop}
spec: {axis: Tenant, limit: 100000, window: 1h, algorithm: TokenBucket}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: compact, namespace: shop}
spec: {axis: Tenant, limit: 100000, window: 1h, algorithm: SlidingWindowCounter, storage: Compact}
`

const (
	limit = 20 // of the policy log
	// timeout bounds each wait, for what takes up to three seconds on an idle machine.
	timeout = 30 * time.Second
	pause   = 20 * time.Millisecond
)

// world is two weir processes with the same Redis.
type world struct {
	*testing.T
	processes [2]*fixture.WeirProcess
	checks    [2]string // URLs of POST /v1/check
	ops       [2]string // URLs of the operational endpoints
}

// newWorld starts two weir processes with the flags, and waits until they are ready.
func newWorld(t *testing.T, weir string, flags []string) *world {
	t.Helper()
	w, directory, key := &world{T: t}, filepath.Dir(write(t, "policies.yaml", policies)), write(t, "key", strings.Repeat("k", 32))
	for i := range w.processes {
		listen, ops := freeAddr(t), freeAddr(t)
		args := append([]string{
			"serve", "--policies", directory, "--hash-key", key, "--replicas", "2", "--grpc-listen=",
			"--listen", listen, "--ops-listen", ops,
		}, flags...)
		w.processes[i] = fixture.Weir(t, weir, args...)
		w.checks[i], w.ops[i] = "http://"+listen, "http://"+ops
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	for _, url := range w.ops {
		if err := fixture.WaitHTTP(ctx, url+"/readyz", http.StatusOK); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func freeAddr(t *testing.T) string {
	t.Helper()
	addr, err := fixture.FreeAddr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// check sends a request of a tenant to process i. A status that is no decision fails the test: no policy denies requests because Redis is unavailable.
func (w *world) check(i int, tenant string) fixture.CheckAnswer {
	w.Helper()
	answer, err := w.try(i, tenant)
	if err != nil {
		w.Fatalf("process %d: %v", i, err)
	}
	return answer
}

// try is check for requests during an outage: a process without processor time may then reject a request because of overload.
func (w *world) try(i int, tenant string) (fixture.CheckAnswer, error) {
	w.Helper()
	answer, err := fixture.Check(w.Context(), w.checks[i], fixture.CheckRequest{
		Domain: "shop", Path: "/", ClientIP: "203.0.113.7", Headers: map[string]string{"x-tenant-id": tenant},
	})
	if err != nil && !strings.Contains(answer.Body, "temporary-reduced-capacity") {
		w.Fatalf("process %d: %v", i, err)
	}
	return answer, err
}

// checkSharedLimit verifies that both processes together admit the limit of a tenant, and decide in Redis. For some time after an outage, each of them
// also denies what exceeds its share.
func (w *world) checkSharedLimit(tenant string, afterOutage bool) {
	w.Helper()
	admitted := 0
	for request := range 2 * limit {
		answer := w.check(request%2, tenant)
		if answer.Allowed {
			admitted++
		}
		known := !answer.Allowed && (answer.Source == "cache" || (answer.Source == "local" && afterOutage))
		if answer.Source != "redis" && !known {
			w.Errorf("request %d: the source is %q: %s", request, answer.Source, answer.Body)
		}
	}
	if admitted != limit {
		w.Errorf("both processes admitted %d of %d requests, want %d", admitted, 2*limit, limit)
	}
}

// awaitLocalMode waits until both processes are in local mode, while they decide requests.
func (w *world) awaitLocalMode() {
	w.Helper()
	w.await("local mode", func(ctx context.Context) error {
		for i := range w.processes {
			if _, err := w.try(i, "away"); err != nil {
				return err
			}
			if got := w.metric(ctx, i, "weir_local_mode"); got != "1" {
				return fmt.Errorf("weir_local_mode of process %d is %q", i, got)
			}
		}
		return nil
	})
}

// awaitRedis waits until both processes decide requests of many tenants, whose counters are on all nodes, in Redis.
func (w *world) awaitRedis() {
	w.Helper()
	round := 0
	w.await("decisions in Redis", func(ctx context.Context) error {
		round++
		for n := range 10 {
			if answer, err := w.try(n%2, fmt.Sprintf("back-%d-%d", round, n)); err != nil || answer.Source != "redis" {
				return fmt.Errorf("process %d: %s, %w", n%2, answer.Body, err)
			}
		}
		for i := range w.processes {
			if got := w.metric(ctx, i, "weir_local_mode"); got != "0" {
				return fmt.Errorf("weir_local_mode of process %d is %q", i, got)
			}
		}
		return nil
	})
}

func (w *world) await(what string, check func(context.Context) error) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), timeout)
	defer cancel()
	if err := fixture.Poll(ctx, pause, check); err != nil {
		w.Fatalf("await %s: %v", what, err)
	}
}

// metric returns the value of a metric without labels.
func (w *world) metric(ctx context.Context, i int, name string) string {
	w.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.ops[i]+"/metrics", nil)
	if err != nil {
		w.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// outageLog returns the lines of the log of process i about outages of Redis.
func (w *world) outageLog(i int) string {
	var lines strings.Builder
	for line := range strings.Lines(w.processes[i].Log()) {
		if strings.Contains(line, "kind=") || strings.Contains(line, `"kind":`) {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

// report is the output of weir redis check.
type report struct {
	Usable bool
	Server struct {
		Product, Version, Mode string
		Corrected              bool
		Primaries              int
	}
	Permissions []struct{ Rule string } `json:"missingPermissions"`
	Findings    []struct{ Severity, Text string }
}

func (r *report) missing() (rules []string) {
	for _, m := range r.Permissions {
		rules = append(rules, m.Rule)
	}
	return rules
}

// String has the findings.
func (r *report) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "usable %t, %s %s, %s, corrected %t, %d primaries", r.Usable, r.Server.Product, r.Server.Version, r.Server.Mode, r.Server.Corrected, r.Server.Primaries)
	for _, f := range r.Findings {
		fmt.Fprintf(&text, "\n%s: %s", f.Severity, f.Text)
	}
	return text.String()
}

// redisCheck runs weir redis check with the flags.
func redisCheck(t *testing.T, weir string, flags []string) (report, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, weir, append([]string{"redis", "check", "-o", "json", "--samples", "20"}, flags...)...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v: %s%s", err, &out, &problems)
	}
	return r, cmd.ProcessState.ExitCode()
}
