package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/controllers/hashkey"
	"github.com/weir-dev/weir/test/fixture"
)

const (
	limiterName = "default"
	serviceName = "weir-limiter-" + limiterName
)

// limiter is a process that replaces a pod.
type limiter struct {
	process *fixture.WeirProcess
	address string // of the throttle endpoint
	check   string // URL of the HTTP check
	ops     string
	admin   string // address of the admin endpoint
	dir     string // of the mounted certificate
}

// EditLimiter changes the Limiter and rolls out its Deployment.
func (w *World) EditLimiter(ctx context.Context, change func(*v1alpha1.LimiterSpec)) error {
	l, err := read(ctx, w, operatorNamespace, limiterName, &v1alpha1.Limiter{})
	if err != nil {
		return err
	}
	is := l.DeepCopy()
	change(&l.Spec)
	if err := w.Admin.Patch(ctx, l, client.MergeFrom(is)); err != nil {
		return err
	}
	err = waitFor(ctx, "the Deployment to have the edited spec", func(ctx context.Context) error {
		now, err := read(ctx, w, operatorNamespace, limiterName, &v1alpha1.Limiter{})
		if err == nil && now.Status.ObservedGeneration < l.Generation {
			err = fmt.Errorf("generation %d is not observed, only %d", l.Generation, now.Status.ObservedGeneration)
		}
		if err != nil {
			return err
		}
		d, err := w.deployment(ctx)
		if err == nil && !slices.ContainsFunc(argumentsOf(d), func(a string) bool { return strings.HasPrefix(a, "--throttle-listen") }) {
			err = errors.New("the pods do not serve the throttle endpoint yet")
		}
		return err
	})
	if err != nil {
		return err
	}
	return w.Roll(ctx)
}

func argumentsOf(d *appsv1.Deployment) []string { return d.Spec.Template.Spec.Containers[0].Args }

// Roll replaces the limiters by new ones of the current Deployment, and marks them as ready.
func (w *World) Roll(ctx context.Context) error {
	d, err := w.deployment(ctx)
	if err != nil {
		return err
	}
	if err := w.stopLimiters(); err != nil {
		return err
	}
	for i := range replicas {
		l, err := w.startLimiter(ctx, d, i)
		if err != nil {
			return err
		}
		w.limiters = append(w.limiters, l)
	}
	for _, l := range w.limiters {
		if err := l.awaitHealthy(ctx); err != nil {
			return err
		}
	}
	if err := w.routeService(ctx); err != nil {
		return err
	}
	return w.MarkReady(ctx)
}

// startLimiter runs the command of the container, with free addresses and with file paths of this machine.
func (w *World) startLimiter(ctx context.Context, d *appsv1.Deployment, i int) (*limiter, error) {
	l := &limiter{dir: filepath.Join(w.dir, fmt.Sprintf("replica-%d", i))}
	if err := w.writeCertificate(ctx, l.dir); err != nil {
		return nil, err
	}
	hashKey, err := w.writeHashKey(ctx, d, l.dir)
	if err != nil {
		return nil, err
	}
	var address [4]string
	for i := range address {
		if address[i], err = fixture.FreeAddr(ctx); err != nil {
			return nil, err
		}
	}
	l.address, l.ops, l.check, l.admin = address[0], "http://"+address[1], "http://"+address[2], address[3]
	args := slices.DeleteFunc(slices.Clone(argumentsOf(d)), func(a string) bool {
		return strings.HasPrefix(a, "--memory=") // contains a variable that the kubelet expands
	})
	l.process, err = fixture.StartWeir(w.weir, append(args, // the last value of a flag counts
		"--replica", fmt.Sprintf("replica-%d", i), "--throttle-listen", l.address, "--ops-listen", address[1], "--listen", address[2],
		"--throttle-cert", l.certificate(), "--throttle-key", l.key(), "--grpc-listen=", "--snapshot=", "--drain=0s",
		"--hash-key", hashKey, "--admin-listen", l.admin)...)
	return l, err
}

// awaitHealthy waits until the process serves: it does not handle SIGTERM before that.
func (l *limiter) awaitHealthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return fixture.WaitHTTP(ctx, l.ops+"/healthz", http.StatusOK)
}

func (l *limiter) certificate() string { return filepath.Join(l.dir, corev1.TLSCertKey) }
func (l *limiter) key() string         { return filepath.Join(l.dir, corev1.TLSPrivateKeyKey) }

// writeCertificate writes the operator's certificate to files, as a volume would.
func (w *World) writeCertificate(ctx context.Context, dir string) error {
	var secret *corev1.Secret
	err := waitFor(ctx, "the certificate of the limiters", func(ctx context.Context) (err error) {
		secret, err = read(ctx, w, operatorNamespace, deployment.ThrottleSecret, &corev1.Secret{})
		return err
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		if err := os.WriteFile(filepath.Join(dir, key), secret.Data[key], 0o600); err != nil {
			return err
		}
	}
	return nil
}

// writeHashKey writes the hash key that the pods mount to a file, and returns its path.
func (w *World) writeHashKey(ctx context.Context, d *appsv1.Deployment, dir string) (path string, err error) {
	volumes := d.Spec.Template.Spec.Volumes
	at := slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Name == "hash-key" })
	if at < 0 {
		return "", errors.New("the pods mount no hash key")
	}
	secret, err := read(ctx, w, operatorNamespace, volumes[at].Secret.SecretName, &corev1.Secret{})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, hashkey.DataKey)
	return path, os.WriteFile(path, secret.Data[hashkey.DataKey], 0o600)
}

// MarkReady sets the status of the Deployment as other controllers would: limiters are ready once they listen.
func (w *World) MarkReady(ctx context.Context) error {
	d, err := w.deployment(ctx)
	if err != nil {
		return err
	}
	is := d.DeepCopy()
	ready := int32(len(w.limiters))
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: ready, AvailableReplicas: ready,
	}
	if equality.Semantic.DeepEqual(is.Status, d.Status) {
		return nil
	}
	return w.Admin.Status().Patch(ctx, d, client.MergeFrom(is))
}

// StopLimiters stops all limiters, as if all their nodes had failed. The status of the Deployment does not change.
func (w *World) StopLimiters(ctx context.Context) error {
	return errors.Join(w.stopLimiters(), w.routeService(ctx))
}

func (w *World) stopLimiters() error {
	var errs []error
	for _, l := range w.limiters {
		errs = append(errs, l.process.Stop())
	}
	w.limiters = nil
	return errors.Join(errs...)
}

// limitersReady waits until all limiters have rules.
func (w *World) limitersReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, l := range w.limiters {
		if err := fixture.WaitHTTP(ctx, l.ops+"/readyz", http.StatusOK); err != nil {
			return err
		}
	}
	return nil
}

// RunNodes marks every pod in the operator's namespace as ready until ctx is done, as nodes would. Use it instead of MarkReady with a
// deployment controller in the cluster.
func (w *World) RunNodes(ctx context.Context) error {
	tick := time.NewTicker(10 * poll)
	defer tick.Stop()
	for {
		var pods corev1.PodList
		err := w.Admin.List(ctx, &pods, client.InNamespace(operatorNamespace))
		for i := range pods.Items {
			err = errors.Join(err, w.markPodReady(ctx, &pods.Items[i]))
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("mark pods as ready: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (w *World) markPodReady(ctx context.Context, p *corev1.Pod) error {
	if p.Status.Phase == corev1.PodRunning {
		return nil
	}
	is := p.DeepCopy()
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	return client.IgnoreNotFound(w.Admin.Status().Patch(ctx, p, client.MergeFrom(is)))
}
