package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

const matchedRoute = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: %[1]s}
spec: {gatewayClassName: example, listeners: [{name: http, port: 80, protocol: HTTP}, {name: redirect, port: 8080, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: checkout, namespace: %[1]s}
spec:
  parentRefs: [{name: public, sectionName: http}]
  hostnames: [shop.example]
  rules:
  - {name: pay, matches: [{path: {value: /pay}, headers: [{name: x-plan, value: free}]}]}
  - {name: all}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: redirect, namespace: %[1]s}
spec: {parentRefs: [{name: public, sectionName: redirect}], hostnames: [shop.example], rules: [{name: all}]}
`

// accepted is the status that the controller of a gateway writes for the route that is named.
const accepted = `{"status": {"parents": [{"parentRef": {"name": "public", "sectionName": "%s"}, "controllerName": "example.com/gateway", "conditions": [
	{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}]}}`

// expectRouteMatching makes the Limiter find the routes of requests whose gateway does not name them. The policies are checkout with the limit 3 for the
// route, and pay with the limit 1 for its rule.
func (w *testCluster) expectRouteMatching(client authv3.AuthorizationClient) {
	w.Helper()
	file := filepath.Join(w.TempDir(), "routes.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, matchedRoute, w.ns), 0o600); err != nil {
		w.Fatal(err)
	}
	w.kubectl("apply", "-f", file)
	w.kubectl("patch", "httproute", "checkout", "--subresource=status", "--type=merge", "-p", fmt.Sprintf(accepted, "http"))
	w.kubectl("patch", "httproute", "redirect", "--subresource=status", "--type=merge", "-p", fmt.Sprintf(accepted, "redirect"))
	limiter := func(ctx context.Context, patch string) {
		if out, err := w.kube.Kubectl(ctx, "patch", "limiter", "default", "-n", "weir-system", "--type=merge", "-p", patch); err != nil {
			w.Errorf("%v: %s", err, out)
		}
	}
	limiter(w.Context(), fmt.Sprintf(`{"spec": {"routeMatching": {"gateways": [{"namespace": %q, "name": "public"}]}}}`, w.ns))
	w.Cleanup(func() { limiter(context.WithoutCancel(w.Context()), `{"spec": {"routeMatching": null}}`) })

	address := 0
	codesOf := func(requests int, port int, path, headers string) (got []codes.Code) {
		address++
		var attributes authv3.AttributeContext
		if err := protojson.Unmarshal(fmt.Appendf(nil, `{
			"source": {"address": {"socketAddress": {"address": "198.18.%d.%d", "portValue": 1234}}},
			"destination": {"address": {"socketAddress": {"address": "192.0.2.1", "portValue": %d}}},
			"request": {"http": {"method": "GET", "host": "shop.example", "path": %q, "headers": {%s}}}
		}`, address/250, address%250, port, path, headers), &attributes); err != nil {
			w.Fatal(err)
		}
		for range requests {
			w.until("the limiter is overloaded", func() bool {
				answer, err := client.Check(w.Context(), &authv3.CheckRequest{Attributes: &attributes})
				if err != nil && status.Code(err) != codes.Unavailable {
					w.Fatal(err)
				}
				if err == nil {
					got = append(got, codes.Code(answer.GetStatus().GetCode()))
				}
				return err == nil
			})
		}
		return got
	}
	const ok, denied = codes.OK, codes.ResourceExhausted
	w.until("the limiter finds the route", func() bool {
		return slices.Equal(codesOf(2, 80, "/pay", `"x-plan": "free"`), []codes.Code{ok, denied})
	})
	for name, test := range map[string]struct {
		port          int
		path, headers string
		want          []codes.Code
	}{
		"the route":           {80, "/", "", []codes.Code{ok, ok, ok, denied}},
		"the port in the pod": {10080, "/", "", []codes.Code{ok, ok, ok, denied}},
		"the rule":            {80, "/pay/now?x", `"x-plan": "free"`, []codes.Code{ok, denied}},
		"another rule":        {80, "/pay", `"x-plan": "a, free"`, []codes.Code{ok, ok, ok, denied}},
		"one of two rules":    {80, "/pay", `"x-plan": "a,free"`, []codes.Code{ok, denied}},
		"the route of a port": {8080, "/", "", []codes.Code{ok, ok, ok, ok, ok}},
		"routes of two ports": {443, "/", "", []codes.Code{ok, ok, ok, denied}},
	} {
		if got := codesOf(len(test.want), test.port, test.path, test.headers); !slices.Equal(got, test.want) {
			w.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	for _, policy := range []string{"checkout", "pay"} {
		if got := w.kubectl("get", "ratelimitpolicy", policy, "-o", "jsonpath={.status.effective.matchedBy}"); got != "Request" {
			w.Errorf("%s is matched by %s", policy, got)
		}
	}
	w.kubectl("delete", "httproute", "checkout")
	w.until("the limit of a deleted route remains", func() bool {
		return slices.Equal(codesOf(4, 80, "/", ""), []codes.Code{ok, ok, ok, ok})
	})
}
