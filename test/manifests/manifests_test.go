// Package manifests holds what config/ installs to what it promises about the pods, on a real API server.
package manifests

import (
	"path/filepath"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/test/fixture"
)

const installed = "weir-system" // the namespace that config/ installs into

func TestMain(m *testing.M) { fixture.Main(m) }

// install applies config/default and config/redis and returns their Deployments.
func install(t *testing.T) (client.Client, []appsv1.Deployment) {
	t.Helper()
	kube := fixture.Kube(t)
	root, err := fixture.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"default", "redis"} {
		if _, err := kube.Kubectl(t.Context(), "apply", "--validate=strict", "-k", filepath.Join(root, "config", part)); err != nil {
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
	if len(list.Items) != 3 {
		t.Fatalf("%d Deployments, want those of operator, limiter and Redis", len(list.Items))
	}
	return c, list.Items
}

func TestEveryPodIsAdmittedUnderPodSecurityRestricted(t *testing.T) {
	c, deployments := install(t)
	create := func(name string, spec corev1.PodSpec) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: installed}, Spec: spec}
		return c.Create(t.Context(), pod, client.DryRunAll)
	}
	if create("privileged", corev1.PodSpec{Containers: []corev1.Container{{Name: "any", Image: "any"}}}) == nil {
		t.Fatal("the namespace takes pods without a security context")
	}
	for _, d := range deployments {
		if err := create(d.Name, d.Spec.Template.Spec); err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
	}
}

func TestEveryPodHasNoMoreThanItNeeds(t *testing.T) {
	_, deployments := install(t)
	for _, d := range deployments {
		pod := d.Spec.Template.Spec
		token := pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken
		if talksToKubernetes := d.Name == "weir-operator"; token != talksToKubernetes {
			t.Errorf("%s: API token mounted: %v, want %v", d.Name, token, talksToKubernetes)
		}
		if pod.EnableServiceLinks == nil || *pod.EnableServiceLinks {
			t.Errorf("%s: Services set environment variables", d.Name)
		}
		for _, c := range pod.Containers {
			if readOnly := c.SecurityContext.ReadOnlyRootFilesystem; readOnly == nil || !*readOnly {
				t.Errorf("%s: %s can write to its root file system", d.Name, c.Name)
			}
			if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
				t.Errorf("%s: %s has no memory limit or no CPU request", d.Name, c.Name)
			}
			if c.LivenessProbe == nil || c.ReadinessProbe == nil {
				t.Errorf("%s: %s lacks a probe", d.Name, c.Name)
			}
		}
	}
}

// TestTheOperatorMayKeepOneConfigMap holds the operator's rights to the one thing that they are for.
func TestTheOperatorMayKeepOneConfigMap(t *testing.T) {
	c, _ := install(t)
	may := func(verb, resource, namespace, name string) bool {
		t.Helper()
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:weir-system:weir-operator",
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource, Namespace: namespace, Name: name},
		}}
		if err := c.Create(t.Context(), review); err != nil {
			t.Fatal(err)
		}
		return review.Status.Allowed
	}
	for _, verb := range []string{"get", "patch", "create"} {
		if !may(verb, "configmaps", installed, "weir-rules-default") {
			t.Errorf("it may not %s its ConfigMap", verb)
		}
		for what, other := range map[string][2]string{
			"another ConfigMap": {installed, "other"}, "any ConfigMap": {installed, ""},
			"one of that name elsewhere": {"default", "weir-rules-default"},
		} {
			if may(verb, "configmaps", other[0], other[1]) {
				t.Errorf("it may %s %s", verb, what)
			}
		}
	}
	for _, verb := range []string{"list", "watch", "update", "delete", "deletecollection"} {
		if may(verb, "configmaps", installed, "weir-rules-default") || may(verb, "configmaps", "", "") {
			t.Errorf("it may %s ConfigMaps", verb)
		}
	}
	if may("get", "secrets", installed, "weir-redis") {
		t.Error("it may read Secrets")
	}
}

func TestALimiterMountsWhatTheOperatorKeepsAndStartsWithoutIt(t *testing.T) {
	_, deployments := install(t)
	i := slices.IndexFunc(deployments, func(d appsv1.Deployment) bool { return d.Name == "weir-limiter" })
	if i < 0 {
		t.Fatal("there is no Deployment weir-limiter")
	}
	pod := deployments[i].Spec.Template.Spec
	if len(pod.Volumes) != 1 || pod.Volumes[0].ConfigMap == nil {
		t.Fatalf("volumes %+v, want one of a ConfigMap", pod.Volumes)
	}
	from, mounts := pod.Volumes[0].ConfigMap, pod.Containers[0].VolumeMounts
	if from.Name != "weir-rules-default" || from.Optional == nil || !*from.Optional {
		t.Errorf("ConfigMap %s, optional: %v", from.Name, from.Optional)
	}
	// A subPath would never be updated.
	if len(mounts) != 1 || mounts[0].Name != pod.Volumes[0].Name || mounts[0].SubPath != "" || !mounts[0].ReadOnly {
		t.Fatalf("mounts %+v", mounts)
	}
	if flag := "--snapshot=" + mounts[0].MountPath + "/rules.json.gz"; !slices.Contains(pod.Containers[0].Args, flag) {
		t.Errorf("arguments %q, want %s", pod.Containers[0].Args, flag)
	}
}

func TestTheLimiterServiceFindsTheLimiters(t *testing.T) {
	c, deployments := install(t)
	var service corev1.Service
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: installed, Name: "weir-limiter"}, &service); err != nil {
		t.Fatal(err)
	}
	selector := labels.SelectorFromSet(service.Spec.Selector)
	for _, d := range deployments {
		matches := selector.Matches(labels.Set(d.Spec.Template.Labels))
		if want := d.Name == service.Name; matches != want {
			t.Errorf("the Service selects pods of %s: %v, want %v", d.Name, matches, want)
		}
	}
}
