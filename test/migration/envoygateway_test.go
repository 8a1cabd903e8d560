package migration

import (
	"context"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/internal/importer/objects"
	"github.com/weir-dev/weir/internal/policyfile"
)

// TestDocs_EnvoyGatewayLimitsTheTargetOfThePage enforces the policies of the page, and sends the context extensions of its SecurityPolicy.
func TestDocs_EnvoyGatewayLimitsTheTargetOfThePage(t *testing.T) {
	files, _, other := page(t, "migrate-from-envoy-gateway.md")
	w := newWeir(t)
	w.enforce(t, objects.EnvoyGateway([]policyfile.File{{Name: "shop.yaml", Content: []byte(files["shop.yaml"])}}), "gateway:")

	var security struct {
		Spec struct {
			ExtAuth struct {
				ContextExtensions []struct{ Name, Value string }
			}
		}
	}
	if err := k8syaml.Unmarshal([]byte(other[0]), &security); err != nil {
		t.Fatal(err)
	}
	extensions := map[string]string{}
	for _, e := range security.Spec.ExtAuth.ContextExtensions {
		extensions[e.Name] = e.Value
	}
	if len(extensions) != 2 {
		t.Fatalf("the SecurityPolicy has the context extensions %v", extensions)
	}
	elsewhere := map[string]string{"domain": "shop", "target": "HTTPRoute/other"}
	for _, step := range []struct {
		user, path string
		extensions map[string]string
		want       string // one letter for each repetition: o is allowed, x is denied
	}{
		{"alice", "/v1/search", extensions, "ooox"},
		{"bob", "/v1", extensions, "ooox"},
		{"alice", "/v1/search", elsewhere, "oooo"},
		{"alice", "/v2", extensions, "oooo"},
		{"", "/v1", extensions, "oooo"},
	} {
		for repetition, want := range step.want {
			got := w.authorize(t, step.user, step.path, step.extensions)
			if (got == codes.ResourceExhausted) != (want == 'x') || got != codes.ResourceExhausted && got != codes.OK {
				t.Errorf("user %q, path %s, %v, repetition %d: %v, want %s", step.user, step.path, step.extensions, repetition, got, step.want)
			}
		}
	}
}

// authorize sends one request to ext_authz and returns its status.
func (w *weir) authorize(t *testing.T, user, path string, extensions map[string]string) codes.Code {
	t.Helper()
	headers := map[string]string{}
	if user != "" {
		headers["x-user-id"] = user
	}
	response, err := w.auth.Check(context.Background(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		ContextExtensions: extensions,
		Source:            &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "203.0.113.7"}}}},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: "GET", Host: "shop.example", Path: path, Headers: headers,
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return codes.Code(response.GetStatus().GetCode())
}
