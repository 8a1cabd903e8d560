package throttle

import (
	"strconv"
	"unicode/utf8"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
)

const (
	maxWarnings = 3
	// likedWarning is what the API likes a warning to keep within, in characters, and maxWarning where API servers may cut.
	preferredWarning, maxWarning = 120, 256
)

// warnings tell of the limits that an allowed write has brought near, strictest first.
func (t *Settings) warnings(a *engine.Answer) []string {
	var list []string
	for i := range a.Results {
		r := &a.Results[i]
		if r.Rule.Shadow || len(list) == maxWarnings { // shadow binds nobody, and comes last
			break
		}
		if used, of, known := usage(r); known && t.warnPercent > 0 && used*100 >= t.warnPercent*of {
			list = append(list, warning(r, used, of))
		}
	}
	return list
}

// usage is how many units of how many are spent. It is not known of a LeakyBucket, which admits one at a time, and not while
// the store is away: then a replica knows its own share.
func usage(r *engine.Result) (used, of int64, known bool) {
	if r.Rule.Algorithm == limiter.LeakyBucket || r.Source == engine.SourceLocal {
		return 0, 0, false
	}
	of = r.Decision.Limit
	if burst := burstOf(r); burst > 0 {
		of = burst
	}
	return of - r.Remaining, of, true
}

// burstOf is the burst that r was held to, 0 for the algorithm's own.
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

// warning says whose limit is near, if there is room for that.
func warning(r *engine.Result, used, of int64) string {
	limit := strconv.FormatInt(of, 10) + " per " + shortDuration(r.Window)
	if burstOf(r) > 0 {
		limit = "a burst of " + strconv.FormatInt(of, 10)
	}
	const least = len("Tenant acme-shop") // less than that says nothing
	text := strconv.FormatInt(used, 10) + " of " + limit + " used, policy " + clip(r.Rule.Policy, maxWarning/2)
	if room := preferredWarning - utf8.RuneCountInString(text) - len(" ()"); room >= least {
		text += " (" + clip(countedFor(r, maxName), room) + ")"
	}
	return text
}
