package bound

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weir-dev/weir/go/internal/limiter"
)

const (
	// pressureBegins is the used part of the memory from which on the largest namespaces make no new counters.
	pressureBegins = 0.80
	// pressureFull is the used part from which on only namespaces within the reserve make new counters.
	pressureFull = 0.95
	// reserve is the part of the memory that all namespaces share equally. A namespace within its share always makes new counters.
	reserve = 1 - pressureFull
	// warnBefore is the part of the memory, and of Identifiers.Max, that is left when a policy is first reported.
	warnMemoryBefore, warnMaximumFrom = 0.10, 0.80
	// crowdedFor is how long a policy is reported after the reason has ended, so that reports do not alternate.
	crowdedFor = time.Minute
)

// The approximate bytes of compact counters in Redis, as docs/how-to/run-on-redis.md lists them. [limiter.Traits] have those of the others.
const (
	compactBytes = 15  // in a block
	blockBytes   = 200 // of a block without counters
	blocks       = 1 << 16
)

// storage describes the counters of a population.
type storage struct {
	policy, namespace string // the namespace is empty for cluster policies
	algorithm         limiter.Algorithm
	compact           bool
}

// bytes returns the approximate memory of n counters.
func (s storage) bytes(n float64) float64 {
	switch {
	case s.compact:
		return n*compactBytes + min(n, blocks)*blockBytes
	default:
		return n * float64(s.algorithm.Traits().RedisBytes)
	}
}

// level returns the bytes from which on a party makes no new counters. It falls from the bytes of the largest party at pressureBegins to
// those that are reserved for each at pressureFull. So the largest ones stop first, and the memory cannot become full.
func level(used, largest, reserved float64) float64 {
	part := (pressureFull - used) / (pressureFull - pressureBegins)
	if part > 1 {
		return math.Inf(1)
	}
	return max(largest*part, reserved)
}

// usage is the approximate memory of the counters of each policy, in bytes.
type usage struct {
	byPolicy    map[storage]float64 // the key has only the names
	byNamespace map[string]float64
	total       float64
}

func (u *usage) add(s storage, bytes float64) {
	u.byPolicy[storage{policy: s.policy, namespace: s.namespace}] += bytes
	u.byNamespace[s.namespace] += bytes
	u.total += bytes
}

// policiesOver returns the policies that make no new counters while the part used of room bytes is used: of the namespaces above the level of
// namespaces, the policies above the level of the policies in the namespace.
func (u *usage) policiesOver(used, room float64) map[string]bool {
	exceeding := map[string]bool{}
	if used < pressureBegins || u.total == 0 {
		return exceeding
	}
	largest, policies := map[string]float64{}, map[string]float64{}
	for owner, bytes := range u.byPolicy {
		largest[owner.namespace] = max(largest[owner.namespace], bytes)
		policies[owner.namespace]++
	}
	reserved := reserve * room / float64(len(u.byNamespace))
	most := level(used, slices.Max(slices.Collect(maps.Values(u.byNamespace))), reserved)
	for owner, bytes := range u.byPolicy {
		if n := owner.namespace; u.byNamespace[n] >= most && bytes >= level(used, largest[n], reserved/policies[n]) {
			exceeding[owner.policy] = true
		}
	}
	return exceeding
}

// ObserveMemory decides which policies make no new counters, because Redis is nearly full and their counters take most of it. Call it about
// once a second. Without a limit on the memory, or if a full Redis evicts counters, it compares the estimated counters of this replica with
// the memory instead.
func (p *Counters) ObserveMemory(m limiter.Memory) { p.observe(m, p.clock()) }

// Crowded returns the policies whose new identifiers get no counter of their own, or soon will not: the most severe limiter.MaxCrowded,
// during the last minute. It changes with ObserveMemory.
func (p *Counters) Crowded() map[string]limiter.Crowding {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := slices.SortedFunc(maps.Keys(p.crowded), func(a, b string) int {
		return cmp.Or(p.crowded[b].Severity()-p.crowded[a].Severity(), cmp.Compare(a, b))
	})
	reported := map[string]limiter.Crowding{}
	for _, policy := range names[:min(len(names), limiter.MaxCrowded)] {
		reported[policy] = p.crowded[policy].Crowding
	}
	return reported
}

// crowded is a policy that is reported.
type crowded struct {
	limiter.Crowding

	expiresAt time.Time
}

func (p *Counters) observe(m limiter.Memory, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := usage{byPolicy: map[storage]float64{}, byNamespace: map[string]float64{}}
	for _, one := range p.byKeys {
		u.add(one.storage, one.storage.bytes(one.refresh(now)))
	}
	room := float64(cmp.Or(m.Max, limiter.DefaultMemory))
	used := m.Used
	if !m.Rejects {
		used = max(used, u.total/room)
	}
	exceeding, near := u.policiesOver(used, room), u.policiesOver(used+warnMemoryBefore, room)
	maps.DeleteFunc(p.crowded, func(_ string, c crowded) bool { return !now.Before(c.expiresAt) })
	for _, one := range p.byKeys {
		policy := one.storage.policy
		one.overMemory.Store(exceeding[policy])
		crowding := one.nearMaximum()
		switch {
		case exceeding[policy]:
			crowding = limiter.OverMemory
		case near[policy] && crowding != limiter.OverMaximum:
			crowding = limiter.NearMemory
		}
		if crowding != "" && crowding.Severity() >= p.crowded[policy].Severity() {
			p.crowded[policy] = crowded{crowding, now.Add(crowdedFor)}
		}
	}
}
