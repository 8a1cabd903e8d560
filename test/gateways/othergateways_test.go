//go:build gateways

package gateways_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

// gatewayModules are the Go modules with the CRDs of the projects on docs/how-to/other-gateways.md, and the files with the CRDs.
var gatewayModules = map[string]string{
	"istio.io/api@v1.31.1":                              "kubernetes/customresourcedefinitions.gen.yaml",
	"github.com/projectcontour/contour@v1.33.8":         "examples/contour/01-crds.yaml",
	"github.com/emissary-ingress/emissary/v3@v3.10.0":   "manifests/emissary/emissary-crds.yaml.in",
	"sigs.k8s.io/gateway-api@v1.6.3":                    "config/crd/experimental/gateway.networking.k8s.io_httproutes.yaml",
	"sigs.k8s.io/gateway-api@v1.6.3 of ReferenceGrants": "config/crd/experimental/gateway.networking.k8s.io_referencegrants.yaml",
}

// otherGateways returns the blocks of docs/how-to/other-gateways.md after "```yaml" and the given word, without surrounding space.
func otherGateways(t *testing.T, word string) (page string, blocks []string) {
	t.Helper()
	root, err := fixture.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "how-to", "other-gateways.md"))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "```")
	for i := 1; i < len(parts); i += 2 {
		if info, block, _ := strings.Cut(parts[i], "\n"); info == strings.TrimSpace("yaml "+word) {
			blocks = append(blocks, block)
		}
	}
	return string(text), blocks
}

// download returns the directory of module, NAME@VERSION. The go command compares it with the checksum database.
func download(t *testing.T, module string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	cmd.Dir = t.TempDir() // not this module: its go.mod must not change
	out, err := cmd.Output()
	var result struct{ Dir, Error string }
	if json.Unmarshal(out, &result) != nil || err != nil || result.Dir == "" {
		t.Fatalf("go mod download %s: %v %s", module, err, result.Error)
	}
	return result.Dir
}

// crdFile returns a copy of the file of a module. In the copy, no CRD has a webhook that converts its objects: the server of the project
// does not run.
func crdFile(t *testing.T, module, file string) string {
	t.Helper()
	module, _, _ = strings.Cut(module, " ")
	text, err := os.ReadFile(filepath.Join(download(t, module), file))
	if err != nil {
		t.Fatal(err)
	}
	var crds []string
	for _, part := range regexp.MustCompile(`(?m)^---$`).Split(string(text), -1) {
		var crd map[string]any
		if err := yaml.Unmarshal([]byte(part), &crd); err != nil {
			t.Fatal(err)
		}
		if crd["kind"] != "CustomResourceDefinition" {
			continue
		}
		unstructured.RemoveNestedField(crd, "spec", "conversion")
		out, err := yaml.Marshal(crd)
		if err != nil {
			t.Fatal(err)
		}
		crds = append(crds, string(out))
	}
	path := filepath.Join(t.TempDir(), "crds.yaml")
	if err := os.WriteFile(path, []byte(strings.Join(crds, "---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Each object of the page is valid for a real API server with the CRDs of the projects. A field that no CRD has is an error.
func TestOtherGateways_TheirSchemasAcceptTheDocumentedObjects(t *testing.T) {
	page, objects := otherGateways(t, "")
	root, err := fixture.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	crds := []string{filepath.Join(root, "config", "crd", "bases")}
	for module, file := range gatewayModules {
		crds = append(crds, crdFile(t, module, file))
		name, _, _ := strings.Cut(module, " ")
		if _, version, _ := strings.Cut(name, "@v"); !strings.Contains(page, version) {
			t.Errorf("the page does not name version %s of %s", version, name)
		}
	}
	kube, err := kubetest.StartKube(t.Context(), kubetest.KubeOptions{CRDs: crds})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kube.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, namespace := range []string{"shop", "weir-system", "istio-ingress", "projectcontour", "emissary"} {
		if _, err := kube.Kubectl(t.Context(), "create", "namespace", namespace); err != nil {
			t.Fatal(err)
		}
	}
	apply := func(objects string) (string, error) {
		path := filepath.Join(t.TempDir(), "objects.yaml")
		if err := os.WriteFile(path, []byte(objects), 0o600); err != nil {
			t.Fatal(err)
		}
		return kube.Kubectl(t.Context(), "create", "--dry-run=server", "--validate=strict", "-f", path)
	}
	kinds := map[string]bool{}
	for _, block := range objects {
		out, err := apply(block)
		if err != nil {
			t.Errorf("%v in\n%s", err, block)
		}
		if got, want := strings.Count(out, "created (server dry run)"), strings.Count("\n"+block, "\nkind: "); got != want {
			t.Errorf("%d of %d objects were accepted: %s\n%s", got, want, out, block)
		}
		for _, kind := range regexp.MustCompile(`(?m)^kind: (\w+)$`).FindAllStringSubmatch(block, -1) {
			kinds[kind[1]] = true
		}
	}
	for _, kind := range []string{
		"AuthorizationPolicy", "EnvoyFilter", "ExtensionService", "ContourConfiguration", "HTTPProxy", "RateLimitService", "Mapping",
		"AuthService", "HTTPRoute", "ReferenceGrant", "Limiter", "RateLimitPolicy",
	} {
		if !kinds[kind] {
			t.Errorf("the page has no %s", kind)
		}
	}
	all := strings.Join(objects, "---\n")
	for _, field := range []string{"failOpen", "failure_mode_allow", "responseTimeout", "externalAuth", "workloadSelector", "defaultDomain"} {
		if _, err := apply(strings.Replace(all, field+":", field+"X:", 1)); err == nil || !strings.Contains(err.Error(), field+"X") {
			t.Errorf("%sX was accepted: %v", field, err)
		}
	}
}

// The mesh configuration of Istio has no CRD. Its fields are those of a Protobuf message.
func TestOtherGateways_IstioHasTheFieldsOfTheMeshConfiguration(t *testing.T) {
	_, blocks := otherGateways(t, "mesh")
	if len(blocks) != 1 {
		t.Fatalf("%d mesh configurations", len(blocks))
	}
	var mesh struct {
		ExtensionProviders []struct {
			Name              string         `json:"name"`
			EnvoyExtAuthzGrpc map[string]any `json:"envoyExtAuthzGrpc"`
		} `json:"extensionProviders"`
	}
	if err := yaml.UnmarshalStrict([]byte(blocks[0]), &mesh); err != nil || len(mesh.ExtensionProviders) != 1 {
		t.Fatal(err, mesh)
	}
	text, err := os.ReadFile(filepath.Join(download(t, "istio.io/api@v1.31.1"), "mesh", "v1alpha1", "config.proto"))
	if err != nil {
		t.Fatal(err)
	}
	_, message, _ := bytes.Cut(text, []byte("message EnvoyExternalAuthorizationGrpcProvider {"))
	message, _, _ = bytes.Cut(message, []byte("\n    }"))
	types := map[string]string{}
	for _, field := range regexp.MustCompile(`(?m)^\s+([\w.]+) (\w+) = \d+;`).FindAllSubmatch(message, -1) {
		types[camelCase(string(field[2]))] = string(field[1])
	}
	if !bytes.Contains(text, []byte(" envoy_ext_authz_grpc = ")) || len(types) < 5 {
		t.Fatalf("config.proto has other fields: %v", types)
	}
	for name, value := range mesh.ExtensionProviders[0].EnvoyExtAuthzGrpc {
		var ok bool
		switch types[name] {
		case "string", "google.protobuf.Duration":
			_, ok = value.(string)
		case "bool":
			_, ok = value.(bool)
		case "uint32":
			_, ok = value.(float64)
		}
		if !ok {
			t.Errorf("%s: %v, want a value of type %q", name, value, types[name])
		}
	}
}

// camelCase returns the name of a Protobuf field in JSON.
func camelCase(name string) string {
	words := strings.Split(name, "_")
	for i, word := range words[1:] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}

// fields returns the object at path in object. Of a list, it takes the first element.
func fields(t *testing.T, object map[string]any, path ...string) map[string]any {
	t.Helper()
	for _, name := range path {
		value := object[name]
		if list, ok := value.([]any); ok {
			value = list[0]
		}
		next, ok := value.(map[string]any)
		if !ok {
			t.Fatalf("%s is not an object: %v", name, value)
		}
		object = next
	}
	return object
}

// istioConfig returns the documented configuration of Envoy with the filter and the rate limits of the EnvoyFilter instead of its own.
func istioConfig(t *testing.T, p places) string {
	t.Helper()
	_, blocks := otherGateways(t, "")
	i := slices.IndexFunc(blocks, func(block string) bool { return strings.Contains(block, "kind: EnvoyFilter") })
	var object struct {
		Spec struct {
			ConfigPatches []struct {
				Patch struct{ Value map[string]any }
			}
		}
	}
	if err := yaml.Unmarshal([]byte(blocks[i]), &object); err != nil || len(object.Spec.ConfigPatches) != 2 {
		t.Fatal(err)
	}
	var config map[string]any
	if err := yaml.Unmarshal([]byte(documentedConfig(t, p)), &config); err != nil {
		t.Fatal(err)
	}
	manager := fields(t, config, "static_resources", "listeners", "filter_chains", "filters", "typed_config")
	filters, _ := manager["http_filters"].([]any)
	manager["http_filters"] = []any{object.Spec.ConfigPatches[0].Patch.Value, filters[len(filters)-1]} // the last is the router
	host := fields(t, manager, "route_config", "virtual_hosts")
	delete(host, "typed_per_filter_config")
	host["routes"] = []any{map[string]any{"match": map[string]any{"prefix": "/"}, "route": map[string]any{"cluster": "shop"}}}
	host["rate_limits"] = object.Spec.ConfigPatches[1].Patch.Value["rate_limits"]
	fields(t, config, "static_resources", "clusters")["name"] = "outbound|8081||weir-limiter-default.weir-system.svc.cluster.local"
	out, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// Istio inserts the values of the EnvoyFilter into the configuration of its Envoy. There they enforce the policy of the page.
func TestOtherGateways_TheEnvoyFilterOfIstioEnforcesThePolicy(t *testing.T) {
	_, blocks := otherGateways(t, "")
	i := slices.IndexFunc(blocks, func(block string) bool { return strings.Contains(block, "kind: RateLimitPolicy") })
	w := newWorld(t, blocks[i], istioConfig)
	if got, want := w.statuses(t, 101, "/"), strings.Repeat("OK, ", 100)+"Too Many Requests"; got != want {
		t.Errorf("%s", got)
	}
}
