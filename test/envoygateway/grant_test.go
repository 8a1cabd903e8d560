//go:build envoygateway

package envoygateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
)

// withoutGrant returns a SecurityPolicy for a route, with a Limiter in another namespace, and no ReferenceGrant: weir gateway attach leaves it
// when the Limiter is deleted.
func withoutGrant(name string, failOpen bool) string {
	return fmt.Sprintf(`
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: SecurityPolicy
metadata: {name: %s, namespace: default}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: %s}]
  extAuth:
    failOpen: %t
    timeout: 100ms
    grpc: {backendRefs: [{name: weir-limiter-default, namespace: weir-system, port: 8081}]}
`, name, name, failOpen)
}

func TestSecurityPolicy_WithoutItsGrantFailsAsChosen(t *testing.T) {
	rig(t, strings.Join([]string{route("free"), route("open"), route("closed"), withoutGrant("open", true), withoutGrant("closed", false)}, "---\n"))
	fixture.Await(t, "requests are denied", func() bool { return send(t, "GET /closed").StatusCode == http.StatusInternalServerError })
	if got := send(t, "GET /open").StatusCode; got != http.StatusOK {
		t.Errorf("with failOpen: %d", got)
	}
}
