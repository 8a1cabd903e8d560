package registration

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldOwner owns what the controller applies: the configuration, and its condition of Limiters.
const fieldOwner = client.FieldOwner("weir-registration")

const (
	// resync is how often all is looked at when nothing happens: the Secret is not watched.
	resyncInterval = 30 * time.Second
	// retry is how soon it is looked again for a certificate that is not there, and for what somebody else has just written.
	retryInterval = 2 * time.Second
)

// Config is what a Reconciler works on and with.
type Config struct {
	// Client reads Limiters, policies, namespaces, Deployments and the configuration, from a cache, and writes.
	Client client.Client
	// Uncached reads the Secret.
	Uncached client.Reader
	// Namespace is the operator's own: the Limiters in it may throttle.
	Namespace string
	// SecretName is that of the Secret with the certificate, in the Namespace.
	SecretName string
	// Events tells people what a condition does not keep.
	Events events.EventRecorder
	// Clock tells the time.
	Clock func() time.Time
}

// Reconciler keeps the configuration. It remembers since when Limiters have no pod that answers, and serves one call at a
// time.
type Reconciler struct {
	Config
	unready unreadySince
}

// New returns a Reconciler.
func New(config Config) *Reconciler { return &Reconciler{Config: config, unready: unreadySince{}} }

// Reconcile has API servers ask those Limiters that can answer, and no others, and tells each Limiter.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	found, err := r.gather(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	now := r.Clock()
	states, again := r.evaluate(found, now)
	held := r.addFinalizers(ctx, states)
	wanted := Render(throttlingLimiters(states))
	failed := r.withdraw(ctx, found, wanted)
	released := r.removeFinalizers(ctx, states, failed, now)
	if failed == nil {
		failed = r.register(ctx, found, wanted)
	}
	if apierrors.IsConflict(failed) { // the cache has yet to show what the configuration has become
		return ctrl.Result{RequeueAfter: retryInterval}, errors.Join(held, released)
	}
	if slices.ContainsFunc(states, func(s limiterState) bool { return s.conflicted }) {
		again = min(again, retryInterval)
	}
	reported := r.report(ctx, states, failed, now)
	return ctrl.Result{RequeueAfter: again}, errors.Join(held, failed, released, reported)
}

func (r *Reconciler) secret() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.SecretName}
}
