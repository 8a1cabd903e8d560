package reliability

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

// pauses are how often the limiter is stopped, and each time for longer than its calls to Redis may take.
const (
	pauses   = 15
	pauseFor = 120 * time.Millisecond
	hotLimit = 40 // of the tenant hot, which asks for more
)

const latenessPolicy = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: tenants, namespace: shop}
spec: {axis: Tenant, limit: 40, window: 1h, algorithm: FixedWindow}
`

// A limiter without processor time is late. Redis is not: replies that arrived while the limiter did not run must not count as
// an outage, after which the limiter would admit its share on top of what Redis admits.
func TestLimiter_WithoutProcessorTimeDoesNotTakeRedisForUnavailable(t *testing.T) {
	redis, dir := fixture.Redis(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "policies.yaml"), []byte(latenessPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	weir, err := fixture.BuildWeir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var addresses [2]string
	for i := range addresses {
		if addresses[i], err = fixture.FreeAddr(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	limiter := fixture.Weir(t, weir, "serve", "--policies", dir, "--redis", redis.URL(), "--listen", addresses[0], "--ops-listen", addresses[1], "--grpc-listen", "")
	if err := fixture.WaitHTTP(t.Context(), "http://"+addresses[1]+"/readyz", http.StatusOK); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	callers := newLateCallers("http://" + addresses[0] + "/v1/check")
	defer callers.client.CloseIdleConnections()
	for i := range 16 {
		callers.Go(func() { callers.ask(ctx, i) })
	}
	for range pauses {
		decided := callers.decided("redis")
		fixture.Await(t, "Redis decides", func() bool { return callers.decided("redis") > decided+50 })
		if err := limiter.Pause(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(pauseFor) // the fault
		if err := limiter.Resume(); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	callers.Wait()
	if n := callers.decided("local"); n != 0 {
		t.Errorf("%d decisions without Redis, want 0", n)
	}
	if callers.hot > hotLimit {
		t.Errorf("%d requests of one tenant were allowed, want at most %d", callers.hot, hotLimit)
	}
	if metrics := fetch(t, "http://"+addresses[1]+"/metrics"); !strings.Contains(metrics, "\nweir_local_mode_activations_total 0\n") {
		t.Error("the limiter has entered local mode")
	}
}

// lateCallers ask a limiter.
type lateCallers struct {
	sync.WaitGroup

	url    string
	client *http.Client

	mu      sync.Mutex
	sources map[string]int // decisions by their source
	hot     int            // allowed requests of the tenant hot
}

func newLateCallers(url string) *lateCallers {
	return &lateCallers{url: url, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}, sources: map[string]int{}}
}

func (c *lateCallers) decided(source string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sources[source]
}

// ask asks until ctx is done: the first two callers for the tenant hot, the others for tenants with few requests.
func (c *lateCallers) ask(ctx context.Context, caller int) {
	for n := 0; ctx.Err() == nil; n++ {
		tenant := fmt.Sprintf("tenant-%d-%d", caller, n)
		if caller < 2 {
			tenant = "hot"
		}
		c.askFor(ctx, tenant)
	}
}

func (c *lateCallers) askFor(ctx context.Context, tenant string) {
	body := strings.NewReader(`{"domain":"shop","headers":{"x-tenant-id":"` + tenant + `"}}`)
	request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, c.url, body)
	if err != nil {
		return
	}
	response, err := c.client.Do(request)
	if err != nil {
		return
	}
	defer func() { _ = response.Body.Close() }()
	var decision struct {
		Allowed bool   `json:"allowed"`
		Source  string `json:"source"`
	}
	if json.NewDecoder(response.Body).Decode(&decision) != nil {
		return
	}
	_, _ = io.Copy(io.Discard, response.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sources[decision.Source]++
	if tenant == "hot" && decision.Allowed {
		c.hot++
	}
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	defer http.DefaultClient.CloseIdleConnections()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
