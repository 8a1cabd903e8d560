package kubernetes

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/fixture"
)

// sample returns a sample policy of Weir.
func sample(t *testing.T, name string) *v1alpha1.ClusterRateLimitPolicy {
	t.Helper()
	root, err := fixture.ModuleRoot()
	must(t, err)
	text, err := os.ReadFile(filepath.Join(root, "config", "samples", "cluster", name+".yaml"))
	must(t, err)
	p := &v1alpha1.ClusterRateLimitPolicy{}
	must(t, yaml.UnmarshalStrict(text, p))
	return p
}

func pod(namespace string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "p-", Namespace: namespace},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}
}

func configMap(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "m-", Namespace: namespace}, Data: map[string]string{"a": "b"}}
}

// bothClients returns clients for both API servers.
func bothClients(t *testing.T, w *World, who rest.ImpersonationConfig) [2]client.Client {
	t.Helper()
	return [2]client.Client{mustGet[client.Client](t)(w.As(0, who)), mustGet[client.Client](t)(w.As(1, who))}
}

// flood creates objects with eight clients until they have made the number of attempts, and returns how many passed.
func flood(t *testing.T, attempts int, create func(server, attempt int) error) (passed int) {
	t.Helper()
	const clients = 8
	var count, next atomic.Int64
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(attempts); n = next.Add(1) {
				switch err := create(i%2, int(n)); {
				case err == nil:
					count.Add(1)
				case !IsDenied(err):
					t.Errorf("attempt %d: %v", n, err)
					return
				}
			}
		})
	}
	wg.Wait()
	return int(count.Load())
}

// A tenant has two namespaces and clients of both API servers. The policy is the sample for tenants.
func TestTenant_IsLimitedAcrossNamespacesAndAPIServers(t *testing.T) {
	w := newWorld(t)
	p := sample(t, "kubernetes-workloads-per-tenant")
	limit := int(*p.Spec.Limit)
	namespaces := [2]string{mustGet[string](t)(w.Namespace(t.Context(), "acme")), mustGet[string](t)(w.Namespace(t.Context(), "acme"))}
	calm := mustGet[string](t)(w.Namespace(t.Context(), "calm"))
	clients := bothClients(t, w, Person("alice"))
	must(t, w.Enforce(t.Context(), Person("alice"), pod(calm), p))

	began := time.Now()
	passed := flood(t, 4*limit, func(server, attempt int) error {
		return clients[server].Create(t.Context(), pod(namespaces[attempt/2%2]))
	})
	took := time.Since(began)
	t.Logf("%d of %d creations passed in %v", passed, 4*limit, took.Round(time.Millisecond))
	if took > 50*time.Second {
		t.Fatalf("the flood took %v, which is too long for a limit per minute", took)
	}
	if passed != limit {
		t.Errorf("%d creations passed, want %d", passed, limit)
	}
	stored := 0
	for _, namespace := range namespaces {
		var pods corev1.PodList
		must(t, w.Admin.List(t.Context(), &pods, client.InNamespace(namespace)))
		stored += len(pods.Items)
	}
	if stored != limit {
		t.Errorf("%d pods are stored, want %d", stored, limit)
	}
	for server, c := range clients {
		if err := c.Create(t.Context(), pod(calm)); err != nil {
			t.Errorf("another tenant, by API server %d: %v", server, err)
		}
	}
	if allowed := mustGet[int](t)(w.Decisions(t.Context(), p.Name, "allowed")); allowed != limit+len(clients) {
		t.Errorf("%d were charged, want %d", allowed, limit+len(clients))
	}
}
