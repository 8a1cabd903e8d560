package ask

import (
	"slices"

	"github.com/weir-dev/weir/limiter/admin"
)

// mergeCounters merges the counters that replicas report. Those in Redis are the same for all replicas. While Redis is unavailable, each
// replica has a share of its own: the limits and the units are added. Counters without used units are left out, unless no units remain.
func mergeCounters[T any](answers []replicaAnswer[T], of func(T) []admin.Counter) []admin.Counter {
	merged := []admin.Counter{}
	at := map[string]int{} // index in merged by key
	for _, answer := range answers {
		for _, c := range of(answer.value) {
			i, found := at[c.Key]
			if !found {
				at[c.Key] = len(merged)
				merged = append(merged, c)
				continue
			}
			switch is := &merged[i]; {
			case !c.Local: // that of Redis counts all replicas
				*is = c
			case is.Local:
				is.Limit, is.Used, is.Remaining = is.Limit+c.Limit, is.Used+c.Used, is.Remaining+c.Remaining
				is.Over = is.Over && c.Over
				is.Tiers = slices.Clone(is.Tiers) // of the answer
				for j := range min(len(is.Tiers), len(c.Tiers)) {
					tier, more := &is.Tiers[j], &c.Tiers[j]
					tier.Limit, tier.Remaining, tier.Over = tier.Limit+more.Limit, tier.Remaining+more.Remaining, tier.Over && more.Over
				}
				is.ResetAfterMs = max(is.ResetAfterMs, c.ResetAfterMs)
			}
		}
	}
	return slices.DeleteFunc(merged, func(c admin.Counter) bool { return c.Used == 0 && !c.Over })
}
