// Package publish writes the rule set of a Limiter to its Redis and to a ConfigMap, and reads from Redis which replicas enforce
// it.
package publish

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/limiter/rules"
)

// Publisher publishes the rule sets of one Limiter in Redis. It serves one call at a time.
type Publisher struct {
	// Open opens the Redis of a Limiter. It does not connect.
	Open func(*v1alpha1.Limiter) (Store, error)
	// Resync is how often Redis is inspected while it is available.
	Resync time.Duration
	// Clock returns the current time.
	Clock func() time.Time
	// Sequence orders the rule sets, here and in the snapshot.
	Sequence *Sequence

	// redis is what store was opened for, or should have been: store is nil until Open succeeds.
	redis *v1alpha1.Redis
	store Store

	latest    *selection.RuleSet // last published, or to be published
	revisions map[string]string  // of its rules
	index     ruleIndex

	outage   outageTracker
	serving  []ServingReplica // the last ones known
	decided  map[string]*DecidedRules
	replicas replicaCount
	check    redisCheck
	// wantsWhole is true if a replica reads no shards. hasFormat is true once the heartbeats were read.
	wantsWhole, hasFormat bool
	rejections            rejections
	rewrites              *rate.Limiter // nil before the first write
}

// redisCheck is the last inspection of Redis.
type redisCheck struct {
	at    time.Time
	redis Redis
}

// Publish makes the rule set active in the Redis of the Limiter, loads the scripts, and returns which replicas enforce which
// rules. An error of Redis is logged once for each outage, and returned as the Outage of the Delivery.
func (p *Publisher) Publish(ctx context.Context, limiter *v1alpha1.Limiter, set *selection.RuleSet) Delivery {
	if p.latest != set {
		if p.latest == nil {
			p.revisions = set.RuleRevisions()
		} else {
			p.revisions = set.RuleRevisionsAfter(p.latest, p.revisions)
		}
		p.latest = set
		p.index.add(set.Revision, p.revisions)
	}
	delivery, err := p.deliver(ctx, limiter, set)
	if err != nil {
		if !p.outage.ongoing() {
			log.FromContext(ctx).Error(err, "Redis cannot be used, retrying until it can")
		}
		p.outage.record(storeErrorOf(err), p.Clock())
		p.replicas.markUnavailable()
		return Delivery{Replicas: p.serving, AtLeast: p.atLeast(limiter), Redis: p.check.redis, Outage: p.outage.outage(), WantsWhole: p.wantsWhole}
	}
	if p.outage.ongoing() {
		log.FromContext(ctx).Info("Redis can be used again", "revision", set.Revision)
	}
	p.outage = outageTracker{}
	p.serving, p.decided = delivery.Replicas, delivery.Decided
	delivery.Silent = p.replicas.update(p.Clock(), int32(len(delivery.Replicas)), limiter.Status.ReadyReplicas)
	delivery.AtLeast = p.atLeast(limiter)
	return delivery
}

// atLeast is the least number of replicas that serve. Without a Deployment, the status of the Limiter counts no ready pods.
func (p *Publisher) atLeast(limiter *v1alpha1.Limiter) int32 {
	return max(p.replicas.count, limiter.Status.ReadyReplicas)
}

func (p *Publisher) deliver(ctx context.Context, limiter *v1alpha1.Limiter, set *selection.RuleSet) (Delivery, error) {
	if err := p.connect(ctx, limiter); err != nil {
		return Delivery{}, err
	}
	if err := p.inspect(ctx); err != nil {
		return Delivery{}, err
	}
	scripts, err := p.store.LoadScripts(ctx)
	if err != nil {
		return Delivery{}, err
	}
	active, sequence, err := p.store.Active(ctx)
	if err != nil {
		return Delivery{}, err
	}
	p.Sequence.Found(active, sequence)
	if err := p.write(ctx, set); err != nil {
		return Delivery{}, err
	}
	replicas, err := p.store.Replicas(ctx)
	if err != nil {
		return Delivery{}, err
	}
	p.wantsWhole = readNoShards(replicas)
	delivery := Delivery{Redis: p.check.redis, Scripts: scripts, WantsWhole: p.wantsWhole}
	p.rejections = p.rejections.of(replicas)
	read := map[string]map[string]string{} // rules of rule sets that are not in memory
	for _, replica := range replicas {
		delivery.Starting = delivery.Starting || replica.Revision == ""
		if replica.Rejected != "" && delivery.Rejected == "" {
			delivery.Rejected = "replica " + replica.ID + " rejects the rules: " + replica.Rejected
		}
		if replica.Revision == "" {
			continue // it has no rules yet: it is not ready and gets no requests
		}
		revisions, err := p.rulesOfReplica(ctx, replica, read)
		if err != nil {
			return Delivery{}, err
		}
		delivery.Replicas = append(delivery.Replicas, ServingReplica{replica.Revision, revisions})
		delivery.Local.Add(replica)
		delivery.Crowded = withCrowded(delivery.Crowded, replica)
		delivery.Decided = withDecided(delivery.Decided, p.decided, replica, revisions)
		delivery.NotReporting = delivery.NotReporting || replica.Decided == nil
	}
	return delivery, nil
}

// write makes the rule set active, unless a replica does not read its format: then the caller encodes it again.
func (p *Publisher) write(ctx context.Context, set *selection.RuleSet) error {
	if err := p.findFormat(ctx); err != nil {
		return err
	}
	if !set.Whole && p.wantsWhole {
		return nil
	}
	if p.rewrites == nil {
		p.rewrites = newRewriteLimiter()
	}
	stamped, sequence := p.Sequence.Stamp(set)
	rewrites := p.rejections.areDue(p.Clock()) && p.rewrites.TokensAt(p.Clock()) >= 1
	changed, err := p.store.Publish(ctx, stamped, rewrites)
	if err == nil && rewrites { // a write that fails is repeated without a wait
		p.rejections.rewritten(p.Clock())
		p.rewrites.AllowN(p.Clock(), 1)
	}
	if err == nil && changed {
		log.FromContext(ctx).Info("published the rule set", "revision", set.Revision, "sequence", sequence, "policies", len(set.Rules))
	}
	return err
}

// enforcedTimeout bounds IsEnforced.
const enforcedTimeout = 100 * time.Millisecond

// IsEnforced reports whether all replicas enforce the rule set now. It is false if that cannot be read immediately.
func (p *Publisher) IsEnforced(ctx context.Context, set *selection.RuleSet) bool {
	if p.store == nil || p.outage.ongoing() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, enforcedTimeout)
	defer cancel()
	replicas, err := p.store.Replicas(ctx)
	return err == nil && len(replicas) > 0 && !slices.ContainsFunc(replicas, func(r Replica) bool { return r.Revision != set.Revision })
}

// findFormat reads, before the first rule set is published, whether a replica reads no shards: it must not find some.
func (p *Publisher) findFormat(ctx context.Context) error {
	if p.hasFormat {
		return nil
	}
	replicas, err := p.store.Replicas(ctx)
	if err != nil {
		return err
	}
	p.wantsWhole, p.hasFormat = readNoShards(replicas), true
	return nil
}

// readNoShards reports whether a replica, of an older version, reads no rule sets in shards.
func readNoShards(replicas []Replica) bool {
	return slices.ContainsFunc(replicas, func(r Replica) bool { return r.Format < rules.FormatSharded })
}

// inspect inspects Redis once every resync: the settings that decide about eviction can change while Redis runs.
func (p *Publisher) inspect(ctx context.Context) error {
	now := p.Clock()
	if !p.outage.ongoing() && !p.check.at.IsZero() && now.Sub(p.check.at) < p.Resync {
		return nil
	}
	redis, err := p.store.Inspect(ctx)
	if err != nil {
		return err
	}
	p.check = redisCheck{now, redis}
	return nil
}

// maxRead is the number of rule sets that are read for one delivery. Replicas enforce two or three while an edit arrives. A process with the
// credentials of limiters can send heartbeats with any revisions, and to read a rule set can take a tenth of a second.
const maxRead = 4

// rulesOfReplica returns the revision of each policy's rule that a replica enforces. It adds a rule set that is not in memory to read, and returns no
// rules if that has maxRead other ones: a later delivery reads it.
func (p *Publisher) rulesOfReplica(ctx context.Context, replica Replica, read map[string]map[string]string) (map[string]string, error) {
	if revisions, isKnown := p.index.get(replica.Revision); isKnown {
		return revisions, nil
	}
	if revisions, isRead := read[replica.Revision]; isRead || len(read) == maxRead {
		return revisions, nil
	}
	revisions, err := p.rulesOf(ctx, replica.Revision)
	read[replica.Revision] = revisions
	return revisions, err
}

// rulesOf returns the revision of each policy's rule in a rule set, from memory or from Redis. It returns no rules for a set
// that is missing, damaged or of another version of the operator.
func (p *Publisher) rulesOf(ctx context.Context, revision string) (map[string]string, error) {
	if revisions, ok := p.index.get(revision); ok {
		return revisions, nil
	}
	data, found, err := p.store.Archive(ctx, revision)
	if err != nil || !found {
		return nil, err
	}
	set, err := rules.DecodeAs(data, revision)
	if err != nil {
		log.FromContext(ctx).Info("a replica enforces a rule set that this operator cannot decode", "revision", revision, "error", err.Error())
	}
	revisions := make(map[string]string, len(set.Rules))
	for i := range set.Rules {
		revisions[set.Rules[i].Policy] = set.Rules[i].Revision()
	}
	p.index.add(revision, revisions)
	return revisions, nil
}

// Load returns a published rule set from the Redis of the Limiter; nil if Redis does not have it.
func (p *Publisher) Load(ctx context.Context, limiter *v1alpha1.Limiter, revision string) ([]byte, error) {
	if err := p.connect(ctx, limiter); err != nil {
		return nil, err
	}
	data, _, err := p.store.Archive(ctx, revision)
	return data, err
}

// Clear deletes the rule sets and heartbeats from the Redis of the Limiter.
func (p *Publisher) Clear(ctx context.Context, limiter *v1alpha1.Limiter) error {
	if err := p.connect(ctx, limiter); err != nil {
		return err
	}
	return p.store.Clear(ctx)
}

// connect opens the Redis that the Limiter names, unless it is open. It leaves the one that the Limiter named before.
func (p *Publisher) connect(ctx context.Context, limiter *v1alpha1.Limiter) error {
	if p.redis == nil || !equality.Semantic.DeepEqual(*p.redis, limiter.Spec.Redis) {
		p.leave(ctx)
		p.Close()
		p.redis = limiter.Spec.Redis.DeepCopy()
	}
	if p.store != nil {
		return nil
	}
	store, err := p.Open(limiter)
	if err != nil {
		return fmt.Errorf("spec.redis: %w", err)
	}
	p.store = store
	return nil
}

// leaveTimeout bounds the attempt to leave a Redis, which may be unavailable: publishing in the next one waits for it.
const leaveTimeout = time.Second

// leave lets the rules in the open Redis expire, as far as possible. Pods that still use it are replaced.
func (p *Publisher) leave(ctx context.Context) {
	if p.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := p.store.Leave(ctx); err != nil {
		log.FromContext(ctx).Info("the rules stay in the previous Redis of the Limiter: cannot let them expire", "error", err.Error())
	}
}

// Close closes the connections, and resets the state that depends on the Redis.
func (p *Publisher) Close() {
	if p.store != nil {
		_ = p.store.Close() // the connections are abandoned in any case
	}
	p.redis, p.store, p.outage, p.replicas, p.check = nil, nil, outageTracker{}, replicaCount{}, redisCheck{}
	p.serving, p.decided, p.wantsWhole, p.hasFormat, p.rejections = nil, nil, false, false, nil
}
