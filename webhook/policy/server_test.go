package policy_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
	"github.com/weir-dev/weir/webhook/certificate"
	"github.com/weir-dev/weir/webhook/policy"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // controller-runtime prints a warning if no logger is set
	kubetest.Main(m)
}

// patience is the timeout of each wait. The events take milliseconds, unless a comment states another duration.
const patience = 60 * time.Second

const configuration = "weir-policies"

func secret() types.NamespacedName {
	return types.NamespacedName{Namespace: "weir-system", Name: "weir-webhook-certificates"}
}

// testCluster is an API server with config/webhook installed. Its webhook configuration has the address of the test process instead of the
// Service.
type testCluster struct {
	*testing.T
	client.Client
	kube      *kubetest.KubeProcess
	addr      string
	namespace string
	warnings  *warnings
}

func newTestCluster(t *testing.T) *testCluster {
	t.Helper()
	kube := kubetest.Kube(t)
	w := &testCluster{T: t, kube: kube, namespace: kubetest.Namespace(t, kube), warnings: &warnings{}}
	var err error
	w.addr, err = fixture.FreeAddr(t.Context())
	w.must(err)
	config := kube.Config()
	config.WarningHandler = w.warnings
	w.Client, err = client.New(config, client.Options{Scheme: w.scheme(), FieldValidation: metav1.FieldValidationStrict})
	w.must(err)
	w.install()
	return w
}

func (w *testCluster) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *testCluster) scheme() *runtime.Scheme {
	w.Helper()
	scheme := runtime.NewScheme()
	w.must(v1alpha1.AddToScheme(scheme))
	w.must(corev1.AddToScheme(scheme))
	w.must(admissionv1.AddToScheme(scheme))
	return scheme
}

// install applies the manifests as a user does. When the test ends, it deletes the objects that would affect the next test.
func (w *testCluster) install() {
	w.Helper()
	root, err := fixture.ModuleRoot()
	w.must(err)
	config := filepath.Join(root, "config")
	for _, args := range [][]string{
		{"-f", filepath.Join(config, "operator", "namespace.yaml")},
		{"-k", filepath.Join(config, "rbac")},
		{"-k", filepath.Join(config, "webhook")},
	} {
		_, err := w.kube.Kubectl(w.Context(), append([]string{"apply", "--validate=strict"}, args...)...)
		w.must(err)
	}
	w.Cleanup(func() {
		ctx := context.Background() // the context of the test has ended
		w.must(w.Delete(ctx, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configuration}}))
		leftover := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secret().Namespace, Name: secret().Name}}
		w.must(client.IgnoreNotFound(w.Delete(ctx, leftover)))
	})
	w.edit(func(c *admissionv1.ValidatingWebhookConfiguration) {
		for i := range c.Webhooks {
			url := "https://" + w.addr + *c.Webhooks[i].ClientConfig.Service.Path
			c.Webhooks[i].ClientConfig.URL, c.Webhooks[i].ClientConfig.Service = &url, nil
		}
	})
}

func (w *testCluster) edit(change func(*admissionv1.ValidatingWebhookConfiguration)) {
	w.Helper()
	var c admissionv1.ValidatingWebhookConfiguration
	w.must(w.Get(w.Context(), types.NamespacedName{Name: configuration}, &c))
	before := c.DeepCopy()
	change(&c)
	w.must(w.Patch(w.Context(), &c, client.MergeFrom(before)))
}

// operator runs the webhook and the rotation of its certificates with the permissions that the manifests grant. It runs until the test ends
// or stop is called.
func (w *testCluster) operator(rotation certificate.Rotation) (stop func()) {
	w.Helper()
	return w.operatorAt(rotation, time.Now)
}

// operatorAt is operator with a clock for the rotation.
func (w *testCluster) operatorAt(rotation certificate.Rotation, clock func() time.Time) (stop func()) {
	w.Helper()
	config := w.kube.Config()
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:weir-system:weir-operator",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:weir-system", "system:authenticated"},
	}
	host, port, err := net.SplitHostPort(w.addr)
	w.must(err)
	number, err := strconv.Atoi(port)
	w.must(err)
	serving := &certificate.Serving{}
	skipValidation := true // several managers run in this process, one after another
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:     w.scheme(),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: &skipValidation},
		Cache: cache.Options{
			ReaderFailOnMissingInformer: true,
			ByObject:                    map[client.Object]cache.ByObject{&corev1.Secret{}: certificate.CacheFor(secret())},
		},
		WebhookServer: webhook.NewServer(webhook.Options{Host: host, Port: number, TLSOpts: tlsOptions(serving)}),
	})
	w.must(err)
	namespaces := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
	for _, kind := range []client.Object{&v1alpha1.RateLimitPolicy{}, &v1alpha1.ClusterRateLimitPolicy{}, &v1alpha1.Limiter{}, namespaces} {
		_, err = mgr.GetCache().GetInformer(w.Context(), kind)
		w.must(err)
	}
	w.must(certificate.Follow(mgr, secret(), serving))
	rotator, err := certificate.NewRotator(certificate.Config{
		Rotation: rotation, Secret: secret(), Configurations: []string{configuration}, Client: mgr.GetClient(), Uncached: mgr.GetAPIReader(),
		Serving: serving, Interval: 100 * time.Millisecond, Clock: clock,
	})
	w.must(err)
	w.must(rotator.SetupWithManager(mgr))
	policy.Register(mgr.GetWebhookServer(), policy.Config{Scheme: w.scheme(), Cache: mgr.GetCache(), Identity: compile.DefaultIdentity()})

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Error(err)
		}
	})
	w.Cleanup(stop)
	return stop
}

func rotation() certificate.Rotation { return certificate.DefaultRotation("127.0.0.1") }

// policy returns a policy with the given spec in YAML.
func (w *testCluster) policy(name, spec string) *v1alpha1.RateLimitPolicy {
	w.Helper()
	p := &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	w.must(yaml.UnmarshalStrict([]byte(spec), &p.Spec))
	return p
}

// eventually waits until condition is true, and fails the test with the description after the timeout.
func (w *testCluster) eventually(description string, condition func() bool) {
	w.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !condition(); <-tick.C {
		if time.Now().After(deadline) {
			w.Fatalf("timeout after %v, waiting until %s", patience, description)
		}
	}
}

// waitForWebhook waits until the API server calls the webhook.
func (w *testCluster) waitForWebhook() {
	w.Helper()
	w.eventually("the webhook rejects an invalid policy", func() bool {
		return w.Create(w.Context(), w.policy("probe", invalidSpec), client.DryRunAll) != nil
	})
}

func (w *testCluster) file(name, text string) string {
	w.Helper()
	path := filepath.Join(w.TempDir(), name)
	w.must(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// warnings records the warnings that the API server sends to the client.
type warnings struct {
	mu       sync.Mutex
	received []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.received = append(w.received, text)
}

// take returns the warnings since the last call.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	received := w.received
	w.received = nil
	return received
}
