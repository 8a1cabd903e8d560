package manifests

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/weir-dev/weir/test/manifests/tool"
)

func TestHelmLint_ReportsNothing(t *testing.T) {
	for name, values := range valueSets(t) {
		out, err := tool.Output(t, "helm", append([]string{"lint", "--strict", "--quiet", tool.Root(t, "charts", "weir")}, values...)...)
		if err != nil || strings.Contains(out, "WARNING") || strings.Contains(out, "ERROR") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func TestSchema_RejectsInvalidValuesByName(t *testing.T) {
	for _, c := range []struct{ values, message string }{
		{"replica: 2", "additional properties 'replica' not allowed"},
		{"replicas: two", "at '/replicas': got string, want integer"},
		{"replicas: -1", "at '/replicas': minimum: got -1, want 0"},
		{"image: {digest: latest}", "at '/image/digest': 'latest' does not match pattern"},
		{"image: {tag: 'v1@sha256:0'}", "at '/image/tag': 'v1@sha256:0' does not match pattern"},
		{"image: {repository: 'weir:v1'}", "at '/image/repository': 'weir:v1' does not match pattern"},
		{"image: {repository: ''}", "at '/image/repository': minLength: got 0, want 1"},
		{"image: {pullPolicy: always}", "at '/image/pullPolicy': value must be one of '', 'Always', 'IfNotPresent', 'Never'"},
		{"imagePullSecrets: [registry]", "at '/imagePullSecrets/0': got string, want object"},
		{"webhook: {certificates: cert-manager}", "at '/webhook/certificates': value must be one of 'Managed', 'CertManager', 'None'"},
		{"networkPolicies: 'no'", "at '/networkPolicies': got string, want boolean"},
		{"watchNamespaces: weir-system", "at '/watchNamespaces': got string, want array"},
		{"watchNamespaces: ['']", "at '/watchNamespaces/0': '' does not match pattern"},
		{"limiterSecrets: ['*']", "at '/limiterSecrets/0': '*' does not match pattern"},
		{"keyPrefix: 'a b'", "at '/keyPrefix': 'a b' does not match pattern"},
		{"arguments: [resync]", "at '/arguments/0': 'resync' does not match pattern"},
		{"crds: {create: true}", "at '/crds': additional properties 'create' not allowed"},
		{"limiter: {create: true}", "at '/limiter/spec/redis/addresses': minItems: got 0, want 1"},
		{"limiter: {spec: {redis: {addresses: ['redis://redis:6379']}}}", "at '/limiter/spec/redis/addresses/0': 'redis://redis:6379' does not match pattern"},
		{"admin: {from: [10.0.0.0/8]}", "at '/admin/from/0': got string, want object"},
		{"limiter: {name: a.b}", "at '/limiter/name': 'a.b' does not match pattern"},
		{"podMonitor: {interval: often}", "at '/podMonitor/interval': 'often' does not match pattern"},
		{"podMonitor: {labels: {release: 'a,b'}}", "at '/podMonitor/labels/release': 'a,b' does not match pattern"},
		{"prometheusRule: {labels: {release: 1}}", "at '/prometheusRule/labels/release': got number, want string"},
		{"resources: {limit: {}}", "at '/resources': additional properties 'limit' not allowed"},
		{"podLabels: {app.kubernetes.io/name: other}", "invalid propertyName 'app.kubernetes.io/name'"},
	} {
		_, err := template(t, "--values", tool.File(t, "values.yaml", c.values))
		if err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %v, want %s", c.values, err, c.message)
		}
	}
}

func TestValues_HaveACommentAndASchema(t *testing.T) {
	var values yaml.Node
	var schema map[string]any
	text, err := os.ReadFile(tool.Root(t, "charts/weir/values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(tool.Root(t, "charts/weir/values.schema.json")); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	checkValues(t, "", values.Content[0], schema)
}

func checkValues(t *testing.T, path string, values *yaml.Node, schema map[string]any) {
	t.Helper()
	properties, _ := schema["properties"].(map[string]any)
	seen := map[string]bool{"global": path == ""} // Helm sets global
	for i := 0; i < len(values.Content); i += 2 {
		key, value := values.Content[i], values.Content[i+1]
		name := path + "." + key.Value
		seen[key.Value] = true
		property, known := properties[key.Value].(map[string]any)
		if !known {
			t.Errorf("values.schema.json has no %s", name)
		}
		// Fields of Kubernetes and of the Limiter are documented there.
		opaque := name == ".resources" || name == ".limiter.spec"
		section := value.Kind == yaml.MappingNode && len(value.Content) > 0 && !opaque
		if key.HeadComment == "" && !section {
			t.Errorf("%s has no comment", name)
		}
		if section {
			checkValues(t, name, value, property)
		}
	}
	for key := range properties {
		if !seen[key] {
			t.Errorf("values.yaml has no %s.%s", path, key)
		}
	}
}

func TestPodMonitorLabels_ApplyToTheOperatorAndToLimiters(t *testing.T) {
	objects := rendered(t, "--set=podMonitor.create=true,podMonitor.labels.release=prometheus,podMonitor.labels.team=a.b")
	labels := objects["PodMonitor "+installed+"/weir-operator"].GetLabels()
	if labels["release"] != "prometheus" || labels["team"] != "a.b" {
		t.Errorf("the labels of the PodMonitor of the operator are %v", labels)
	}
	args := tool.All[appsv1.Deployment](t, objects, "Deployment")["weir-operator"].Spec.Template.Spec.Containers[0].Args
	if want := "--pod-monitor-labels=release=prometheus,team=a.b"; !slices.Contains(args, want) {
		t.Errorf("the arguments of the operator are %q, want %q among them", args, want)
	}
}

func TestImage_HasTagDigestOrBoth(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0f", 32)
	for set, want := range map[string]string{
		"image.repository=registry.example:5000/weir": "registry.example:5000/weir:v0.1.0",
		"image.tag=v2":                        "weir:v2",
		"image.digest=" + digest:              "weir@" + digest,
		"image.tag=v2,image.digest=" + digest: "weir:v2@" + digest,
	} {
		container := tool.All[appsv1.Deployment](t, rendered(t, "--set", set), "Deployment")["weir-operator"].Spec.Template.Spec.Containers[0]
		if container.Image != want {
			t.Errorf("%s: %s, want %s", set, container.Image, want)
		}
	}
}

// TestServiceAccountAnnotations_AreThoseOfTheOperatorsAccount gives the operator an identity of a cloud.
func TestServiceAccountAnnotations_AreThoseOfTheOperatorsAccount(t *testing.T) {
	text, err := template(t, "--values", tool.File(t, "values.yaml", "serviceAccountAnnotations: {eks.amazonaws.com/role-arn: the-role}"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for object := range strings.SplitSeq(text, "\n---\n") {
		if strings.Contains(object, "eks.amazonaws.com/role-arn: the-role") {
			found++
			if !strings.Contains(object, "\nkind: ServiceAccount\n") {
				t.Errorf("the annotation is on\n%s", object)
			}
		}
	}
	if found != 1 {
		t.Errorf("%d objects have the annotation, want the ServiceAccount", found)
	}
}
