package registration

import (
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/limiter/rules"
)

// limiterState is the result of evaluating one Limiter. The reason is empty if the Limiter does not throttle.
type limiterState struct {
	limiter         *v1alpha1.Limiter
	reason, message string
	throttling      ThrottlingLimiter
	selected        stored.Policies // that limit writes
	// hasWebhook means that API servers already call the Limiter.
	hasWebhook bool
	// unreachable means that no pod is ready. The webhook remains for unreadyGracePeriod.
	unreachable bool
}

// wantsWebhook reports whether the Limiter should be registered.
func (s *limiterState) wantsWebhook() bool { return s.reason == v1alpha1.ReasonRegistered }

func throttlingLimiters(states []limiterState) []ThrottlingLimiter {
	var all []ThrottlingLimiter
	for i := range states {
		if states[i].wantsWebhook() {
			all = append(all, states[i].throttling)
		}
	}
	return all
}

// unreadyGracePeriod is how long a Limiter without a ready pod stays registered. A rollout or a failed node takes less time. Meanwhile a
// call fails immediately if connections are refused. If packets are lost, each write waits for timeoutSeconds.
const unreadyGracePeriod = 10 * time.Second

// unreadySince maps registered Limiters without a ready pod to the time since when no pod is ready.
type unreadySince map[types.UID]time.Time

// evaluate returns the state of each Limiter, and when to evaluate again.
func (r *Reconciler) evaluate(f inputs, now time.Time) ([]limiterState, time.Duration) {
	states, again, unready := make([]limiterState, len(f.limiters)), resyncInterval, unreadySince{}
	for i := range f.limiters {
		s := limiterState{limiter: &f.limiters[i]}
		wait := r.evaluateLimiter(&s, &f, now, unready)
		again = min(again, wait)
		states[i] = s
	}
	r.unready = unready // forgets Limiters that no longer exist
	maps.DeleteFunc(r.memos, func(uid types.UID, _ *compile.Memo) bool {
		return !slices.ContainsFunc(states, func(s limiterState) bool { return s.limiter.UID == uid && s.throttling.Limiter != nil })
	})
	return states, again
}

// evaluateLimiter sets the state of one Limiter. It checks first what only an edit can change, then what may change without one. It returns
// when to evaluate again.
func (r *Reconciler) evaluateLimiter(s *limiterState, f *inputs, now time.Time, unready unreadySince) time.Duration {
	limiter := s.limiter
	set := func(reason, format string, values ...any) {
		s.reason, s.message = reason, fmt.Sprintf(format, values...)
	}
	if !deployment.Throttles(limiter) || !limiter.DeletionTimestamp.IsZero() {
		return resyncInterval
	}
	if limiter.Namespace != r.Namespace {
		set(v1alpha1.ReasonNotOperatorNamespace,
			"A Limiter with spec.kubernetesThrottle must be in the namespace of the operator, %s, because a webhook applies to the whole cluster", r.Namespace)
		return resyncInterval
	}
	selected, err := f.policies.SelectedBy(&limiter.Spec)
	if err != nil {
		set(v1alpha1.ReasonNoPolicies, "The policies of the Limiter cannot be selected: %v", err)
		return resyncInterval
	}
	if f.terminating {
		set(v1alpha1.ReasonNotReady, "Namespace %s is being deleted, and the pods of the Limiter with it", r.Namespace)
		return resyncInterval
	}
	s.selected = selected
	s.throttling = ThrottlingLimiter{Limiter: limiter, Rules: throttleRules(selected, r.memo(limiter))}
	if s.throttling.writes().empty() {
		set(v1alpha1.ReasonNoPolicies, "No selected policy limits writes that are not exempt")
		return resyncInterval
	}
	webhook := f.webhook(limiter)
	s.hasWebhook = webhook != nil
	bundle, err := bundleFor(f.secret, webhook, limiter, now)
	if err != nil {
		set(v1alpha1.ReasonNoCertificate, "Secret %s: %v", r.secret(), err)
		return retryInterval
	}
	s.throttling.Bundle = bundle
	d := f.deployments[deployment.Name(limiter.Name)]
	if webhook == nil {
		if !servesThrottle(&d) || deployment.ReadyUpdatedReplicas(&d) < 1 {
			set(v1alpha1.ReasonNotReady, "No pod that serves API servers is ready")
			return resyncInterval
		}
	} else if d.Status.ReadyReplicas < 1 {
		since, known := r.unready[limiter.UID]
		if !known {
			since = now
		}
		unready[limiter.UID], s.unreachable = since, true
		if left := since.Add(unreadyGracePeriod).Sub(now); left > 0 {
			s.setRegistered()
			return left
		}
		set(v1alpha1.ReasonNotReady, "No pod has been ready for %v; the webhook is removed until one is", unreadyGracePeriod)
		return resyncInterval
	}
	s.setRegistered()
	return resyncInterval
}

func (s *limiterState) setRegistered() {
	s.reason = v1alpha1.ReasonRegistered
	count, entries := 0, s.throttling.entries()
	for i := range entries {
		count += len(entries[i].rules)
	}
	s.message = fmt.Sprintf("Webhook registered with %d rules from %d policies", count, len(s.throttling.writes().policies))
}

// throttleRules returns the rules of policies that limit writes, until the memo compiles again. It omits policies that do not compile: the status of such a
// policy reports why.
func throttleRules(selected stored.Policies, memo *compile.Memo) []rules.Rule {
	selected.Namespaces = nil // the rules depend neither on them nor on the identity table
	set := selected.CompileAfter(memo, compile.DefaultIdentity(), budget.Budget{}).Set.Rules
	forRequests := func(rule rules.Rule) bool { return rule.Match.Kubernetes == nil }
	if slices.ContainsFunc(set, forRequests) {
		set = slices.DeleteFunc(slices.Clone(set), forRequests)
	}
	return set
}

// memo returns what compiling the policies of the Limiter remembers.
func (r *Reconciler) memo(limiter *v1alpha1.Limiter) *compile.Memo {
	if r.memos[limiter.UID] == nil {
		r.memos[limiter.UID] = new(compile.Memo)
	}
	return r.memos[limiter.UID]
}

// servesThrottle reports whether the pod template serves the throttle endpoint. One that is not updated yet does not.
func servesThrottle(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.ContainerPort == deployment.ThrottlePort })
	})
}
