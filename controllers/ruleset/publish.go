package ruleset

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/limiter/rules"
)

// delivery is how far the compiled rule set has come.
type delivery struct {
	// replicas that serve, each with the rules it enforces by policy: the revision of the rule. While Redis cannot be
	// reached these are the last ones known.
	replicas []map[string]string
	// local are those of them that decide without Redis; none while Redis cannot be reached, for then nobody tells.
	local localMode
	// unreachable is why Redis cannot be reached, empty if it can. It does not change during an outage.
	unreachable string
	// away is since when Redis cannot be reached.
	away time.Time
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
	for _, rules := range d.replicas {
		if rules[policy] == revision {
			n++
		}
	}
	return n
}

// outage remembers since when, and why, Redis is away.
type outage struct {
	first    string // error of the outage that is on, empty if there is none
	began    time.Time
	replicas []map[string]string // the last ones known
}

// publish puts scripts and rule set in place on Redis, and asks who enforces what.
func (r *Reconciler) publish(ctx context.Context) delivery {
	done, err := r.deliver(ctx)
	if err != nil {
		if r.outage.first == "" {
			log.FromContext(ctx).Error(err, "Redis cannot be used; trying again until it can")
			r.outage.first, r.outage.began = err.Error(), r.Clock()
		}
		return delivery{replicas: r.outage.replicas, unreachable: r.outage.first, away: r.outage.began}
	}
	if r.outage.first != "" {
		log.FromContext(ctx).Info("Redis can be used again", "revision", r.compiled.revision)
	}
	r.outage = outage{replicas: done.replicas}
	return done
}

func (r *Reconciler) deliver(ctx context.Context) (delivery, error) {
	if err := r.Store.LoadScripts(ctx); err != nil {
		return delivery{}, err
	}
	changed, err := r.Store.Publish(ctx, r.compiled.revision, r.compiled.data)
	if err != nil {
		return delivery{}, err
	}
	if changed {
		log.FromContext(ctx).Info("published", "revision", r.compiled.revision, "policies", len(r.compiled.rules))
	}
	replicas, err := r.Store.Replicas(ctx)
	if err != nil {
		return delivery{}, err
	}
	var serving delivery
	for _, replica := range replicas {
		if replica.Revision == "" {
			continue // it is not ready, and gets no requests, until it has rules
		}
		rules, err := r.rulesOf(ctx, replica.Revision)
		if err != nil {
			return delivery{}, err
		}
		serving.replicas = append(serving.replicas, rules)
		serving.local.add(replica)
	}
	return serving, nil
}

// rulesOf returns the rules of a rule set, from memory or from Redis. A set that is gone, or that is another build's, or
// not what its name says, is taken to hold none of ours.
func (r *Reconciler) rulesOf(ctx context.Context, revision string) (map[string]string, error) {
	if rules, ok := r.known.recall(revision); ok {
		return rules, nil
	}
	data, found, err := r.Store.Load(ctx, revision)
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
	r.known.learn(revision, held)
	return held, nil
}
