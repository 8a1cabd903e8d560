package reliability

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weir-dev/weir/test/fixture"
)

const memoryPolicy = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: %s, namespace: shop}
spec: {axis: Tenant, limit: 100, window: 1h, algorithm: %s}
---
`

// Every request spends from a counter of each of these policies.
const memoryPolicies = 10

// While Redis does not answer, the test sends requests of more tenants than fit into memory: with WEIR_SOAK, for ten minutes within the default
// bound; otherwise fewer tenants within a smaller bound. Without a bound, the process exceeds it.
func TestMemoryFlag_BoundsTheMemoryDuringAnOutage(t *testing.T) {
	tenants, mebibytes, lasts := 20_000, 128, time.Duration(0)
	if os.Getenv("WEIR_SOAK") != "" {
		tenants, mebibytes, lasts = 200_000, 256, 10*time.Minute
	}
	weir, err := fixture.BuildWeir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	redis, err := fixture.StartRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := redis.Stop(); err != nil {
			t.Error(err)
		}
	})
	dir := t.TempDir()
	var policies strings.Builder
	for n := range memoryPolicies {
		fmt.Fprintf(&policies, memoryPolicy, fmt.Sprintf("p%d", n), []string{"SlidingWindowLog", "SlidingWindowCounter"}[n%2])
	}
	if err := os.WriteFile(filepath.Join(dir, "policies.yaml"), []byte(policies.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	listen, ops := address(t), address(t)
	process := fixture.Weir(t, weir, "serve", "--policies", dir, "--redis", redis.URL(), "--grpc-listen=", "--listen", listen, "--ops-listen", ops,
		"--memory", fmt.Sprintf("%dMi", mebibytes))
	if err := fixture.WaitHTTP(t.Context(), "http://"+ops+"/readyz", http.StatusOK); err != nil {
		t.Fatal(err)
	}
	if err := redis.Pause(); err != nil { // connections stay open, and Redis does not answer
		t.Fatal(err)
	}
	began := time.Now()
	for round := 0; round == 0 || time.Since(began) < lasts; round++ {
		if err := crowd(t.Context(), "http://"+listen+"/v1/check", tenants); err != nil {
			t.Fatal(err)
		}
	}
	peak, err := process.PeakMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d tenants in %v: %d MiB resident at most, of %d", tenants, time.Since(began).Round(time.Second), peak>>20, mebibytes)
	if peak > int64(mebibytes)<<20 {
		t.Errorf("%d MiB resident, want at most %d", peak>>20, mebibytes)
	}
	if err := redis.Resume(); err != nil {
		t.Fatal(err)
	}
}

func address(t *testing.T) string {
	t.Helper()
	free, err := fixture.FreeAddr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return free
}

// crowdTimeout is long, because this test does not measure latency.
const crowdTimeout = time.Minute

// crowd sends one request per tenant, and requires each to be decided locally.
func crowd(ctx context.Context, url string, tenants int) error {
	const callers = 32
	web := &http.Client{Timeout: crowdTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	defer web.CloseIdleConnections()
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range callers {
		group.Go(func() error {
			for n := int(next.Add(1)); n <= tenants; n = int(next.Add(1)) {
				body := fmt.Sprintf(`{"domain":"shop","path":"/","headers":{"x-tenant-id":"tenant-%d"}}`, n)
				if err := post(ctx, web, url, body); err != nil {
					return fmt.Errorf("tenant %d: %w", n, err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func post(ctx context.Context, web *http.Client, url, body string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewBufferString(body))
	if err != nil {
		return err
	}
	response, err := web.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	local := bytes.Contains(text, []byte(`"source":"local"`))
	if decided := response.StatusCode == http.StatusOK || response.StatusCode == http.StatusTooManyRequests; !decided || !local {
		return fmt.Errorf("status %d: %s", response.StatusCode, text)
	}
	return nil
}
