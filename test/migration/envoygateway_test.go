package migration

import (
	"context"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/internal/importer/objects"
	"github.com/weir-dev/weir/internal/policyfile"
)

// TestDocs_EnvoyGatewayLimitsTheTargetOfThePage enforces the policies of the page, and sends what Envoy Gateway sends with its SecurityPolicy:
// the route, or in earlier versions context extensions.
func TestDocs_EnvoyGatewayLimitsTheTargetOfThePage(t *testing.T) {
	files, _, other := page(t, "migrate-from-envoy-gateway.md")
	var security struct {
		Metadata struct{ Namespace string }
		Spec     struct {
			TargetRefs []struct{ Kind, Name string }
			ExtAuth    struct{ IncludeRouteMetadata bool }
		}
	}
	var earlier struct {
		ContextExtensions []struct{ Name, Value string }
	}
	for i, into := range []any{&security, &earlier} {
		if err := k8syaml.Unmarshal([]byte(other[i]), into); err != nil {
			t.Fatal(err)
		}
	}
	extensions := map[string]string{}
	for _, e := range earlier.ContextExtensions {
		extensions[e.Name] = e.Value
	}
	if len(extensions) != 2 || !security.Spec.ExtAuth.IncludeRouteMetadata || len(security.Spec.TargetRefs) != 1 {
		t.Fatalf("context extensions %v, SecurityPolicy %+v", extensions, security)
	}
	target := security.Spec.TargetRefs[0]
	elsewhere := map[string]string{"domain": "shop", "target": "HTTPRoute/other"}
	t.Run("context extensions", func(t *testing.T) {
		limitsTheTarget(t, files["shop.yaml"], &authv3.AttributeContext{ContextExtensions: extensions}, &authv3.AttributeContext{ContextExtensions: elsewhere})
	})
	t.Run("route metadata", func(t *testing.T) {
		namespace := security.Metadata.Namespace
		limitsTheTarget(t, files["shop.yaml"], routed(t, target.Kind, namespace, target.Name), routed(t, target.Kind, namespace, "other"))
	})
}

// routed returns the attributes with which Envoy Gateway names a route.
func routed(t *testing.T, kind, namespace, name string) *authv3.AttributeContext {
	t.Helper()
	resource := map[string]any{"kind": kind, "namespace": namespace, "name": name}
	metadata, err := structpb.NewStruct(map[string]any{"resources": []any{resource}})
	if err != nil {
		t.Fatal(err)
	}
	return &authv3.AttributeContext{RouteMetadataContext: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"envoy-gateway": metadata}}}
}

// limitsTheTarget imports objects, and sends requests to their target and to another one.
func limitsTheTarget(t *testing.T, content string, target, elsewhere *authv3.AttributeContext) {
	t.Helper()
	w := newWeir(t)
	w.enforce(t, objects.EnvoyGateway([]policyfile.File{{Name: "shop.yaml", Content: []byte(content)}}), "gateway:")
	for _, step := range []struct {
		user, path string
		attributes *authv3.AttributeContext
		want       string // one letter for each repetition: o is allowed, x is denied
	}{
		{"alice", "/v1/search", target, "ooox"},
		{"bob", "/v1", target, "ooox"},
		{"alice", "/v1/search", elsewhere, "oooo"},
		{"alice", "/v2", target, "oooo"},
		{"", "/v1", target, "oooo"},
	} {
		for repetition, want := range step.want {
			got := w.authorize(t, step.user, step.path, step.attributes)
			if (got == codes.ResourceExhausted) != (want == 'x') || got != codes.ResourceExhausted && got != codes.OK {
				t.Errorf("user %q, path %s, %v, repetition %d: %v, want %s", step.user, step.path, step.attributes, repetition, got, step.want)
			}
		}
	}
}

// authorize sends one request to ext_authz and returns its status.
func (w *weir) authorize(t *testing.T, user, path string, attributes *authv3.AttributeContext) codes.Code {
	t.Helper()
	headers := map[string]string{}
	if user != "" {
		headers["x-user-id"] = user
	}
	sent, is := proto.Clone(attributes).(*authv3.AttributeContext)
	if !is {
		t.Fatal("not the attributes of a request")
	}
	address := &corev3.SocketAddress{Address: "203.0.113.7"}
	sent.Source = &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: address}}}
	sent.Request = &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
		Method: "GET", Host: "shop.example", Path: path, Headers: headers,
	}}
	response, err := w.auth.Check(context.Background(), &authv3.CheckRequest{Attributes: sent})
	if err != nil {
		t.Fatal(err)
	}
	return codes.Code(response.GetStatus().GetCode())
}
