// Package deployment runs Limiters: it applies what each needs to run, says in its status how far that is, and cleans up
// in Redis when it goes.
package deployment

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// fieldOwner owns what the controller applies, status included.
const fieldOwner = client.FieldOwner("weir-deployment")

const (
	// resync is how often all is looked at when nothing happens: Secrets and the start values are not watched.
	resync = time.Minute
	// obstacleRetry is how soon it is looked whether an obstacle is gone.
	obstacleRetry = 5 * time.Second
	// statusRetry is how soon a status is written that another write was faster than.
	statusRetry = time.Second
)

// Cleaner takes out of Redis what is there of a Limiter, counters aside, which go by themselves.
type Cleaner interface {
	// Forget removes the rules and heartbeats of the Limiter, if there are any. It may have to find its own way to Redis:
	// the Limiter may have been deleted while no operator ran.
	Forget(ctx context.Context, limiter *v1alpha1.Limiter) error
}

// Config is what a Reconciler works on and with.
type Config struct {
	// Client reads Limiters and what they own, from a cache, and writes both.
	Client client.Client
	// Uncached reads what no cache should hold for all of the cluster: Secrets and ConfigMaps.
	Uncached client.Reader
	// Cleaner cleans up in Redis.
	Cleaner Cleaner
	// Events tells people what a status does not keep.
	Events events.EventRecorder
	// Options of all Limiters.
	Options Options
	// Clock tells the time for conditions and deadlines.
	Clock func() time.Time
}

// Reconciler runs Limiters. It remembers what it has applied, and nothing that is not found out by applying it again; it
// may serve several Limiters at once.
type Reconciler struct {
	Config
	memory memory
}

// New returns a Reconciler.
func New(config Config) *Reconciler { return &Reconciler{Config: config} }

// Reconcile gives the Limiter what it needs to run, or takes its leave of it.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var limiter v1alpha1.Limiter
	if err := r.Client.Get(ctx, request.NamespacedName, &limiter); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !limiter.DeletionTimestamp.IsZero() {
		return r.leave(ctx, &limiter)
	}
	if err := r.addFinalizer(ctx, &limiter); err != nil {
		return ctrl.Result{}, err
	}
	found, err := r.deploy(ctx, &limiter)
	if err != nil {
		return ctrl.Result{}, err
	}
	return r.report(ctx, &limiter, found)
}

// deploy applies all that the Limiter needs. What stands in the way of one object holds up no other one, but a Limiter
// whose Secrets are not there, or that API servers still ask, goes on with the pods that it has. The error is what may be
// gone when it is tried again.
func (r *Reconciler) deploy(ctx context.Context, limiter *v1alpha1.Limiter) (outcome, error) {
	var found outcome
	secrets, err := r.lookAtSecrets(ctx, limiter)
	failed := found.meet(err)
	failed = errors.Join(failed, found.meet(checkTemplate(limiter)))
	failed = errors.Join(failed, found.meet(r.lookAtThrottleSecret(ctx, limiter)))
	failed = errors.Join(failed, found.meet(checkWithdrawn(limiter)))
	hold := failed != nil || len(found.obstacles) > 0
	objects := Render(limiter, secrets, r.Options)
	for _, object := range objects {
		switch o := object.(type) {
		case *appsv1.Deployment:
			if hold {
				found.deployment, err = r.deployed(ctx, limiter)
			} else {
				found.deployment, err = r.applyDeployment(ctx, limiter, o)
				hold = err != nil
			}
		case *networkingv1.NetworkPolicy: // after the Deployment
			err = r.applyNetworkPolicy(ctx, limiter, o, hold || outdated(found.deployment))
		default:
			_, err = r.apply(ctx, limiter, object)
		}
		failed = errors.Join(failed, found.meet(err))
	}
	return found, errors.Join(failed, r.prune(ctx, limiter, objects))
}
