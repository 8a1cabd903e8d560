//go:build envoygatewaycluster

package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const goneLimiter = `
apiVersion: weir.dev/v1alpha1
kind: Limiter
metadata: {name: gone, namespace: weir-system}
spec:
  replicas: 1
  redis: {addresses: ["redis:6379"]}
`

// Kubernetes deletes the grant with the Limiter. Envoy Gateway then allows or denies all requests, as chosen, until the Gateway is detached.
func TestAttach_TheGrantIsDeletedWithTheLimiter(t *testing.T) {
	front := forward(t)
	for failOpen, want := range map[string]string{"true": "200", "false": "500"} {
		apply(t, goneLimiter)
		kubectl(t, "-n", "weir-system", "wait", "--for=condition=Ready", "limiter/gone", "--timeout=2m")
		weir(t, "gateway", "attach", "public", "-n", "shop", "--limiter=weir-system/gone", "--timeout=10s", "--fail-open="+failOpen)
		await(t, "Envoy asks the Limiter", func() bool { return get(t, front+"/catalog").Header.Get("Ratelimit") != "" })
		kubectl(t, "-n", "weir-system", "delete", "limiter", "gone")
		await(t, "the ReferenceGrant is deleted", func() bool {
			out, err := run("kubectl", "-n", "weir-system", "get", "referencegrant", "weir.shop.public")
			return err != nil && strings.Contains(out, "NotFound")
		})
		out, err := run(filepath.Join(os.Getenv("WEIR_BIN"), "kubectl-weir"), "gateway", "list", "-n", "shop")
		if err == nil || !strings.Contains(out, "LimiterNotFound") {
			t.Errorf("list: %v, %s", err, out)
		}
		await(t, "Envoy has no Limiter to ask", func() bool {
			return get(t, front+"/catalog").Header.Get("Ratelimit") == "" && statuses(t, 3, front+"/catalog") == strings.Join([]string{want, want, want}, " ")
		})
		detach(t)
		await(t, "requests pass after the Gateway is detached", func() bool { return statuses(t, 1, front+"/catalog") == "200" })
	}
}
