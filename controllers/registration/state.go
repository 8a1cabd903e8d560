package registration

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/limiter/rules"
)

// limiterState is how a Limiter stands. The reason is empty for one that does not throttle.
type limiterState struct {
	limiter         *v1alpha1.Limiter
	reason, message string
	throttling      ThrottlingLimiter
	// there: API servers ask it already.
	hasWebhook bool
	// changed: its finalizers could not be written, for it has changed meanwhile. The next round will show.
	conflicted bool
}

// asked says whether API servers are to ask the Limiter: none that may go unnoticed begins to be.
func (s *limiterState) wantsWebhook() bool {
	return s.reason == v1alpha1.ReasonRegistered && (s.hasWebhook || !s.conflicted)
}

func throttlingLimiters(states []limiterState) []ThrottlingLimiter {
	var all []ThrottlingLimiter
	for i := range states {
		if states[i].wantsWebhook() {
			all = append(all, states[i].throttling)
		}
	}
	return all
}

// patience is how long a Limiter without a ready pod is asked on. A call that nobody takes fails at once where connections
// are refused, and takes timeoutSeconds where they are lost, for each write; a rollout or a node that fails is shorter.
const unreadyGracePeriod = 10 * time.Second

// absence is since when Limiters that are asked have had no ready pod.
type unreadySince map[types.UID]time.Time

// judge says how each Limiter stands, and when to look again.
func (r *Reconciler) evaluate(f inputs, now time.Time) ([]limiterState, time.Duration) {
	states, again, absent := make([]limiterState, len(f.limiters)), resyncInterval, unreadySince{}
	for i := range f.limiters {
		s := limiterState{limiter: &f.limiters[i]}
		wait := r.evaluateLimiter(&s, &f, now, absent)
		again = min(again, wait)
		states[i] = s
	}
	r.unready = absent // of those that are gone nothing is kept
	return states, again
}

// stand fills s in, from what only an edit can change to what passes, and says when that may be.
func (r *Reconciler) evaluateLimiter(s *limiterState, f *inputs, now time.Time, absent unreadySince) time.Duration {
	limiter := s.limiter
	say := func(reason, format string, values ...any) {
		s.reason, s.message = reason, fmt.Sprintf(format, values...)
	}
	if !deployment.Throttles(limiter) || !limiter.DeletionTimestamp.IsZero() {
		return resyncInterval
	}
	if limiter.Namespace != r.Namespace {
		say(v1alpha1.ReasonNotOperatorNamespace, "spec.kubernetesThrottle is for Limiters in the namespace of the operator, %s: a webhook speaks for the cluster",
			r.Namespace)
		return resyncInterval
	}
	set, err := throttleRules(limiter, f.policies)
	if err != nil {
		say(v1alpha1.ReasonNoPolicies, "no policy can be selected: %v", err)
		return resyncInterval
	}
	s.throttling = ThrottlingLimiter{Limiter: limiter, Rules: set}
	if newWebhookRules(set, deployment.ExemptionsOf(limiter)).empty() {
		say(v1alpha1.ReasonNoPolicies, "no policy that it selects limits writes outside of the exempt namespaces")
		return resyncInterval
	}
	webhook := f.webhook(limiter)
	s.hasWebhook = webhook != nil
	trust, err := bundleFor(f.secret, webhook, limiter, now)
	if err != nil {
		say(v1alpha1.ReasonNoCertificate, "Secret %s: %v", r.secret(), err)
		return retryInterval
	}
	s.throttling.Bundle = trust
	d := f.deployments[deployment.Name(limiter.Name)]
	if webhook == nil {
		if !servesThrottle(&d) || deployment.ReadyUpdatedReplicas(&d) < 1 {
			say(v1alpha1.ReasonNotReady, "no pod that answers API servers is ready")
			return resyncInterval
		}
	} else if d.Status.ReadyReplicas < 1 {
		since, known := r.unready[limiter.UID]
		if !known {
			since = now
		}
		absent[limiter.UID] = since
		if left := since.Add(unreadyGracePeriod).Sub(now); left > 0 {
			s.setRegistered()
			return left
		}
		say(v1alpha1.ReasonNotReady, "no pod has been ready for %v: API servers do not ask any more", unreadyGracePeriod)
		return resyncInterval
	}
	s.setRegistered()
	return resyncInterval
}

func (s *limiterState) setRegistered() {
	s.reason = v1alpha1.ReasonRegistered
	asked := newWebhookRules(s.throttling.Rules, deployment.ExemptionsOf(s.limiter))
	s.message = fmt.Sprintf("API servers ask by %d rules of %d policies", len(asked.list()), asked.policies)
}

// rulesFor are those about writes of the policies that the Limiter selects, but for those that do not compile, which they
// are told themselves.
func throttleRules(limiter *v1alpha1.Limiter, policies compile.Policies) ([]rules.Rule, error) {
	selected, err := policies.SelectedBy(&limiter.Spec)
	if err != nil {
		return nil, err
	}
	var set []rules.Rule
	for _, rule := range selected.Compile(compile.DefaultIdentity()).Set.Rules { // where identifiers stand is no matter here
		if rule.Match.Kubernetes != nil {
			set = append(set, rule)
		}
	}
	return set, nil
}

// answers says whether the pods of the template do: those of one that is yet to be brought up to date do not.
func servesThrottle(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.ContainerPort == deployment.ThrottlePort })
	})
}
