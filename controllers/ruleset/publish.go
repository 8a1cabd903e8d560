package ruleset

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/rules"
)

// delivery is how far the compiled rule set has come.
type delivery struct {
	// replicas that serve, by their heartbeats. While Redis cannot be reached these are the last ones known.
	replicas []serving
	// atLeast is how many serve, heard of or not: one that is cut off from Redis alone decides by the rules that it has, and
	// its pod stays ready.
	atLeast int32
	// local are those of them that decide without Redis; none while Redis cannot be reached, for then nobody tells.
	local localMode
	// unreachable is why Redis cannot be reached, empty if it can. It does not change while the same is wrong.
	unreachable string
	// reason of that, of the condition Degraded.
	reason string
	// away is since when Redis cannot be reached.
	away time.Time
	// redis is what the last look showed of it.
	redis Redis
	// scripts that decide, where they are loaded.
	scripts []Script
}

// serving is a replica that serves: the rule set that it enforces, and of that the revision of each policy's rule.
type serving struct {
	revision string
	rules    map[string]string
}

// is says whether nothing has changed for any policy.
func (d delivery) is(other delivery) bool {
	return d.unreachable == other.unreachable && d.reason == other.reason && d.away.Equal(other.away) && d.local == other.local &&
		d.alive() == other.alive() &&
		slices.EqualFunc(d.replicas, other.replicas, func(a, b serving) bool {
			return a.revision == b.revision && len(a.rules) == len(b.rules)
		})
}

// localMode is how many replicas decide without Redis, and since when the first of them does; zero if none knows.
type localMode struct {
	replicas int32
	since    time.Time
}

func (l *localMode) add(r Replica) {
	if r.Mode != ModeLocal {
		return
	}
	l.replicas++
	if l.since.IsZero() || (!r.Since.IsZero() && r.Since.Before(l.since)) {
		l.since = r.Since
	}
}

// acknowledged is how many replicas enforce that revision of the policy's rule.
func (d delivery) acknowledged(policy, revision string) int32 {
	var n int32
	for _, replica := range d.replicas {
		if replica.rules[policy] == revision {
			n++
		}
	}
	return n
}

// alive is how many replicas serve.
func (d delivery) alive() int32 { return max(int32(len(d.replicas)), d.atLeast) }

// programmed says that every replica that serves, of at least one, enforces every rule.
func (d delivery) programmed(c *compiled) bool {
	if d.unreachable != "" || len(d.replicas) == 0 || int(d.alive()) > len(d.replicas) {
		return false
	}
	for _, replica := range d.replicas {
		if replica.revision == c.revision {
			continue
		}
		for policy, rule := range c.rules { // another set may hold the same rules
			if replica.rules[policy] != rule.revision {
				return false
			}
		}
	}
	return true
}

// outage remembers since when, and why, Redis is away.
type outage struct {
	first    StoreError // as it is told of the outage that is on; zero if there is none
	words    words      // of its reason
	doubted  bool       // the last attempt failed in a way that says less
	began    time.Time
	replicas []serving // the last ones known
}

// tell takes note of an attempt that failed. Another reason is told, and so is the same one in new words. One cut connection
// among others that say why, as with a certificate that Redis refuses, is no other trouble.
func (o *outage) tell(is StoreError) {
	before := o.first.Reason
	doubtful := is.Reason == v1alpha1.ReasonStoreUnreachable && before != "" && before != is.Reason && !o.doubted
	o.doubted = doubtful
	if doubtful {
		return
	}
	if before != is.Reason {
		o.words = words{}
	}
	if o.words.areNews(is) {
		o.first = is
	}
}

// publish puts scripts and rule set in place on Redis, and asks who enforces what.
func (e *enforcer) publish(ctx context.Context, limiter *v1alpha1.Limiter) delivery {
	done, err := e.deliver(ctx, limiter)
	if err != nil {
		is := storeErrorOf(err)
		if e.outage.first.Reason == "" {
			log.FromContext(ctx).Error(err, "Redis cannot be used; trying again until it can")
			e.outage.began = e.Clock()
		}
		e.outage.tell(is)
		e.headcount.missed()
		return delivery{
			replicas: e.outage.replicas, atLeast: e.atLeast(limiter), redis: e.look.redis,
			unreachable: e.outage.first.Error(), reason: e.outage.first.Reason, away: e.outage.began,
		}
	}
	if e.outage.first.Reason != "" {
		log.FromContext(ctx).Info("Redis can be used again", "revision", e.compiled.revision)
	}
	e.outage = outage{replicas: done.replicas}
	e.headcount.heard(e.Clock(), int32(len(done.replicas)))
	done.atLeast = e.atLeast(limiter)
	return done
}

// atLeast is how many replicas serve, heard of or not. Where no Deployment runs them, no pod is ready.
func (e *enforcer) atLeast(limiter *v1alpha1.Limiter) int32 {
	return max(e.headcount.count, limiter.Status.ReadyReplicas)
}

func (e *enforcer) deliver(ctx context.Context, limiter *v1alpha1.Limiter) (delivery, error) {
	if err := e.connect(ctx, limiter); err != nil {
		return delivery{}, err
	}
	if err := e.lookAtRedis(ctx); err != nil {
		return delivery{}, err
	}
	scripts, err := e.store.LoadScripts(ctx)
	if err != nil {
		return delivery{}, err
	}
	changed, err := e.store.Publish(ctx, e.compiled.revision, e.compiled.data)
	if err != nil {
		return delivery{}, err
	}
	if changed {
		log.FromContext(ctx).Info("published", "revision", e.compiled.revision, "policies", len(e.compiled.rules))
	}
	replicas, err := e.store.Replicas(ctx)
	if err != nil {
		return delivery{}, err
	}
	done := delivery{redis: e.look.redis, scripts: scripts}
	for _, replica := range replicas {
		if replica.Revision == "" {
			continue // it is not ready, and gets no requests, until it has rules
		}
		rules, err := e.rulesOf(ctx, replica.Revision)
		if err != nil {
			return delivery{}, err
		}
		done.replicas = append(done.replicas, serving{replica.Revision, rules})
		done.local.add(replica)
	}
	return done, nil
}

// look is the last look at Redis itself.
type look struct {
	at    time.Time
	redis Redis
}

// lookAtRedis asks Redis what it is, once a resync: whether it drops counters can be changed while it runs.
func (e *enforcer) lookAtRedis(ctx context.Context) error {
	now := e.Clock()
	if e.outage.first.Reason == "" && !e.look.at.IsZero() && now.Sub(e.look.at) < e.Resync {
		return nil
	}
	redis, err := e.store.Inspect(ctx)
	if err != nil {
		return err
	}
	e.look = look{now, redis}
	return nil
}

// rulesOf returns the rules of a rule set, from memory or from Redis. A set that is gone, or that is another build's, or
// not what its name says, is taken to hold none of ours.
func (e *enforcer) rulesOf(ctx context.Context, revision string) (map[string]string, error) {
	if rules, ok := e.known.recall(revision); ok {
		return rules, nil
	}
	data, found, err := e.store.Load(ctx, revision)
	if err != nil || !found {
		return nil, err
	}
	set, err := rules.DecodeAs(data, revision)
	if err != nil {
		log.FromContext(ctx).Info("a replica enforces a rule set that this operator cannot read", "revision", revision, "error", err.Error())
	}
	held := make(map[string]string, len(set.Rules))
	for i := range set.Rules {
		held[set.Rules[i].Policy] = set.Rules[i].Revision()
	}
	e.known.learn(revision, held)
	return held, nil
}
