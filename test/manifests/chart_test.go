package manifests

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weir-dev/weir/test/manifests/tool"
)

// template runs helm template.
func template(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return tool.Output(t, "helm", append([]string{"template", "weir", tool.Root(t, "charts", "weir"), "--namespace", installed}, args...)...)
}

// rendered returns the objects of the chart for valid values, without the labels and annotations that only Helm adds.
func rendered(t *testing.T, args ...string) tool.Set {
	t.Helper()
	text, err := template(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	set := tool.Objects(t, text)
	for _, object := range set {
		labels := object.GetLabels()
		for _, of := range []string{"helm.sh/chart", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by"} {
			if labels[of] == "" {
				if object.GetKind() != "CustomResourceDefinition" {
					t.Errorf("%s %s does not have the label %s", object.GetKind(), object.GetName(), of)
				}
				continue
			}
			delete(labels, of)
		}
		annotations := object.GetAnnotations()
		delete(annotations, "helm.sh/resource-policy")
		for field, words := range map[string]map[string]string{"labels": labels, "annotations": annotations} {
			if len(words) == 0 {
				unstructured.RemoveNestedField(object.Object, "metadata", field)
				continue
			}
			if err := unstructured.SetNestedStringMap(object.Object, words, "metadata", field); err != nil {
				t.Fatal(err)
			}
		}
	}
	return set
}

// valueSets returns the arguments of helm for the default values and for each file of testdata.
func valueSets(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no values: %v", err)
	}
	sets := map[string][]string{"default": nil}
	for _, file := range files {
		sets[strings.TrimSuffix(filepath.Base(file), ".values.yaml")] = []string{"--values", file}
	}
	return sets
}

func TestChart_InstallsTheSameObjectsAsTheManifests(t *testing.T) {
	for name, c := range map[string]struct {
		values    []string
		manifests []string
	}{
		"by default": {nil, []string{"config/default"}},
		"with cert-manager": {
			[]string{"--set=webhook.certificates=CertManager"},
			[]string{"test/manifests/testdata/cert-manager"},
		},
		"with Limiters in one namespace": {
			[]string{"--set=watchNamespaces={weir-system}"},
			[]string{"test/manifests/testdata/watch-namespaces"},
		},
		"with Prometheus Operator": {
			[]string{"--set=podMonitor.create=true,prometheusRule.create=true"},
			[]string{"config/default", "config/prometheus"},
		},
		"with dashboards": {[]string{"--set=dashboards.create=true"}, []string{"config/default", "config/grafana"}},
	} {
		t.Run(name, func(t *testing.T) {
			want := tool.Set{}
			for _, dir := range c.manifests {
				maps.Copy(want, tool.Kustomize(t, dir))
			}
			delete(want, "Namespace /"+installed) // helm --create-namespace
			got := rendered(t, append(c.values, "--set=image.tag=latest")...)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-%v +charts/weir:\n%s", c.manifests, diff)
			}
		})
	}
}

func TestAdminFrom_AreTheOnlyPeersOfTheAdminPort(t *testing.T) {
	admin := func(args ...string) (peers []networkingv1.NetworkPolicyPeer) {
		for _, rule := range tool.All[networkingv1.NetworkPolicy](t, rendered(t, args...), "NetworkPolicy")["weir-operator"].Spec.Ingress {
			if len(rule.Ports) == 0 {
				t.Error("a rule without ports allows all ports")
			}
			for _, port := range rule.Ports {
				if port.Port.String() == "admin" || port.Port.IntValue() == 9444 {
					peers = append(peers, rule.From...)
				}
			}
		}
		return peers
	}
	if peers := admin(); len(peers) > 0 {
		t.Errorf("by default: %v", peers)
	}
	const from = `--set-json=admin.from=[{"ipBlock":{"cidr":"10.0.0.0/8"}},{"podSelector":{"matchLabels":{"app":"ops"}}}]`
	want := []networkingv1.NetworkPolicyPeer{
		{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8"}}, {PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "ops"}}},
	}
	if diff := cmp.Diff(want, admin(from)); diff != "" {
		t.Errorf("-want +rendered:\n%s", diff)
	}
	if peers := admin(from, "--set=admin.enabled=false"); len(peers) > 0 {
		t.Errorf("without the endpoint: %v", peers)
	}
}

func TestChart_WithoutTheAdminEndpointInstallsNothingForIt(t *testing.T) {
	all, without := rendered(t), rendered(t, "--set=admin.enabled=false")
	var missing []string
	for name := range all {
		if without[name] == nil {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	want := []string{
		"ClusterRole /weir-observer", "ClusterRole /weir-responder", "Role " + installed + "/weir-admin-access",
		"RoleBinding kube-system/weir-operator-authentication",
	}
	if diff := cmp.Diff(want, missing); diff != "" {
		t.Errorf("-want +missing:\n%s", diff)
	}
}

func TestChartFiles_EqualTheFilesInConfig(t *testing.T) {
	files := tool.Root(t, "charts/weir/files")
	copies := map[string]bool{}
	err := filepath.WalkDir(files, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(files, path)
		if err != nil {
			return err
		}
		copies[name] = true
		got, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		want, err := os.ReadFile(tool.Root(t, "config", name))
		if err != nil || string(got) != string(want) {
			t.Errorf("charts/weir/files/%s differs from config/%s: %v; run: make chart", name, name, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"crd/bases/*.yaml", "rbac/*.yaml", "grafana/*.json"} {
		dir := filepath.Dir(pattern)
		originals, err := filepath.Glob(tool.Root(t, "config", pattern))
		if err != nil || len(originals) == 0 {
			t.Fatalf("no files in config/%s: %v", dir, err)
		}
		for _, original := range originals {
			if name := filepath.Join(dir, filepath.Base(original)); filepath.Base(name) != "kustomization.yaml" && !copies[name] {
				t.Errorf("the chart has no copy of config/%s; run: make chart", name)
			}
		}
	}
}

func TestTemplate_DoesNotDependOnTheCluster(t *testing.T) {
	for name, values := range valueSets(t) {
		var first string
		for i, args := range [][]string{
			nil, nil, {"--kube-version=" + oldestKubernetes + ".0"}, {"--kube-version=1.40.0"}, {"--is-upgrade"}, {"--api-versions=monitoring.coreos.com/v1,weir.dev/v1alpha1"},
		} {
			text, err := template(t, append(args, values...)...)
			if err != nil {
				t.Fatalf("%s %v: %v", name, args, err)
			}
			if i == 0 {
				first = text
			}
			if diff := cmp.Diff(first, text); diff != "" {
				t.Errorf("%s with %v:\n%s", name, args, diff)
			}
		}
	}
}

// oldestKubernetes is the first version whose API server knows the formats in the rules of the CRDs. It is tested with
// WEIR_TEST_KUBE=v1.32.13.
const oldestKubernetes = "1.32"

func TestChart_RejectsKubernetesVersionsThatRejectTheCRDs(t *testing.T) {
	for version, want := range map[string]bool{"1.30.14": false, "1.31.14": false, "1.32.0": true, "1.32.0-eks-1": true, "1.36.3": true} {
		if _, err := template(t, "--kube-version", version); (err == nil) != want {
			t.Errorf("Kubernetes %s is accepted: %v, want %v", version, err, want)
		}
	}
}

func TestDocs_NameTheOldestKubernetes(t *testing.T) {
	for file, text := range map[string]string{
		"docs/how-to/install.md": "Kubernetes cluster of version " + oldestKubernetes + " or later",
		"charts/weir/README.md":  "Kubernetes " + oldestKubernetes + " or later",
	} {
		content, err := os.ReadFile(tool.Root(t, file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(content), text) {
			t.Errorf("%s does not contain %q", file, text)
		}
	}
}

func TestTemplate_InAnotherNamespaceDoesNotContainTheDefaultNamespace(t *testing.T) {
	for name, values := range valueSets(t) {
		text, err := template(t, append(values, "--namespace=limits", "--set=crds.install=false")...)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text, installed) {
			t.Errorf("%s: the output contains %s", name, installed)
		}
	}
}

func TestCRDsAndLimiters_StayAfterTheReleaseIsUninstalled(t *testing.T) {
	text, err := template(t, "--values=testdata/full.values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for name, object := range tool.Objects(t, text) {
		stays := object.GetAnnotations()["helm.sh/resource-policy"] == "keep"
		if want := object.GetKind() == "CustomResourceDefinition" || object.GetKind() == "Limiter"; stays != want {
			t.Errorf("%s has the resource policy keep: %v", name, stays)
		}
		if stays {
			kept++
		}
	}
	if kept != 4 {
		t.Errorf("%d objects stay, want 4: three CRDs and a Limiter", kept)
	}
}
