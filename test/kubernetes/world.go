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
)

const (
	// system is the operator's namespace.
	operatorNamespace = "weir-system"
	// TenantLabel of a namespace names its tenant.
	TenantLabel = "weir.dev/tenant"

	replicas = 2
	// patience bounds every wait for what takes a second or so on an idle machine.
	patience = 90 * time.Second
	poll     = 20 * time.Millisecond
	// redisTimeout is the longest there is: a machine that stands still for a moment is not to be taken for a Redis that is away.
	redisTimeout = "750ms"
)

// World is a cluster whose API is throttled.
type World struct {
	Kube  *fixture.KubeTwo
	Redis *fixture.RedisProcess
	// Admin is of system:masters, by the first API server.
	Admin client.Client

	weir, dir string
	operator  *fixture.WeirProcess
	limiters  []*limiter
}

// Start builds weir and starts a World without any policy. Whatever takes long is told on progress.
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
	if w.Redis, err = fixture.StartRedis(ctx); err != nil {
		return err
	}
	crds := fixture.KubeOptions{CRDs: []string{filepath.Join(root, "config", "crd", "bases")}, Progress: progress}
	if w.Kube, err = fixture.StartKubeTwo(ctx, crds); err != nil {
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
	config.QPS = -1 // tests measure how fast a server is
	return client.New(config, client.Options{Scheme: scheme})
}

// startOperator runs it as what it is in a cluster, a service account of its namespace, which is exempt by no group of admins.
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
	w.operator, err = fixture.StartWeir(w.weir, "operator", "--kubeconfig", kubeconfig, "--namespace", operatorNamespace,
		"--health-probe-bind-address", health, "--metrics-bind-address", "0",
		// The certificates of limiters are kept beside those of the webhook that judges policies, which nobody asks here.
		"--webhook-certificates", "Managed", "--webhook-bind-address", webhook)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return fixture.WaitHTTP(ctx, "http://"+health+"/readyz", http.StatusOK)
}

// allowEverything gives everybody all rights: here only limits stop anybody. Whom roles allow what is the matter of other tests.
func (w *World) allowEverything(ctx context.Context) error {
	binding := &rbacv1.ClusterRoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: authenticated}},
	}
	binding.Name = "everything"
	if err := w.Admin.Create(ctx, binding); err != nil {
		return fmt.Errorf("allow everybody everything: %w", err)
	}
	return nil
}

// Stop ends all processes, and removes their files.
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

// Written is how much the operator has logged so far.
func (w *World) LogLength() int { return len(w.operator.Log()) }

// Logs are those of the limiters that run, and of the operator since it had written so much.
func (w *World) Logs(since int) string {
	logs := []string{"operator:\n" + w.operator.Log()[since:]}
	for _, l := range w.limiters {
		logs = append(logs, "limiter "+l.address+":\n"+l.process.Log())
	}
	return strings.Join(logs, "\n")
}

// until waits until done says so. The error of giving up tells what it last said.
func waitFor(ctx context.Context, what string, done func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	last := errors.New("not asked yet")
	for {
		err := done(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil { // else it is our own giving up, and says less than what came before
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; last: %w", what, ctx.Err(), last)
		case <-tick.C:
		}
	}
}

func read[T client.Object](ctx context.Context, w *World, namespace, name string, into T) (T, error) {
	return into, w.Admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
}

func (w *World) deployment(ctx context.Context) (*appsv1.Deployment, error) {
	return read(ctx, w, operatorNamespace, serviceName, &appsv1.Deployment{})
}
