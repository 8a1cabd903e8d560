package main

import (
	"github.com/weir-dev/weir/limiter/admin"
)

// mergeCounters merges the counters that replicas report. Those in Redis are the same for all replicas. While Redis is unavailable, each
// replica has a share of its own: the units are added.
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
				is.Used, is.Remaining = is.Used+c.Used, max(0, is.Limit-is.Used-c.Used)
				is.Over = is.Over && c.Over
				is.ResetAfterMs = max(is.ResetAfterMs, c.ResetAfterMs)
			}
		}
	}
	return merged
}
