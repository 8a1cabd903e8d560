package compile

import (
	"slices"
	"strings"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// aboutWrites warns of what is costly or useless in a policy for writes to the Kubernetes API.
func (w *warnings) aboutWrites() {
	match := w.rule.Match.Kubernetes
	if match == nil {
		return
	}
	const field = "spec.match.kubernetes"
	itsOwn := func(namespace string) bool { return speaksIn(w.rule, namespace) }
	if len(match.Namespaces) > 0 && !slices.ContainsFunc(match.Namespaces, itsOwn) {
		w.add(field+".namespaces", "no write matches: its namespace is its domain, and the policy is for others")
	}
	if len(match.Users) > 0 && subset(match.Users, match.ExceptUsers) {
		w.add(field+".exceptUsers", "no write matches: they are all of users")
	}
	if len(match.Groups) > 0 && subset(match.Groups, match.ExceptGroups) {
		w.add(field+".exceptGroups", "no write matches: they are all of groups")
	}
	if i := slices.IndexFunc(match.Resources, isEverything); i >= 0 {
		w.add(field+".resources", "API servers ask before every %s, of leases and events too; name what matters",
			strings.Join(match.Resources[i].Operations, ", "))
	}
	w.aboutQueue()
}

// isEverything says whether API servers have to ask about everything that is written.
func isEverything(of rules.KubernetesResources) bool {
	return slices.Contains(of.APIGroups, "*") && (slices.Contains(of.Resources, "*") || slices.Contains(of.Resources, "*/*"))
}

// aboutQueue warns of queues in which nobody waits: an API server takes an answer, and no turn.
func (w *warnings) aboutQueue() {
	if w.rule.Algorithm != limiter.LeakyBucket {
		return
	}
	const why = "API servers do not wait, so no write ever queues; "
	if w.rule.Burst > 0 {
		w.add("spec.burst", why+"it only bounds what one costs. See TokenBucket")
	} else if w.rule.Cost != nil && w.rule.Cost.Expression != "" {
		w.add("spec.cost.expression", "a LeakyBucket without burst denies every write that costs more than 1")
	}
	for i := range w.rule.Tiers {
		if w.rule.Tiers[i].Burst > 0 {
			w.add(tierField(i, "burst"), why+"it only bounds what one costs")
		}
	}
}
