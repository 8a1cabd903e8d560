package throttle

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

// update writes the reviews that the API server sends to testdata.
var update = flag.Bool("update", false, "write the reviews of the API server to testdata")

// cluster is a kube-apiserver that calls a handler for writes to the configmaps of one namespace.
type cluster struct {
	kube      *kubetest.KubeProcess
	namespace string
	mu        sync.Mutex
	bodies    [][]byte
}

// newCluster registers a handler with these rules. Unlike the operator it uses failurePolicy Fail, which makes failures visible.
func newCluster(t *testing.T, list ...rules.Rule) *cluster {
	t.Helper()
	kube := kubetest.Kube(t)
	c := &cluster{kube: kube, namespace: kubetest.Namespace(t, kube)}
	files := newFiles(t)
	handler := newTestHandler(t, newEngine(t, memstore.New(time.Now), list...))
	address := serveTLS(t, c.recordRequests(handler), files, 0).address
	bundle, err := os.ReadFile(files.CA)
	if err != nil {
		t.Fatal(err)
	}
	url, fail, none, timeout := "https://"+address+Path, admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNoneOnDryRun, int32(5)
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "throttle-" + c.namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:         "throttle.weir.dev",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: bundle},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE", "DELETE"},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": c.namespace}},
			FailurePolicy:     &fail, SideEffects: &none, TimeoutSeconds: &timeout, AdmissionReviewVersions: []string{"v1"},
		}},
	}
	admin := c.client(t, nil)
	webhooks := admin.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if _, err := webhooks.Create(t.Context(), config, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := webhooks.Delete(context.Background(), config.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "writers", Namespace: c.namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "Group", APIGroup: "rbac.authorization.k8s.io", Name: "system:authenticated"}},
	}
	if _, err := admin.RbacV1().RoleBindings(c.namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.awaitRegistration(t, admin)
	return c
}

// awaitRegistration waits until the API server calls the webhook. It sends dry runs, which are not charged.
func (c *cluster) awaitRegistration(t *testing.T, admin kubernetes.Interface) {
	t.Helper()
	fixture.Await(t, "the API server calls the webhook", func() bool {
		probe := configMap("probe")
		if _, err := admin.CoreV1().ConfigMaps(c.namespace).Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			t.Fatal(err)
		}
		return len(c.requests()) > 0
	})
}

// recordRequests keeps the bodies of all requests.
func (c *cluster) recordRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		c.bodies = append(c.bodies, body)
		c.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

func (c *cluster) requests() [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bodies
}

// client returns a client for user, or for an admin of the cluster without user.
func (c *cluster) client(t *testing.T, warnings rest.WarningHandler, user ...string) *kubernetes.Clientset {
	t.Helper()
	config := c.kube.Config()
	config.WarningHandler = warnings
	if len(user) > 0 {
		config.Impersonate = rest.ImpersonationConfig{UserName: user[0], Groups: append(user[1:], "system:authenticated")}
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// warningRecorder keeps warnings.
type warningRecorder struct{ texts []string }

func (h *warningRecorder) HandleWarningHeader(_ int, _, text string) { h.texts = append(h.texts, text) }

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": "b"}}
}

func TestAPIServer_ReturnsWarningsAndDenialsToClients(t *testing.T) {
	c := newCluster(t, limit("configmaps", 5, hour))
	var warnings warningRecorder
	maps := c.client(t, &warnings, "alice").CoreV1().ConfigMaps(c.namespace)
	for range 7 { // as GitOps tools do
		if _, err := maps.Create(t.Context(), configMap("dry"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			t.Fatalf("a dry run was charged: %v", err)
		}
	}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if _, err := maps.Create(t.Context(), configMap(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"rate limit of policy _cluster/configmaps: 4 of 5 per 1h used by Namespace " + c.namespace,
		"rate limit of policy _cluster/configmaps: 5 of 5 per 1h used by Namespace " + c.namespace,
	}
	if strings.Join(warnings.texts, "\n") != strings.Join(want, "\n") {
		t.Errorf("warnings %q, want %q", warnings.texts, want)
	}
	before := len(c.requests())
	_, err := maps.Create(t.Context(), configMap("f"), metav1.CreateOptions{})
	if !apierrors.IsTooManyRequests(err) {
		t.Fatalf("the sixth write: %v", err)
	}
	if again := len(c.requests()) - before; again != 1 {
		t.Errorf("without Retry-After the client has sent %d requests, want 1", again)
	}
	status, _ := errors.AsType[*apierrors.StatusError](err)
	got := status.Status()
	wantMessage := `admission webhook "throttle.weir.dev" denied the request: over the limit of policy _cluster/configmaps: ` +
		`5 per 1h for Namespace ` + c.namespace + `; retry in `
	if got.Code != 429 || got.Details == nil || got.Details.Kind != "ConfigMap" || got.Details.Name != "f" || got.Details.RetryAfterSeconds != 0 {
		t.Errorf("status %+v", got)
	}
	if !strings.HasPrefix(got.Message, wantMessage) {
		t.Errorf("message %q", got.Message)
	}
	if _, err := c.client(t, nil).CoreV1().ConfigMaps(c.namespace).Create(t.Context(), configMap("f"), metav1.CreateOptions{}); err != nil {
		t.Errorf("an admin of the cluster: %v", err)
	}
}

func TestAPIServer_ClientGoRetriesAfterRetryAfter(t *testing.T) {
	c := newCluster(t, limit("configmaps", 1, 2*time.Second))
	maps := c.client(t, nil, "alice").CoreV1().ConfigMaps(c.namespace)
	before, began := len(c.requests()), time.Now()
	for _, name := range []string{"a", "b"} {
		if _, err := maps.Create(t.Context(), configMap(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took < 2*time.Second || len(c.requests())-before < 3 {
		t.Errorf("the second write passed after %v and %d calls of the webhook", took, len(c.requests())-before)
	}
	controllers := c.client(t, nil, "system:serviceaccount:flux-system:controller").CoreV1().ConfigMaps(c.namespace)
	before, began = len(c.requests()), time.Now()
	for _, name := range []string{"c", "d"} { // immediately after b
		_, err := controllers.Create(t.Context(), configMap(name), metav1.CreateOptions{})
		if wait, suggested := apierrors.SuggestsClientDelay(err); suggested || !apierrors.IsTooManyRequests(err) {
			t.Errorf("a controller got Retry-After %d: %v", wait, err)
		}
	}
	if took := time.Since(began); took > time.Second || len(c.requests())-before != 2 {
		t.Errorf("a controller waited %v, with %d calls of the webhook", took, len(c.requests())-before)
	}
}

func TestAPIServer_KubectlPrintsTheDenial(t *testing.T) {
	c := newCluster(t, limit("configmaps", 1, hour))
	kubectl := func(args ...string) error {
		_, err := c.kube.Kubectl(t.Context(), append(args, "--as=alice", "--as-group=system:authenticated", "--namespace="+c.namespace)...)
		return err
	}
	file := filepath.Join(t.TempDir(), "map.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied}\ndata: {a: b}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := kubectl("apply", "--server-side", "--dry-run=server", "-f", file); err != nil {
			t.Fatalf("a dry run: %v", err)
		}
	}
	if err := kubectl("create", "configmap", "first"); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"create":            {"create", "configmap", "second"},
		"server-side apply": {"apply", "--server-side", "-f", file},
		"apply":             {"apply", "-f", file},
		"patch":             {"patch", "configmap", "first", "-p", `{"data":{"c":"d"}}`},
	} {
		began := time.Now()
		err := kubectl(args...)
		if err == nil || !strings.Contains(err.Error(), "over the limit of policy _cluster/configmaps: 1 per 1h for Namespace ") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		t.Logf("%s, after %v: %v", name, time.Since(began).Round(10*time.Millisecond), err)
	}
	if err := kubectl("delete", "configmap", "first"); err != nil {
		t.Errorf("a deletion: %v", err)
	}
}

// docs/how-to/throttle-the-kubernetes-api.md documents that writes which fail later are counted.
func TestAPIServer_CountsAttemptsThatDoNotSucceed(t *testing.T) {
	c := newCluster(t, limit("configmaps", 100, hour))
	maps := c.client(t, nil, "alice").CoreV1().ConfigMaps(c.namespace)
	if _, err := maps.Create(t.Context(), configMap("a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	same := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"},"data":{"a":"b"}}`)
	apply := func() error {
		_, err := maps.Patch(t.Context(), "b", types.ApplyPatchType, same, metav1.PatchOptions{FieldManager: "flux"})
		return err
	}
	if err := apply(); err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name  string
		do    func() error
		want  func(error) bool
		calls int
	}{
		{"a name that exists", func() error {
			_, err := maps.Create(t.Context(), configMap("a"), metav1.CreateOptions{})
			return err
		}, apierrors.IsAlreadyExists, 1},
		{"a server-side apply that changes nothing", apply, func(err error) bool { return err == nil }, 1},
		{"a patch that changes nothing", func() error {
			_, err := maps.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":{"a":"b"}}`), metav1.PatchOptions{})
			return err
		}, func(err error) bool { return err == nil }, 1},
		{"an update of an old version", func() error {
			old := configMap("a")
			old.ResourceVersion = "1"
			_, err := maps.Update(t.Context(), old, metav1.UpdateOptions{})
			return err
		}, apierrors.IsConflict, 0},
		{"an invalid object", func() error {
			_, err := maps.Create(t.Context(), configMap("Not A Name"), metav1.CreateOptions{})
			return err
		}, apierrors.IsInvalid, 0},
		{"a deletion of a collection of two objects", func() error {
			return maps.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
		}, func(err error) bool { return err == nil }, 2},
	}
	for _, step := range steps {
		before := len(c.requests())
		if err := step.do(); !step.want(err) {
			t.Errorf("%s: %v", step.name, err)
		}
		if calls := len(c.requests()) - before; calls != step.calls {
			t.Errorf("%s: %d calls of the webhook, want %d", step.name, calls, step.calls)
		}
	}
}

// The reviews in testdata are those of a real kube-apiserver. With -update the test writes them.
func TestAPIServer_SendsTheRecordedReviews(t *testing.T) {
	c := newCluster(t)
	client := c.client(t, nil, "system:serviceaccount:"+c.namespace+":deployer", "system:serviceaccounts", "system:serviceaccounts:"+c.namespace)
	maps := client.CoreV1().ConfigMaps(c.namespace)
	steps := []struct {
		name string
		do   func(context.Context) error
	}{
		{"create", func(ctx context.Context) error {
			_, err := maps.Create(ctx, configMap("settings"), metav1.CreateOptions{})
			return err
		}},
		{"create-generated", func(ctx context.Context) error {
			_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "run-"}}, metav1.CreateOptions{})
			return err
		}},
		{"update-dry-run", func(ctx context.Context) error {
			_, err := maps.Update(ctx, configMap("settings"), metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}},
		{"delete", func(ctx context.Context) error { return maps.Delete(ctx, "settings", metav1.DeleteOptions{}) }},
	}
	for _, step := range steps {
		before := len(c.requests())
		if err := step.do(t.Context()); err != nil {
			t.Fatal(err)
		}
		bodies := c.requests()[before:]
		if len(bodies) != 1 {
			t.Fatalf("%s: %d calls of the webhook, want 1", step.name, len(bodies))
		}
		in, bad := decodeReview(bodies[0])
		if bad != nil {
			t.Fatalf("%s: %+v", step.name, bad)
		}
		write := toRequest(in).Kubernetes
		if write.Resource != "configmaps" || write.Namespace != c.namespace || isController(in) {
			t.Errorf("%s: %+v", step.name, write)
		}
		if *update {
			text := bytes.ReplaceAll(bodies[0], []byte(c.namespace), []byte("acme"))
			if err := os.WriteFile(filepath.Join("testdata", step.name+".json"), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}
