package throttle

import (
	"strconv"
	"unicode/utf8"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
)

const (
	maxWarnings = 3
	// preferredWarning is the length that Kubernetes recommends for a warning, in characters. API servers may truncate at maxWarning.
	preferredWarning, maxWarning = 120, 256
)

// warnings describe the limits that an allowed write has nearly used up, the strictest first.
func (s *Settings) warnings(a *engine.Answer) []string {
	var list []string
	for i := range a.Results {
		r := &a.Results[i]
		if r.Rule.Shadow || len(list) == maxWarnings { // policies in shadow mode limit no writes, and come last
			break
		}
		if used, limit, ok := usage(r); ok && s.warnPercent > 0 && used*100 >= s.warnPercent*limit {
			list = append(list, warning(r, used, limit))
		}
	}
	return list
}

// usage returns how many units of the limit are spent. It is unknown for a queue, which admits one unit at a time, and while the store
// is unavailable, because a replica then knows only its own share.
func usage(r *engine.Result) (used, limit int64, ok bool) {
	if r.Rule.Algorithm.Traits().Queues || r.Source == engine.SourceLocal {
		return 0, 0, false
	}
	limit = r.Decision.Limit
	if burst := burstOf(r); burst > 0 {
		limit = burst
	}
	return limit - r.Remaining, limit, true
}

// burstOf returns the burst that applied to r, or 0 for the default of the algorithm.
func burstOf(r *engine.Result) int64 {
	if r.Tier == "" {
		return r.Rule.Burst
	}
	for i := range r.Rule.Tiers {
		if r.Rule.Tiers[i].Name == r.Tier {
			return r.Rule.Tiers[i].Burst
		}
	}
	return 0
}

// warning returns the text of one warning. It omits the identifier if there is no room for it.
func warning(r *engine.Result, used, units int64) string {
	limit := strconv.FormatInt(units, 10) + " per " + reply.ShortDuration(r.Window)
	if burstOf(r) > 0 {
		limit = "a burst of " + strconv.FormatInt(units, 10)
	}
	const least = len("Tenant acme-shop") // a shorter cut would not identify anything
	text := "rate limit of policy " + clip(r.Rule.Policy, maxWarning/2) + ": " + strconv.FormatInt(used, 10) + " of " + limit + " used"
	if room := preferredWarning - utf8.RuneCountInString(text) - len(" by "); room >= least {
		text += " by " + clip(countedFor(r, maxName), room)
	}
	return text
}
