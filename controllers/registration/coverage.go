package registration

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/controllers/ruleset/report"
	"github.com/weir-dev/weir/internal/stored"
)

// webhooksOf returns for which policies API servers call each Limiter. The error is that of writing the configuration: it is then unknown
// what the registered webhooks cover.
func webhooksOf(states []limiterState, written error) map[types.UID]report.Webhook {
	all := make(map[types.UID]report.Webhook, len(states))
	for i := range states {
		s := &states[i]
		webhook := report.Webhook{Problem: s.message}
		switch {
		case s.reason == "":
			webhook.Problem = "spec.kubernetesThrottle is not set, or disabled"
		case s.wantsWebhook() && written != nil:
			webhook.Problem = "the webhook configuration could not be written: " + written.Error()
		case s.wantsWebhook() && s.unreachable:
			webhook.Problem = "no pod of the Limiter is ready"
		case s.wantsWebhook():
			webhook = report.Webhook{Covers: s.coverage()}
		}
		all[s.limiter.UID] = webhook
	}
	return all
}

// coverage returns whether the webhook covers each selected policy that limits writes.
func (s *limiterState) coverage() map[types.UID]report.Coverage {
	covered := newReaches(s.throttling.Rules, stored.ExemptionsOf(s.limiter)).policies
	all := make(map[types.UID]report.Coverage, len(s.selected.Namespaced)+len(s.selected.Cluster))
	for i := range s.selected.Namespaced {
		p := s.selected.Namespaced[i]
		all[p.UID] = report.Coverage{Generation: p.Generation, Covered: covered[policyKey{stored.Name(p), false}]}
	}
	for i := range s.selected.Cluster {
		p := s.selected.Cluster[i]
		all[p.UID] = report.Coverage{Generation: p.Generation, Covered: covered[policyKey{stored.ClusterName(p), true}]}
	}
	return all
}
