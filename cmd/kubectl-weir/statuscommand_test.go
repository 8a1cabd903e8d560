package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/cmd/kubectl-weir/status"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

// statusWorld is an API server with the objects of an installation, without controllers.
type statusWorld struct {
	*testing.T
	client.Client

	kube *kubetest.KubeProcess
}

func (w *statusWorld) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// expect runs kubectl weir status with the kubeconfig, and checks the exit status and texts of the output, in order.
func (w *statusWorld) expect(kubeconfig string, exit int, arguments []string, texts ...string) string {
	w.Helper()
	var stdout, stderr bytes.Buffer
	got := run(append([]string{"status", "--kubeconfig", kubeconfig}, arguments...), &stdout, &stderr)
	rest := stdout.String() + stderr.String()
	for _, text := range texts {
		_, after, found := strings.Cut(rest, text)
		if !found {
			w.Errorf("status %q: no %q in order in:\n%s%s", arguments, text, &stdout, &stderr)
			break
		}
		rest = after
	}
	if got != exit {
		w.Errorf("status %q: exit status %d, want %d:\n%s%s", arguments, got, exit, &stdout, &stderr)
	}
	return stdout.String()
}

// user creates a user and binds weir-observer, for all namespaces if namespace is "*".
func (w *statusWorld) user(name, namespace string) (kubeconfig string) {
	w.Helper()
	config, err := w.kube.UserConfig(name)
	w.must(err)
	kubeconfig, err = w.kube.WriteKubeconfig(name, config)
	w.must(err)
	subjects := []rbacv1.Subject{{Kind: "User", Name: name, APIGroup: rbacv1.GroupName}}
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "weir-observer"}
	switch namespace {
	case "":
	case "*":
		w.must(w.Create(w.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects, RoleRef: role}))
	default:
		w.must(w.Create(w.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Subjects: subjects, RoleRef: role}))
	}
	return kubeconfig
}

func TestStatus_ShowsAnInstallationToItsObservers(t *testing.T) {
	kube, err := kubetest.StartKube(t.Context(), kubetest.KubeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := kube.Stop(); err != nil {
			t.Error(err)
		}
	}()
	t.Run("gateway list names the missing CRD", func(t *testing.T) { nameTheMissingCRD(t, kube) })
	w := &statusWorld{T: t, kube: kube}
	w.expect(kube.Kubeconfig(), 2, nil, "kubectl weir status: the cluster does not have the CRDs of Weir: Weir is not installed; install Weir, or select another cluster with --context")

	root := filepath.Join("..", "..")
	for _, path := range []string{"config/crd/bases", "config/rbac/admin_roles.yaml", "config/webhook/configuration.yaml", "config/operator/deployment.yaml"} {
		if strings.HasPrefix(path, "config/rbac") {
			_, err := kube.Kubectl(t.Context(), "create", "namespace", "weir-system")
			w.must(err)
		}
		_, err := kube.Kubectl(t.Context(), "apply", "--server-side", "-f", filepath.Join(root, path))
		w.must(err)
	}
	w.must(kube.WaitForCRDs(t.Context(), "limiters.weir.dev", "ratelimitpolicies.weir.dev", "clusterratelimitpolicies.weir.dev"))
	w.install()
	everything, namespaced, stranger := w.user("olga", "*"), w.user("nora", "weir-system"), w.user("stranger", "")

	text := []string{
		"Operator:  weir-system/weir-operator, 2/2 ready, version latest", "weir-policies, registered, webhooks: ", "weir-throttle, not registered",
		"weir-system/default  True   Deployed  1/1", "Reachable", "Policies: 1, 0 ready", "Not ready: 1 NotSelected", "weir-system/tenant-free  False  NotSelected",
		"Problem 1: ValidatingWebhookConfiguration weir-policies", "has no CA", "runbook: docs/runbooks/WeirOperatorAbsent.md",
		"Problem 2: Policy weir-system/tenant-free", "NotSelected: no Limiter selects it", "runbook: docs/runbooks/policy-not-enforced.md",
	}
	w.expect(everything, 1, nil, text...)
	w.expect(everything, 1, []string{"-o", "wide"}, "IMAGE", "weir:test")
	w.expect(everything, 0, []string{"-n", "default"}, "No Limiters.", "Policies: 0", "Namespace default has no Limiters and no RateLimitPolicies.")
	w.expect(namespaced, 1, []string{"--namespace", "weir-system"}, "Operator:", "weir-system/default", "Problem 1: Policy weir-system/tenant-free")
	w.expect(namespaced, 2, nil, "Cannot read limiters.weir.dev: the user lacks the permission to list limiters.weir.dev in all namespaces",
		"Cannot read ratelimitpolicies.weir.dev", "Cannot read deployments.apps", "Cannot read clusterratelimitpolicies.weir.dev",
		"get validatingwebhookconfigurations.admissionregistration.k8s.io weir-policies",
		"do: bind the ClusterRole weir-observer with a ClusterRoleBinding, or select a namespace with --namespace")
	w.expect(stranger, 2, []string{"-n", "weir-system"}, "bind the ClusterRole weir-observer in namespace weir-system")

	var report status.Report
	w.must(json.Unmarshal([]byte(w.expect(everything, 1, []string{"-o", "json"})), &report))
	if report.Version != "v1" || report.Healthy || len(report.Problems) != 2 || report.Limiters[0].Version != "test" {
		t.Errorf("JSON: %+v", report)
	}
	onlyPolicies := w.user("paul", "")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "policies"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"weir.dev"}, Resources: []string{"ratelimitpolicies"}, Verbs: []string{"list"}}}}
	w.must(w.Create(t.Context(), role))
	w.must(w.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "paul"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "paul", APIGroup: rbacv1.GroupName}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	}))
	t.Run("diff", func(t *testing.T) { compareWithFiles(t, everything, onlyPolicies, stranger) })
	w.repair()
	w.expect(everything, 0, nil, "Policies: 1, 1 ready", "No problems.")
}

// install creates a Limiter that is ready and a policy that no Limiter selects.
func (w *statusWorld) install() {
	w.Helper()
	scheme := runtime.NewScheme()
	w.must(clientgoscheme.AddToScheme(scheme))
	w.must(v1alpha1.AddToScheme(scheme))
	var err error
	w.Client, err = client.New(w.kube.Config(), client.Options{Scheme: scheme})
	w.must(err)
	_, err = w.kube.Kubectl(w.Context(), "apply", "-f", filepath.Join("testdata", "status.yaml"))
	w.must(err)
	for name, replicas := range map[string]int32{"weir-operator": 2, "weir-limiter-default": 1} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: name}}
		w.must(w.Get(w.Context(), client.ObjectKeyFromObject(d), d))
		d.Status = appsv1.DeploymentStatus{Replicas: replicas, ReadyReplicas: replicas}
		w.must(w.Client.Status().Update(w.Context(), d))
	}
	l := &v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: "default"}}
	w.must(w.Get(w.Context(), client.ObjectKeyFromObject(l), l))
	l.Status = v1alpha1.LimiterStatus{
		ObservedGeneration: 1, ReadyReplicas: 1, EnforcingReplicas: 1, Revision: "sha256:0123456789abcdef", Redis: &v1alpha1.RedisState{Reachable: true},
	}
	meta.SetStatusCondition(&l.Status.Conditions, metav1.Condition{Type: "Ready", Status: "True", Reason: "Deployed", ObservedGeneration: 1})
	w.must(w.Client.Status().Update(w.Context(), l))
	w.setReady(metav1.Condition{Type: "Ready", Status: "False", Reason: "NotSelected", Message: "no Limiter selects it", ObservedGeneration: 1})
}

func (w *statusWorld) setReady(ready metav1.Condition) {
	w.Helper()
	p := &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: "tenant-free"}}
	w.must(w.Get(w.Context(), client.ObjectKeyFromObject(p), p))
	p.Status.ObservedGeneration = 1
	meta.SetStatusCondition(&p.Status.Conditions, ready)
	w.must(w.Client.Status().Update(w.Context(), p))
}

// repair makes the policy Ready and deletes the optional webhook.
func (w *statusWorld) repair() {
	w.Helper()
	w.setReady(metav1.Condition{Type: "Ready", Status: "True", Reason: "Programmed", ObservedGeneration: 1})
	_, err := w.kube.Kubectl(w.Context(), "delete", "validatingwebhookconfiguration", "weir-policies")
	w.must(err)
}

func TestStatus_RejectsWhatCannotWork(t *testing.T) {
	dir := t.TempDir()
	refused := filepath.Join(dir, "refused")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n" +
		"contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\nusers: [{name: u, user: {token: t}}]\n"
	if err := os.WriteFile(refused, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", dir)
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	for want, arguments := range map[string][]string{
		"kubectl weir status: there is no kubeconfig: set --kubeconfig or KUBECONFIG\n":               nil,
		"kubectl weir status: read the kubeconfig: stat /none: no such file or directory\n":           {"--kubeconfig", "/none"},
		"kubectl weir status: read the kubeconfig: context \"none\" does not exist\n":                 {"--kubeconfig", refused, "--context", "none"},
		"kubectl weir status: the API server does not answer: ":                                       {"--kubeconfig", refused},
		"kubectl weir status: --output \"name\" is invalid: must be one of table, wide, json, yaml\n": {"-o", "name"},
	} {
		var stdout, stderr bytes.Buffer
		exit := run(slices.Concat([]string{"status"}, arguments), &stdout, &stderr)
		if exit != 2 || !strings.HasPrefix(stderr.String(), want) || stdout.Len() > 0 {
			t.Errorf("%q: exit status %d, %q, %q, want %q", arguments, exit, stdout.String(), stderr.String(), want)
		}
	}
}

func nameTheMissingCRD(t *testing.T, kube *kubetest.KubeProcess) {
	t.Helper()
	t.Setenv("KUBECONFIG", kube.Kubeconfig())
	const want = "kubectl weir gateway list: the cluster does not have the CRD of SecurityPolicy: install Envoy Gateway\n"
	var out, errs bytes.Buffer
	if exit := run([]string{"gateway", "list"}, &out, &errs); exit != 1 || errs.String() != want || out.Len() > 0 {
		t.Errorf("exit status %d, %s%s, want %q", exit, &out, &errs, want)
	}
}

// compareWithFiles compares the policy of the installation with files.
func compareWithFiles(t *testing.T, user, onlyPolicies, stranger string) {
	file := filepath.Join(t.TempDir(), "policies.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	diff := func(kubeconfig string, want int, texts ...string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		got := run([]string{"diff", file, "--kubeconfig", kubeconfig}, &stdout, &stderr)
		output := stdout.String() + stderr.String()
		if got != want {
			t.Errorf("status %d, want %d\n%s", got, want, output)
		}
		for _, text := range texts {
			if !strings.Contains(output, text) {
				t.Errorf("without %q:\n%s", text, output)
			}
		}
	}
	const policy = "apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: tenant-free, namespace: weir-system}\n" +
		"spec: {axis: Tenant, limit: 100, window: 1h, algorithm: FixedWindow}\n"
	write(policy)
	diff(user, 0, "The policies are the same.")
	write(strings.Replace(policy, "100", "50", 1))
	diff(user, 1, "stricter: weir-system/tenant-free ("+file+":1)\n  spec.limit: 100 → 50 [stricter]")
	diff(stranger, 2, "read ratelimitpolicies.weir.dev in namespace weir-system: ", "forbidden")
	write(strings.Replace(policy, "RateLimitPolicy", "ClusterRateLimitPolicy", 1))
	diff(user, 1, "1 policy differs: 1 new (stricter).") // the policy of the namespace is not compared
	write(strings.Replace(policy, "100", "-1", 1))
	diff(user, 2, "1 problem in the files")
	write("# nothing\n")
	diff(user, 2, "the files have neither a policy nor a Limiter")

	const limiter = "---\napiVersion: weir.dev/v1alpha1\nkind: Limiter\nmetadata: {name: default, namespace: weir-system}\n" +
		"spec: {replicas: 9, redis: {addresses: [\"redis:6379\"]}}\n"
	tenantOf := func(header string) string {
		return strings.Replace(limiter, "spec: {", "spec: {identity: {tenant: {header: "+header+"}}, ", 1)
	}
	write(policy + limiter)
	diff(user, 0, "The policies are the same.")
	write(policy + tenantOf("X-Org"))
	diff(user, 1, "different: Limiter weir-system/default (", "spec.identity.tenant.header: x-tenant-id → X-Org; policies without spec.identifier count by another identifier [different]",
		"different: weir-system/tenant-free (", "spec.identity of the Limiter: header x-tenant-id → header x-org", "1 policy differs: 1 different. 1 Limiter differs: 1 different.")
	diff(onlyPolicies, 0, "warning: Limiter weir-system/default is not compared: limiters.weir.dev \"default\" is forbidden: User \"paul\" cannot get")
	write(strings.Replace(limiter, "name: default", "name: new", 1))
	diff(user, 1, "new (different): Limiter weir-system/new (")
}
