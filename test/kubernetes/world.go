package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

const (
	// operatorNamespace is the namespace of the operator.
	operatorNamespace = "weir-system"
	// TenantLabel is the namespace label with the name of the tenant.
	TenantLabel = "weir.dev/tenant"

	replicas = 2
	// patience bounds every wait. On an idle machine a wait takes about a second.
	patience = 90 * time.Second
	poll     = 20 * time.Millisecond
	// redisTimeout is the longest allowed: a short stall of the machine must not count as an outage of Redis.
	redisTimeout = "750ms"
)

// World is a cluster whose API is throttled.
type World struct {
	Kube  *kubetest.KubePair
	Redis *fixture.RedisProcess
	// Admin is a client of group system:masters for the first API server.
	Admin client.Client

	weir, operatorProgram, dir string
	operator                   *fixture.WeirProcess
	metrics                    string // address of the metrics of the operator
	limiters                   []*limiter
}

// Start builds weir and starts a World without policies. It reports long steps to progress.
func Start(ctx context.Context, progress io.Writer) (*World, error) {
	w := &World{}
	if err := w.start(ctx, progress); err != nil {
		return nil, errors.Join(fmt.Errorf("start a throttled Kubernetes API: %w", err), w.Stop())
	}
	return w, nil
}

func (w *World) start(ctx context.Context, progress io.Writer) error {
	root, err := fixture.ModuleRoot()
	if err != nil {
		return err
	}
	if w.dir, err = os.MkdirTemp("", "weir-throttled-"); err != nil {
		return err
	}
	if w.weir, err = fixture.BuildWeir(ctx, w.dir); err != nil {
		return err
	}
	if w.operatorProgram, err = fixture.BuildOperator(ctx, w.dir); err != nil {
		return err
	}
	if w.Redis, err = fixture.StartRedis(ctx); err != nil {
		return err
	}
	crds := kubetest.KubeOptions{CRDs: []string{filepath.Join(root, "config", "crd", "bases")}, Progress: progress}
	if w.Kube, err = kubetest.StartKubePair(ctx, crds); err != nil {
		return err
	}
	if w.Admin, err = newClient(w.Kube.ConfigOf(0)); err != nil {
		return err
	}
	if err := w.Kube.ApplyLimiter(ctx, operatorNamespace, limiterName, w.Redis.Addr()); err != nil {
		return err
	}
	if err := w.allowEverything(ctx); err != nil {
		return err
	}
	// With the Role by which API servers know that a Limiter is deployed.
	if _, err := w.Kube.Kubectl(ctx, "apply", "-f", filepath.Join(root, "config", "rbac", "throttle_role.yaml")); err != nil {
		return err
	}
	if err := w.startOperator(ctx); err != nil {
		return err
	}
	return w.EditLimiter(ctx, func(l *v1alpha1.LimiterSpec) {
		l.KubernetesThrottle = &v1alpha1.KubernetesThrottle{}
		l.Redis.Timeout = redisTimeout
		l.Identity.Tenant.NamespaceLabel = TenantLabel
	})
}

func newClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS = -1 // disables client-side throttling
	return client.New(config, client.Options{Scheme: scheme})
}

// startOperator runs the operator as its service account, which is in no exempt admin group.
func (w *World) startOperator(ctx context.Context) error {
	config := w.Kube.ConfigOf(0)
	config.Impersonate = ServiceAccount(operatorNamespace, "weir-operator")
	kubeconfig, err := w.Kube.WriteKubeconfig("operator", config)
	if err != nil {
		return err
	}
	health, err := fixture.FreeAddr(ctx)
	if err != nil {
		return err
	}
	webhook, err := fixture.FreeAddr(ctx)
	if err != nil {
		return err
	}
	if w.metrics, err = fixture.FreeAddr(ctx); err != nil {
		return err
	}
	w.operator, err = fixture.StartWeir(w.operatorProgram, "--kubeconfig", kubeconfig, "--namespace", operatorNamespace,
		"--health-probe-bind-address", health, "--metrics-bind-address", w.metrics,
		// The operator manages the certificates of limiters only together with those of the policy webhook, which is not called here.
		"--webhook-certificates", "Managed", "--webhook-bind-address", webhook)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return fixture.WaitHTTP(ctx, "http://"+health+"/readyz", http.StatusOK)
}

// allowEverything binds all authenticated users to cluster-admin, so that only limits reject writes. Other tests cover RBAC.
func (w *World) allowEverything(ctx context.Context) error {
	binding := &rbacv1.ClusterRoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: authenticated}},
	}
	binding.Name = "everything"
	if err := w.Admin.Create(ctx, binding); err != nil {
		return fmt.Errorf("bind all users to cluster-admin: %w", err)
	}
	return nil
}

// Stop stops all processes and removes their files.
func (w *World) Stop() error {
	errs := []error{w.stopLimiters()}
	if w.operator != nil {
		errs = append(errs, w.operator.Stop())
	}
	if w.Kube != nil {
		errs = append(errs, w.Kube.Stop())
	}
	if w.Redis != nil {
		errs = append(errs, w.Redis.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(w.dir))...)
}

// LogLength returns the length of the operator's log.
func (w *World) LogLength() int { return len(w.operator.Log()) }

// Logs returns the logs of the running limiters, and the operator's log from offset since.
func (w *World) Logs(since int) string {
	logs := []string{"operator:\n" + w.operator.Log()[since:]}
	for _, l := range w.limiters {
		logs = append(logs, "limiter "+l.address+":\n"+l.process.Log())
	}
	return strings.Join(logs, "\n")
}

// waitFor waits until done returns nil. When it gives up, its error contains the last error of done.
func waitFor(ctx context.Context, what string, done func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := fixture.Poll(ctx, poll, done); err != nil {
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	return nil
}

func read[T client.Object](ctx context.Context, w *World, namespace, name string, into T) (T, error) {
	return into, w.Admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
}

func (w *World) deployment(ctx context.Context) (*appsv1.Deployment, error) {
	return read(ctx, w, operatorNamespace, serviceName, &appsv1.Deployment{})
}
