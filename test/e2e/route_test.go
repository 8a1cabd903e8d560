package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weir-dev/weir/test/fixture/kubetest"
)

// installGatewayAPI installs the CRDs of the Gateway API until the test ends.
func installGatewayAPI(t *testing.T, kube *kubetest.KubeProcess) {
	t.Helper()
	if err := kube.InstallGatewayAPI(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kube.UninstallGatewayAPI(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

func httpRoute(namespace, name string) string {
	return fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: %s, namespace: %s}\n"+
		"spec: {hostnames: [shop.example], rules: [{name: pay, matches: [{path: {value: /pay}}]}]}\n", name, namespace)
}

// TestTargetRefs_LimitTheRouteThatTheGatewayNames sends what Envoy Gateway sends for a request, to a limiter with the rules of a real operator.
func TestTargetRefs_LimitTheRouteThatTheGatewayNames(t *testing.T) {
	installGatewayAPI(t, kubetest.Kube(t))
	w := newTestCluster(t)
	kubetest.Apply(t, w.kube, httpRoute(w.ns, "checkout"))
	w.kubectl("patch", "httproute", "checkout", "--subresource=status", "--type=merge", "-p", fmt.Sprintf(accepted, "http"))
	target := `axis: IP, limit: %d, window: 1d, targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: checkout%s}]`
	w.mustApply("checkout", fmt.Sprintf(target, 3, ""))
	w.mustApply("pay", fmt.Sprintf(target, 1, ", sectionName: pay"))
	w.mustApply("missing", `axis: IP, limit: 1, window: 1d, targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: missing}]`)
	w.waitFor("Ready", "checkout")
	w.waitFor("Ready", "pay")
	w.until("the missing route is not reported", func() bool {
		return strings.HasPrefix(w.condition("missing", "Accepted"), "False TargetNotFound spec.targetRefs[0].name: HTTPRoute "+w.ns+"/missing does not exist")
	})
	if got := w.kubectl("get", "ratelimitpolicy", "checkout", "-o", "jsonpath={.status.effective.matchedBy} {.status.ancestors[0].controllerName}"); got != "RouteName weir.dev/operator" {
		t.Errorf("matched by and controller: %s", got)
	}

	conn, err := grpc.NewClient(w.stack.Replicas[0].GRPCAddr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	check := func(namespace, name, section string) bool {
		t.Helper()
		var attributes authv3.AttributeContext
		if err := protojson.Unmarshal(fmt.Appendf(nil, `{
			"source": {"address": {"socketAddress": {"address": "192.0.2.7", "portValue": 1234}}},
			"request": {"http": {"method": "GET", "host": "shop.example", "path": "/pay"}},
			"routeMetadataContext": {"filterMetadata": {"envoy-gateway": {"resources": [
				{"kind": "HTTPRoute", "namespace": %q, "name": %q, "sectionName": %q}]}}}
		}`, namespace, name, section), &attributes); err != nil {
			t.Fatal(err)
		}
		var answer *authv3.CheckResponse
		w.until("the limiter is overloaded", func() bool { // which counts nothing, and is possible on a busy machine
			var err error
			answer, err = authv3.NewAuthorizationClient(conn).Check(t.Context(), &authv3.CheckRequest{Attributes: &attributes})
			if err != nil && status.Code(err) != codes.Unavailable {
				t.Fatal(err)
			}
			return err == nil
		})
		return codes.Code(answer.GetStatus().GetCode()) == codes.OK
	}
	for i, request := range []struct {
		namespace, name, section string
		want                     bool
	}{
		{w.ns, "checkout", "pay", true}, {w.ns, "checkout", "pay", false}, // its own limit is 1
		{w.ns, "checkout", "", true}, {w.ns, "checkout", "", true}, {w.ns, "checkout", "", false}, // 3 of the route, of which the rule took 1
		{w.ns, "other", "pay", true}, {"another-namespace", "checkout", "pay", true}, {w.ns, "missing", "", true}, {w.ns, "missing", "", true},
	} {
		if got := check(request.namespace, request.name, request.section); got != request.want {
			t.Errorf("request %d, for route %s/%s/%s: allowed %v, want %v", i, request.namespace, request.name, request.section, got, request.want)
		}
	}

	w.kubectl("delete", "httproute", "checkout")
	w.until("the limit of a deleted route remains", func() bool { return check(w.ns, "checkout", "") })
	if got := w.condition("checkout", "Ready"); !strings.HasPrefix(got, "False TargetNotFound ") {
		t.Errorf("Ready is %s", got)
	}
	w.expectRouteMatching(authv3.NewAuthorizationClient(conn))
}
