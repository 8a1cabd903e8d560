package publish

import (
	"maps"
	"slices"
	"time"

	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// Delivery is the result of a Publish: which replicas enforce which rules, and the state of Redis.
type Delivery struct {
	// Replicas that serve requests, by their heartbeats. While Redis is unavailable these are the last ones known.
	Replicas []ServingReplica
	// AtLeast is the least number of replicas that serve, with or without a heartbeat: a replica that has lost its connection
	// to Redis enforces the rules that it has, and its pod stays ready.
	AtLeast int32
	// Silent are the replicas that serve and have sent heartbeats earlier, but do not now. It is zero while Redis is unavailable.
	Silent Silent
	// Local are the replicas that decide locally. It is zero while Redis is unavailable: the operator then has no heartbeats.
	Local LocalMode
	// Rejected names a replica that rejects the published rule set, and why; empty if all accept it.
	Rejected string
	// Crowded has the most severe report of the replicas for each policy. It is empty while Redis is unavailable.
	Crowded map[string]limiter.Crowding
	// Decided has the rules that have decided a request, by the revision of the rule set that has them. It is empty while Redis is unavailable.
	Decided map[string]*DecidedRules
	// NotReporting is true if a replica, of an older version, does not report which rules have decided a request.
	NotReporting bool
	// Connecting is true until the first attempt to publish has finished: the other fields are unknown.
	Connecting bool
	// Outage of Redis; zero while Redis is available.
	Outage Outage
	// Redis is the result of the last inspection.
	Redis Redis
	// Scripts in Redis.
	Scripts []Script
	// WantsWhole is true if a replica, of an older version, reads no shards. A rule set in shards is not published then.
	WantsWhole bool
	// Starting is true if a replica has no rules yet.
	Starting bool
}

// ServingReplica is a replica that serves requests.
type ServingReplica struct {
	Revision string            // of the rule set that it enforces
	Rules    map[string]string // the revision of each policy's rule in that rule set
}

// DecidedRules are the rules of one rule set that have decided a request, at any replica. They are immutable.
type DecidedRules struct {
	rules    map[string]string // revision of each policy's rule
	policies []string          // of the rules, sorted
	bitmap   []byte            // of the policies, as in [Replica]
}

// with returns d with the rules of a bitmap: d itself if it has them.
func (d *DecidedRules) with(bitmap []byte) *DecidedRules {
	var merged []byte
	for i, b := range bitmap[:min(len(bitmap), len(d.bitmap))] {
		if d.bitmap[i]|b != d.bitmap[i] {
			if merged == nil {
				merged = slices.Clone(d.bitmap)
			}
			merged[i] |= b
		}
	}
	if merged == nil {
		return d
	}
	return &DecidedRules{d.rules, d.policies, merged}
}

// withDecided returns the decided rules of the rule sets that are in use, with those that a replica reports. It changes all. The argument before
// has those that were reported earlier: they do not depend on which replicas run.
func withDecided(all, before map[string]*DecidedRules, r Replica, revisions map[string]string) map[string]*DecidedRules {
	if len(revisions) == 0 {
		return all // the rule set cannot be read
	}
	known := all[r.Revision]
	if known == nil {
		known = before[r.Revision]
	}
	if known == nil {
		known = &DecidedRules{revisions, sortedPolicies(revisions, before), make([]byte, (len(revisions)+7)/8)}
	}
	if all == nil {
		all = map[string]*DecidedRules{}
	}
	all[r.Revision] = known.with(r.Decided)
	return all
}

// sortedPolicies returns the sorted policies of a rule set. Most edits change no names, and sorting takes longer than looking them up.
func sortedPolicies(revisions map[string]string, before map[string]*DecidedRules) []string {
	for _, known := range before {
		isIn := func(policy string) bool { _, found := revisions[policy]; return found }
		if len(known.policies) == len(revisions) && !slices.ContainsFunc(known.policies, func(policy string) bool { return !isIn(policy) }) {
			return known.policies
		}
	}
	return slices.Sorted(maps.Keys(revisions))
}

// HasDecided reports whether a request was decided under this revision of the policy's rule, as far as replicas have reported.
func (d Delivery) HasDecided(policy, revision string) bool {
	for _, set := range d.Decided {
		if set.rules[policy] != revision {
			continue
		}
		if i, found := slices.BinarySearch(set.policies, policy); found && set.bitmap[i/8]>>(i%8)&1 == 1 {
			return true
		}
	}
	return false
}

// LocalMode counts the replicas that decide locally.
type LocalMode struct {
	Replicas int32
	// Since is when the first of them began; zero if none of them reports it.
	Since time.Time
}

// Add counts the replica if it decides locally.
func (l *LocalMode) Add(r Replica) {
	if r.Mode != ModeLocal {
		return
	}
	l.Replicas++
	if l.Since.IsZero() || (!r.Since.IsZero() && r.Since.Before(l.Since)) {
		l.Since = r.Since
	}
}

// withCrowded returns the crowded policies with those that a replica reports. It changes all. Replicas report each rate of a policy.
func withCrowded(all map[string]limiter.Crowding, r Replica) map[string]limiter.Crowding {
	for rule, is := range r.Crowded {
		policy := rules.WithoutRate(rule)
		if is.Severity() > all[policy].Severity() {
			if all == nil {
				all = map[string]limiter.Crowding{}
			}
			all[policy] = is
		}
	}
	return all
}

// Silent counts replicas without a heartbeat. They keep their rules, and decide locally if they cannot reach Redis.
type Silent struct {
	Replicas int32
	// Lasting is true once there have been such replicas for longer than replicas need to connect again.
	Lasting bool
}

// Outage describes why the operator cannot use Redis. It does not change while the cause stays the same.
type Outage struct {
	// Reason is a condition reason.
	Reason string
	// Message is the error; empty while Redis is available.
	Message string
	// Since is when the outage began.
	Since time.Time
}

func (o Outage) equal(other Outage) bool {
	return o.Message == other.Message && o.Reason == other.Reason && o.Since.Equal(other.Since)
}

// HasHeartbeats reports whether the operator receives heartbeats, or no replica serves.
func (d Delivery) HasHeartbeats() bool {
	return !d.Connecting && !d.Unavailable() && (len(d.Replicas) > 0 || d.Serving() == 0)
}

// Unavailable reports whether the operator cannot use Redis.
func (d Delivery) Unavailable() bool { return d.Outage.Message != "" }

// Equal reports whether both deliveries mean the same for every policy of one rule set.
func (d Delivery) Equal(other Delivery) bool {
	return d.Connecting == other.Connecting && d.Outage.equal(other.Outage) && d.Local == other.Local && d.Silent == other.Silent &&
		d.Rejected == other.Rejected && d.Serving() == other.Serving() && maps.Equal(d.Crowded, other.Crowded) &&
		maps.Equal(d.Decided, other.Decided) && d.NotReporting == other.NotReporting &&
		slices.EqualFunc(d.Replicas, other.Replicas, func(a, b ServingReplica) bool {
			return a.Revision == b.Revision && len(a.Rules) == len(b.Rules)
		})
}

// Acknowledged returns the number of replicas that enforce this revision of the policy's rule.
func (d Delivery) Acknowledged(policy, revision string) int32 {
	var n int32
	for _, replica := range d.Replicas {
		if replica.Rules[policy] == revision {
			n++
		}
	}
	return n
}

// Serving returns the number of replicas that serve requests.
func (d Delivery) Serving() int32 { return max(int32(len(d.Replicas)), d.AtLeast) }

// Enforced reports whether at least one replica serves, and every serving replica enforces this revision of the policy's rule.
func (d Delivery) Enforced(policy, revision string) bool {
	return !d.Unavailable() && d.Serving() > 0 && d.Acknowledged(policy, revision) == d.Serving()
}

// Enforcing returns the number of replicas that enforce every rule of the set.
func (d Delivery) Enforcing(set *selection.RuleSet) int32 {
	var n int32
	known := map[string]bool{} // by revision: most replicas have the same, and to compare 10 000 rules takes a millisecond
	for _, replica := range d.Replicas {
		enforces, isKnown := known[replica.Revision]
		if !isKnown {
			enforces = replica.enforces(set)
			known[replica.Revision] = enforces
		}
		if enforces {
			n++
		}
	}
	return n
}

// EnforcedAll reports whether at least one replica serves, and every serving replica enforces every rule of the set.
func (d Delivery) EnforcedAll(set *selection.RuleSet) bool {
	return !d.Unavailable() && len(d.Replicas) > 0 && d.Enforcing(set) == d.Serving()
}

func (r ServingReplica) enforces(set *selection.RuleSet) bool {
	return r.Revision == set.Revision || set.IsIncludedIn(r.Rules) // a rule set of another revision can contain the same rules
}
