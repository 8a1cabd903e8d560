package ruleset

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	v1alpha1ac "github.com/weir-dev/weir/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/conditions"
)

// limiterOwner owns the part of a Limiter's status that is about its rules and its Redis. The rest is another controller's.
const limiterOwner = client.FieldOwner("weir-ruleset")

// toldLimiter is what a Limiter was told last, and the resource version that the cache showed then.
type toldLimiter struct {
	shown string
	state *v1alpha1.LimiterStatus
}

// tell writes our part of the Limiter's status, if that is new.
func (e *enforcer) tell(ctx context.Context, limiter *v1alpha1.Limiter, d delivery, unselectable error) error {
	before := ownState(limiter)
	if e.told.state != nil && e.told.shown == limiter.ResourceVersion { // the cache has yet to show it
		before = *e.told.state
	}
	after := e.stateOf(limiter, d, unselectable, before.Conditions)
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	err := e.Client.Status().Apply(ctx, applyState(limiter, after), limiterOwner, client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status of Limiter %s: %w", e.name, err)
	}
	e.told = toldLimiter{limiter.ResourceVersion, &after}
	return nil
}

// ownState is our part of the status, as it is.
func ownState(limiter *v1alpha1.Limiter) v1alpha1.LimiterStatus {
	status := limiter.Status
	state := v1alpha1.LimiterStatus{Revision: status.Revision, Policies: status.Policies, Redis: status.Redis, Scripts: status.Scripts}
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDegraded); c != nil {
		state.Conditions = []metav1.Condition{*c}
	}
	return state
}

// stateOf is our part of the status, as it is to be. What was known of Redis stays while it is away.
func (e *enforcer) stateOf(limiter *v1alpha1.Limiter, d delivery, unselectable error, before []metav1.Condition) v1alpha1.LimiterStatus {
	state := v1alpha1.LimiterStatus{
		Revision: e.compiled.revision,
		Policies: &v1alpha1.PolicyCount{Accepted: int32(len(e.compiled.rules)), Rejected: int32(len(e.compiled.problems))},
		Redis:    &v1alpha1.RedisState{Reachable: d.unreachable == "", Primaries: int32(d.redis.Primaries), Version: d.redis.Version},
	}
	for _, script := range d.scripts {
		state.Scripts = append(state.Scripts, v1alpha1.LoadedScript{
			ScriptReference: v1alpha1.ScriptReference{Name: script.Name, SHA: script.SHA}, LoadedOn: int32(script.LoadedOn),
		})
	}
	is := d.limiterDegradation(e.compiled.selectorTrouble(unselectable))
	if is.reason == "" {
		return state
	}
	c := condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, is.reason, is.message)
	state.Conditions = conditions.Merge(before, []metav1.Condition{c}, limiter.Generation, e.Clock())
	return state
}

// selectorTrouble says what comes of selectors that cannot be used; nil for ones that can.
func (c *compiled) selectorTrouble(unselectable error) error {
	switch {
	case unselectable == nil:
		return nil
	case len(c.rules) == 0:
		return fmt.Errorf("no policy is selected: %w", unselectable)
	default:
		return fmt.Errorf("the policies selected before stay in force as they were: %w", unselectable)
	}
}

// limiterDegradation is what is wrong with a Limiter, the worst first.
func (d delivery) limiterDegradation(unselectable error) degradation {
	switch {
	case d.unreachable != "":
		return degradation{d.reason, fmt.Sprintf("Redis cannot be used%s: %s", since(d.away), d.unreachable)}
	case unselectable != nil:
		return degradation{v1alpha1.ReasonInvalidSelector, unselectable.Error()}
	case d.local.replicas > 0:
		return d.degradation()
	case len(d.redis.Warnings) > 0:
		return degradation{v1alpha1.ReasonStoreEvicts, strings.Join(d.redis.Warnings, "; ")}
	default:
		return degradation{}
	}
}

func applyState(limiter *v1alpha1.Limiter, s v1alpha1.LimiterStatus) *v1alpha1ac.LimiterApplyConfiguration {
	status := v1alpha1ac.LimiterStatus().
		WithRevision(s.Revision).
		WithPolicies(v1alpha1ac.PolicyCount().WithAccepted(s.Policies.Accepted).WithRejected(s.Policies.Rejected))
	redis := v1alpha1ac.RedisState().WithReachable(s.Redis.Reachable)
	if s.Redis.Primaries != 0 {
		redis.WithPrimaries(s.Redis.Primaries)
	}
	if s.Redis.Version != "" {
		redis.WithVersion(s.Redis.Version)
	}
	status.WithRedis(redis)
	for _, script := range s.Scripts {
		status.WithScripts(v1alpha1ac.LoadedScript().WithName(script.Name).WithSHA(script.SHA).WithLoadedOn(script.LoadedOn))
	}
	status.WithConditions(conditions.Apply(s.Conditions)...)
	return v1alpha1ac.Limiter(limiter.Name, limiter.Namespace).WithUID(limiter.UID).WithStatus(status)
}
