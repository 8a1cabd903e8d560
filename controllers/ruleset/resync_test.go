package ruleset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/limiter/rules"
)

func TestResyncInterval_GrowsWhileReplicasOrRedisAreWaitedFor(t *testing.T) {
	const resync = 5 * time.Second
	ms := func(n ...int) (waits []time.Duration) {
		for _, n := range n {
			waits = append(waits, time.Duration(n)*time.Millisecond)
		}
		return waits
	}
	type round struct {
		revision    string
		unavailable string
		delivery    publish.Delivery
	}
	all := publish.Delivery{Replicas: []publish.ServingReplica{{Rules: map[string]string{"shop/daily": "sha256:a"}}}}
	some := publish.Delivery{Replicas: []publish.ServingReplica{{Rules: map[string]string{"shop/daily": "sha256:before"}}}}
	tests := map[string]struct {
		rounds []round
		want   []time.Duration
	}{
		"every replica enforces the rules": {[]round{{"a", "", all}, {"a", "", all}}, ms(5000, 5000)},
		"a replica lacks the edit for a while": {
			[]round{{"a", "", some}, {"a", "", some}, {"a", "", some}, {"a", "", some}, {"a", "", some}, {"a", "", some}, {"a", "", some}, {"a", "", all}},
			ms(100, 200, 400, 800, 1600, 2000, 2000, 5000),
		},
		"another edit starts with a short wait": {[]round{{"a", "", some}, {"a", "", some}, {"b", "", some}}, ms(100, 200, 100)},
		"Redis stays unavailable":               {[]round{{"a", "x", some}, {"a", "x", some}, {"a", "x", some}, {"a", "x", some}, {"a", "x", some}}, ms(1000, 2000, 4000, 5000, 5000)},
		"Redis recovers":                        {[]round{{"a", "x", some}, {"a", "x", some}, {"a", "", some}, {"a", "", all}}, ms(1000, 2000, 100, 5000)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var r resyncInterval
			var got []time.Duration
			for _, l := range test.rounds {
				l.delivery.Outage.Message = l.unavailable
				set := &selection.RuleSet{Encoded: rules.Encoded{Revision: l.revision}, Rules: map[string]selection.Rule{"shop/daily": {Revision: "sha256:a"}}}
				got = append(got, r.next(set, l.delivery, resync))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
}
