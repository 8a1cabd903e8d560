package ask

import (
	"slices"

	"github.com/weir-dev/weir/limiter/admin"
)

// mergeCounters merges the counters that replicas report. Those in Redis are the same for all replicas. While Redis is unavailable, each
// replica has a share of its own: the limits and the units are added. Counters without used units are left out, unless no units remain.
func mergeCounters[T any](answers []replicaAnswer[T], countersOf func(T) []admin.Counter) []admin.Counter {
	merged := []admin.Counter{}
	indexes := map[string]int{} // index in merged by key
	for _, answer := range answers {
		for _, c := range countersOf(answer.value) {
			i, found := indexes[c.Key]
			if !found {
				indexes[c.Key] = len(merged)
				merged = append(merged, c)
				continue
			}
			switch existing := &merged[i]; {
			case !c.Local: // that of Redis counts all replicas
				*existing = c
			case existing.Local:
				existing.Limit, existing.Used, existing.Remaining = existing.Limit+c.Limit, existing.Used+c.Used, existing.Remaining+c.Remaining
				existing.Over = existing.Over && c.Over
				existing.Tiers = slices.Clone(existing.Tiers) // of the answer
				for j := range min(len(existing.Tiers), len(c.Tiers)) {
					tier, more := &existing.Tiers[j], &c.Tiers[j]
					tier.Limit, tier.Remaining, tier.Over = tier.Limit+more.Limit, tier.Remaining+more.Remaining, tier.Over && more.Over
				}
				existing.ResetAfterMs = max(existing.ResetAfterMs, c.ResetAfterMs)
			}
		}
	}
	return slices.DeleteFunc(merged, func(c admin.Counter) bool { return c.Used == 0 && !c.Over })
}
