// Package deployment runs Limiters. It applies the objects that a Limiter needs to run, and reports progress in the status of the
// Limiter. The garbage collector of Kubernetes deletes the objects of a deleted Limiter.
package deployment

import (
	"context"
	"errors"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ownership"
)

// fieldOwner owns all fields that the controller applies, status included.
const fieldOwner = client.FieldOwner("weir-deployment")

const (
	// resyncInterval is the time between two reconciliations without events. It bounds how late the controller notices changes to
	// Secrets and to the start values, which it does not watch.
	resyncInterval = time.Minute
	// blockedRetry is the time until the controller checks again whether a blocked Limiter can be deployed.
	blockedRetry = 5 * time.Second
	// podsRetry is the time until the controller reads again why pods are not ready: that changes without an event about the Deployment.
	podsRetry = 10 * time.Second
	// statusRetry is the time until the controller writes a status again after a conflict.
	statusRetry = time.Second
)

// Config holds the dependencies of a Reconciler.
type Config struct {
	// Client reads Limiters and the objects they own from a cache, and writes both.
	Client client.Client
	// Uncached reads objects that no cache should keepDeployment for the whole cluster: Secrets and ConfigMaps.
	Uncached client.Reader
	// Events records events about Limiters.
	Events events.EventRecorder
	// Options apply to all Limiters.
	Options Options
	// Clock returns the current time, for conditions and deadlines.
	Clock func() time.Time
}

// Reconciler runs Limiters. It remembers only what it has applied, and recovers that by applying it again. It can reconcile
// several Limiters concurrently.
type Reconciler struct {
	Config
	applied      appliedObjects
	hashKeys     sync.Map // of createdHashKey, by the name of the Limiter
	blockedRetry time.Duration
}

// New returns a Reconciler.
func New(config Config) *Reconciler { return &Reconciler{Config: config, blockedRetry: blockedRetry} }

// Reconcile applies what the Limiter needs to run.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var limiter v1alpha1.Limiter
	err := r.Client.Get(ctx, request.NamespacedName, &limiter)
	if apierrors.IsNotFound(err) {
		r.applied.forgetLimiter(request.NamespacedName)
		r.hashKeys.Delete(request.NamespacedName)
	}
	if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := ownership.RemoveObsoleteFinalizers(ctx, r.Client, &limiter, fieldOwner); err != nil {
		return ctrl.Result{}, err
	}
	if !limiter.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	result, err := r.deploy(ctx, &limiter)
	if err != nil {
		return ctrl.Result{}, err
	}
	if result.waitsForPods() {
		result.podProblems = r.podProblems(ctx, &limiter)
	}
	return r.report(ctx, &limiter, result)
}

// deploy applies all objects of the Limiter. An error with one object does not prevent the others. The Deployment is not
// changed while a Secret is missing, while the template is invalid, or while API servers may still call a webhook that is no
// longer wanted: the existing pods keep running. The returned error is one that a retry may resolve.
func (r *Reconciler) deploy(ctx context.Context, limiter *v1alpha1.Limiter) (outcome, error) {
	var result outcome
	secrets, err := r.readSecretKeys(ctx, limiter)
	failed := result.record(err)
	failed = errors.Join(failed, result.record(r.checkEndpointSecrets(ctx, limiter, &secrets)))
	failed = errors.Join(failed, result.record(r.createHashKey(ctx, limiter)))
	failed = errors.Join(failed, result.record(checkTemplate(limiter)))
	failed = errors.Join(failed, result.record(checkEndpoints(limiter)))
	failed = errors.Join(failed, result.record(r.checkThrottleSecret(ctx, limiter, &secrets)))
	failed = errors.Join(failed, result.record(checkWithdrawal(limiter)))
	result.certificates = secrets.Certificates
	keepDeployment := failed != nil || len(result.blocking) > 0
	objects := Render(limiter, secrets, r.Options)
	for _, object := range objects {
		switch o := object.(type) {
		case *appsv1.Deployment:
			if keepDeployment {
				result.deployment, err = r.readDeployment(ctx, limiter)
			} else {
				result.deployment, err = r.applyDeployment(ctx, limiter, o)
				keepDeployment = err != nil
			}
		case *networkingv1.NetworkPolicy: // rendered after the Deployment
			err = r.applyNetworkPolicy(ctx, limiter, o, keepDeployment || mayHaveOutdatedPods(result.deployment))
		default:
			_, err = r.apply(ctx, limiter, object)
		}
		failed = errors.Join(failed, result.record(err))
	}
	return result, errors.Join(failed, r.prune(ctx, limiter, objects))
}
