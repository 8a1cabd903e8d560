package registration

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/controllers/ruleset/report"
	"github.com/weir-dev/weir/internal/compile"
)

// fieldOwner owns all fields that the controller applies: the configuration, and its condition of Limiters.
const fieldOwner = client.FieldOwner("weir-registration")

const (
	// resyncInterval is the time between two reconciliations without events. The controller does not watch the Secret.
	resyncInterval = 30 * time.Second
	// retryInterval is the time until the next attempt when the certificate is missing, or after a conflict.
	retryInterval = 2 * time.Second
)

// Config holds the dependencies of a Reconciler.
type Config struct {
	// Client reads Limiters, policies, namespaces, Deployments and the configuration from a cache, and writes objects.
	Client client.Client
	// Uncached reads the Secret, the RoleBindings of Limiters, and the ClusterRole that owns the configuration.
	Uncached client.Reader
	// Namespace is the namespace of the operator. Only Limiters in it may throttle.
	Namespace string
	// SecretName is the name of the Secret with the certificate, in Namespace.
	SecretName string
	// SetWebhooks receives for which policies API servers call each Limiter, by its UID.
	SetWebhooks func(map[types.UID]report.Webhook)
	// Events records events about Limiters.
	Events events.EventRecorder
	// Clock returns the current time.
	Clock func() time.Time
}

// Reconciler maintains the ValidatingWebhookConfiguration. It remembers since when registered Limiters have no ready pod, and the policies that it has
// compiled. It must not be called concurrently.
type Reconciler struct {
	Config
	unready unreadySince
	memos   map[types.UID]*compile.Memo // by Limiter
}

// New returns a Reconciler.
func New(config Config) *Reconciler {
	return &Reconciler{Config: config, unready: unreadySince{}, memos: map[types.UID]*compile.Memo{}}
}

// Reconcile registers the Limiters that can answer, removes the webhooks of all others, and reports to each Limiter.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	found, err := r.gather(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	now := r.Clock()
	states, requeueAfter := r.evaluate(found, now)
	unbound := r.bind(ctx, found, states)
	wanted := Render(throttlingLimiters(states))
	wanted.OwnerReferences = found.owners
	failed := r.withdraw(ctx, found, wanted)
	if failed == nil && unbound == nil {
		failed = r.register(ctx, found, wanted)
	}
	if apierrors.IsConflict(failed) { // the cache is older than the configuration
		return ctrl.Result{RequeueAfter: retryInterval}, nil
	}
	failed = errors.Join(failed, unbound)
	r.SetWebhooks(webhooksOf(states, failed))
	reported := r.report(ctx, states, failed, now)
	return ctrl.Result{RequeueAfter: requeueAfter}, errors.Join(failed, reported)
}

func (r *Reconciler) secret() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.SecretName}
}
