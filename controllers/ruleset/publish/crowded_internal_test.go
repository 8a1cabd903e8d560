package publish

import (
	"maps"
	"testing"

	"github.com/weir-dev/weir/limiter"
)

// Replicas report rates, and a status is that of the policy.
func TestWithCrowded_HasTheMostSevereReportOfTheRatesOfAPolicy(t *testing.T) {
	replica := Replica{Crowded: map[string]limiter.Crowding{
		"shop/plans:1d": limiter.NearMemory, "shop/plans:1m": limiter.OverMemory, "shop/plans:30d": limiter.NearMaximum, "shop/daily": limiter.NearMaximum,
	}}
	got := withCrowded(nil, replica)
	if want := (map[string]limiter.Crowding{"shop/plans": limiter.OverMemory, "shop/daily": limiter.NearMaximum}); !maps.Equal(got, want) {
		t.Errorf("crowded %v, want %v", got, want)
	}
}
