package weir_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/go/weir"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/test/fixture"
)

// A limit that comes from a token, and changes by request, is one counter, wherever the decision is made.
func TestOverride_IsOneCounterWhateverTheLimit(t *testing.T) {
	var text strings.Builder
	for i, algorithm := range limiter.Algorithms() {
		fmt.Fprintf(&text, "---\n{apiVersion: weir.dev/v1alpha1, kind: RateLimitPolicy, metadata: {namespace: shop, name: p%d}, "+
			"spec: {axis: IP, limit: 1, window: 1d, algorithm: %s, match: {http: {paths: [{value: /%s}]}}}}\n", i, algorithm, algorithm)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "policies.yaml"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	policies, err := weir.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	long := weir.Timeout(longTimeout)
	memory, err := weir.NewMemory(policies, discard())
	closing(t, memory, err)
	redis, err := weir.NewRedis(fixture.Redis(t).URL(), policies, long, discard())
	closing(t, redis, err)
	remote, err := weir.NewRemote(startServe(t, dir), weir.Domain("shop"), long)
	closing(t, remote, err)
	for way, l := range map[string]*weir.Limiter{"memory": memory, "redis": redis, "remote": remote} {
		ofToken := httplimit.Describe(func(r *http.Request, c *engine.Check) {
			units, err := strconv.ParseInt(r.Header.Get("X-Limit"), 10, 64)
			if err != nil {
				t.Error(err)
			}
			c.Override = &engine.Override{Units: units, Window: time.Hour}
		})
		h := l.Handler(ok(), ofToken)
		for _, algorithm := range limiter.Algorithms() {
			admitted := 0
			for i := range 60 {
				r, w := httptest.NewRequest(http.MethodGet, "/"+string(algorithm), nil), httptest.NewRecorder()
				r.Header.Set("X-Limit", strconv.Itoa(3+i%5))
				switch h.ServeHTTP(w, r); w.Code {
				case http.StatusOK:
					admitted++
				case http.StatusTooManyRequests:
				default:
					t.Fatalf("%s, %s: status %d, %s", way, algorithm, w.Code, w.Body)
				}
			}
			least, most := 3, 7
			if algorithm.Traits().Queues { // an override has no burst: no request waits for its turn
				least, most = 1, 1
			}
			if admitted < least || admitted > most {
				t.Errorf("%s, %s: %d requests are served, want those of one counter, %d to %d", way, algorithm, admitted, least, most)
			}
		}
	}
}
