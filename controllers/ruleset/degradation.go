package ruleset

import (
	"fmt"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// degradation is why, and since when, replicas decide without Redis, or may. The zero value is none.
type degradation struct {
	reason, message string
}

// degradation does not change while nothing else does.
func (d delivery) degradation() degradation {
	switch {
	case d.unreachable != "":
		const message = "the operator has not reached Redis%s: limiters that cannot reach it either decide by onStoreFailure"
		return degradation{v1alpha1.ReasonStoreUnreachable, fmt.Sprintf(message, since(d.away))}
	case d.local.replicas > 0:
		verb := "decide"
		if d.local.replicas == 1 {
			verb = "decides"
		}
		const message = "%d of %d replicas %s without Redis%s"
		return degradation{v1alpha1.ReasonLocalMode, fmt.Sprintf(message, d.local.replicas, d.alive(), verb, since(d.local.since))}
	default:
		return degradation{}
	}
}

// since reads " since 2026-11-21T10:00:00Z"; it is empty for a time that is not known.
func since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " since " + t.UTC().Format(time.RFC3339)
}
