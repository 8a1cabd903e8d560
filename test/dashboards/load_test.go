package dashboards

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/kubernetes"
)

const poll = 200 * time.Millisecond

const policies = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: crowd}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: per-tenant, namespace: shop}
spec: {axis: Tenant, limit: 20, window: 1h}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: trial, namespace: shop}
spec: {axis: Tenant, limit: 1, window: 1h, enforcement: Shadow}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: broken, namespace: shop}
spec:
  axis: Tenant
  limit: 1
  window: 1h
  match: {http: {expression: "request.nothing == 1"}}
`

// crowd is one of more policies than a request can be charged to.
const crowd = `---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: crowd-%d, namespace: crowd}
spec: {axis: Tenant, limit: 1000, window: 1h}
`

const creations = `
apiVersion: weir.dev/v1alpha1
kind: ClusterRateLimitPolicy
metadata: {name: creations}
spec:
  axis: Tenant
  limit: 20
  window: 1h
  match: {kubernetes: {resources: [{apiGroups: [""], resources: [configmaps], operations: [CREATE]}]}}
`

// prepare starts Prometheus and applies policies after it, so that it sees how they reach the replicas.
func prepare(t *testing.T, w *kubernetes.World) prometheus {
	t.Helper()
	must(t, w.EditLimiter(t.Context(), func(l *v1alpha1.LimiterSpec) { l.Identifiers.Max = new(int64(100)) }))
	p := startPrometheus(t, w)
	awaitData(t, p, "the processes start", []query{{"scrapes", `sum(up) == 5`}})
	var text strings.Builder
	text.WriteString(policies)
	for i := range 34 {
		fmt.Fprintf(&text, crowd, i)
	}
	file := filepath.Join(t.TempDir(), "policies.yaml")
	must(t, os.WriteFile(file, []byte(text.String()), 0o600))
	_, err := w.Kube.Kubectl(t.Context(), "apply", "--server-side", "-f", file)
	must(t, err)
	namespace, err := w.Namespace(t.Context(), "acme")
	must(t, err)
	var limit v1alpha1.ClusterRateLimitPolicy
	must(t, yaml.UnmarshalStrict([]byte(creations), &limit))
	must(t, w.Enforce(t.Context(), writer(), configMap(namespace), &limit))
	return p
}

// load sends requests to limiters and writes to API servers until the test ends.
type load struct{ checks context.CancelFunc }

func startLoad(t *testing.T, w *kubernetes.World) load {
	t.Helper()
	checks, stop := context.WithCancel(t.Context())
	namespace, err := w.Namespace(t.Context(), "acme")
	must(t, err)
	var running sync.WaitGroup
	for _, url := range w.CheckURLs() {
		running.Go(func() { repeat(checks, func(n int) { check(checks, url, n) }) })
	}
	for server := range 2 {
		c, err := w.As(server, writer())
		must(t, err)
		running.Go(func() {
			repeat(t.Context(), func(int) { _ = c.Create(t.Context(), configMap(namespace)) }) // many are denied
		})
	}
	t.Cleanup(running.Wait)
	return load{checks: stop}
}

func (l load) stopChecks() { l.checks() }

// repeat calls f about 100 times a second until ctx is done.
func repeat(ctx context.Context, f func(n int)) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f(n)
		}
	}
}

// check sends the request with number n: they are of one tenant, of many tenants, of no tenant, of a domain without a policy, and of one
// with too many policies.
func check(ctx context.Context, url string, n int) {
	tenant, domain := "acme", "shop"
	switch n % 5 {
	case 1:
		tenant = fmt.Sprint("tenant-", n)
	case 2:
		tenant = ""
	case 3:
		domain = "other"
	case 4:
		domain = "crowd"
	}
	request := fixture.CheckRequest{Domain: domain, Method: http.MethodGet, Path: "/", Headers: map[string]string{}}
	if tenant != "" {
		request.Headers["x-tenant-id"] = tenant
	}
	_, _ = fixture.Check(ctx, url, request) // some fail while limiters or Redis are stopped
}

func writer() rest.ImpersonationConfig { return kubernetes.Person("alice") }

func configMap(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "m-", Namespace: namespace}}
}
