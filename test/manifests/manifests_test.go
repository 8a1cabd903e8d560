// Package manifests tests the manifests in config/ and the Helm chart in charts/weir, offline and on a real API server.
package manifests

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/test/fixture/kubetest"
	"github.com/weir-dev/weir/test/manifests/tool"
)

const (
	installed = "weir-system" // the namespace that config/ installs into
	operator  = "weir-operator"
	image     = "registry.example/weir@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// installManifest writes the file of make install-yaml and returns its path.
func installManifest(t *testing.T, image string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "install.yaml")
	tool.Root(t, "config") // what the script reads
	out, err := exec.CommandContext(t.Context(), tool.Root(t, "hack", "install.sh"), "manifest", image, file).CombinedOutput()
	if err != nil {
		t.Logf("%s", out)
	}
	return file, err
}

// install applies install.yaml and config/redis and returns their Deployments. The server rejects unknown fields.
func install(t *testing.T) (client.Client, []appsv1.Deployment) {
	t.Helper()
	kube := kubetest.Kube(t)
	file, err := installManifest(t, image)
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range [][]string{{"-f", file}, {"-k", tool.Root(t, "config", "redis")}} {
		if _, err := kube.Kubectl(t.Context(), append([]string{"apply", "--validate=strict"}, from...)...); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(kube.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var list appsv1.DeploymentList
	if err := c.List(t.Context(), &list, client.InNamespace(installed)); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 2 {
		t.Fatalf("%d Deployments, want 2: the operator and Redis", len(list.Items))
	}
	return c, list.Items
}

func TestPods_AreAdmittedByPodSecurityRestricted(t *testing.T) {
	c, deployments := install(t)
	create := func(name string, spec corev1.PodSpec) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: installed}, Spec: spec}
		return c.Create(t.Context(), pod, client.DryRunAll)
	}
	if create("privileged", corev1.PodSpec{Containers: []corev1.Container{{Name: "any", Image: "any"}}}) == nil {
		t.Fatal("the namespace admits pods without a security context")
	}
	for _, d := range deployments {
		if err := create(d.Name, d.Spec.Template.Spec); err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
	}
}

func TestPods_HaveOnlyThePermissionsTheyNeed(t *testing.T) {
	_, deployments := install(t)
	for _, d := range deployments {
		pod := d.Spec.Template.Spec
		token := pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken
		if talksToKubernetes := d.Name == operator; token != talksToKubernetes {
			t.Errorf("%s: API token mounted: %v, want %v", d.Name, token, talksToKubernetes)
		}
		if pod.EnableServiceLinks == nil || *pod.EnableServiceLinks {
			t.Errorf("%s: enableServiceLinks is not false", d.Name)
		}
		if c := pod.SecurityContext; d.Name == operator && (c.RunAsUser != nil || c.RunAsGroup != nil || c.FSGroup != nil) {
			t.Errorf("%s has a fixed user or group, which OpenShift rejects: %+v", d.Name, c)
		}
		for _, c := range pod.Containers {
			if readOnly := c.SecurityContext.ReadOnlyRootFilesystem; readOnly == nil || !*readOnly {
				t.Errorf("%s: the root file system of %s is writable", d.Name, c.Name)
			}
			if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
				t.Errorf("%s: %s has no memory limit or no CPU request", d.Name, c.Name)
			}
			if c.LivenessProbe == nil || c.ReadinessProbe == nil {
				t.Errorf("%s: %s has no liveness or readiness probe", d.Name, c.Name)
			}
		}
	}
}

func TestSamplesAndOptionalManifests_AreValidOnTheServer(t *testing.T) {
	kube := kubetest.Kube(t)
	install(t)
	tool.InstallCRDs(t, kube)
	if _, err := kube.Kubectl(t.Context(), "apply", "-f", tool.Root(t, "config", "samples", "00-namespace.yaml")); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"config/samples", "config/samples/cluster", "config/samples/limiter", "config/prometheus", "test/manifests/testdata/cert-manager",
	} {
		if _, err := kube.Kubectl(t.Context(), "apply", "--dry-run=server", "--validate=strict", "-k", tool.Root(t, part)); err != nil {
			t.Errorf("%s: %v", part, err)
		}
	}
}

func TestInstallManifest_AcceptsAnImageWithTagDigestOrBoth(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0f", 32)
	for image, want := range map[string]bool{
		"weir:v1": true, "registry.example:5000/team/weir:v1": true, "registry.example/weir" + digest: true, "weir:v1" + digest: true,
		"registry.example:5000/weir": false, "weir": false, "weir@sha256:0f": false, ":v1": false, "weir:v 1": false, "": false,
	} {
		file, err := installManifest(t, image)
		if (err == nil) != want {
			t.Errorf("%q: %v", image, err)
		}
		if err != nil || !want {
			continue
		}
		deployments := tool.All[appsv1.Deployment](t, tool.Objects(t, tool.Run(t, "kustomize", "cfg", "cat", filepath.Dir(file))), "Deployment")
		if got := deployments[operator].Spec.Template.Spec.Containers[0].Image; got != image {
			t.Errorf("%q is installed as %q", image, got)
		}
	}
}

func TestOperator_GetsItsPodNameAndNamespace(t *testing.T) {
	container := tool.All[appsv1.Deployment](t, tool.Kustomize(t, "config/default"), "Deployment")[operator].Spec.Template.Spec.Containers[0]
	fields := map[string]string{}
	for _, e := range container.Env {
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			fields[e.Name] = e.ValueFrom.FieldRef.FieldPath
		}
	}
	if fields["POD_NAMESPACE"] != "metadata.namespace" || fields["POD_NAME"] != "metadata.name" {
		t.Errorf("environment %v", fields)
	}
}

func TestCertManagerComponent_ManagesAllCertificates(t *testing.T) {
	set := tool.Kustomize(t, "test/manifests/testdata/cert-manager")
	args := tool.All[appsv1.Deployment](t, set, "Deployment")[operator].Spec.Template.Spec.Containers[0].Args
	if text := strings.Join(args, " "); !strings.Contains(text, "--webhook-certificates=External") || strings.Contains(text, "Managed") {
		t.Errorf("arguments %q", args)
	}
	secrets := map[string][]string{}
	for name, object := range set {
		if object.GetKind() == "Certificate" {
			secret, _, _ := unstructured.NestedString(object.Object, "spec", "secretName")
			secrets[secret], _, _ = unstructured.NestedStringSlice(object.Object, "spec", "dnsNames")
		}
		if object.GetKind() == "ValidatingWebhookConfiguration" && object.GetAnnotations()["cert-manager.io/inject-ca-from"] != installed+"/weir-webhook" {
			t.Errorf("%s has no annotation for the bundle of cert-manager: %v", name, object.GetAnnotations())
		}
	}
	want := map[string][]string{
		"weir-webhook-authority": nil, "weir-webhook-certificates": {"weir-webhook." + installed + ".svc"}, deployment.ThrottleSecret: {"*." + installed + ".svc"},
	}
	if diff := cmp.Diff(want, secrets); diff != "" {
		t.Errorf("certificates and their names (-want +got):\n%s", diff)
	}
}
