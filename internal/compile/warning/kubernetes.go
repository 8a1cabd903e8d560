package warning

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/lintrule"
	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/rules"
)

// warnKubernetes warns of expensive or ineffective parts of a policy for writes to the Kubernetes API.
func (w *warnings) warnKubernetes() {
	match := w.rule.Match.Kubernetes
	if match == nil {
		return
	}
	const field = "spec.match.kubernetes"
	if i := slices.IndexFunc(match.Resources, isEverything); i >= 0 {
		w.add(lintrule.AllResources, field+".resources",
			"API servers call Weir for every %s; list the resources to limit", strings.Join(match.Resources[i].Operations, ", "))
	}
	w.warnExempt(field+".resources", match)
	w.warnScale(field+".resources", match)
	w.warnQueue()
}

// warnExempt warns of the first entry that names writes that are never limited.
func (w *warnings) warnExempt(field string, match *rules.KubernetesMatch) {
	for i, resources := range match.Resources {
		path := fmt.Sprintf("%s[%d]", field, i)
		for _, group := range resources.APIGroups {
			for _, name := range resources.Resources {
				if plural, sub, _ := strings.Cut(name, "/"); exempt.Resource(group, plural, sub) {
					w.add(lintrule.NoEffect, path, "has no effect on %q of group %q: writes to it are never limited", name, group)
					return
				}
			}
		}
	}
}

// warnScale warns of the first entry with updates of workloads that a user can avoid: to write the subresource scale changes the replicas.
// As in RBAC and in webhook configurations, neither the name of a resource nor "*" covers subresources.
func (w *warnings) warnScale(field string, match *rules.KubernetesMatch) {
	scalable := map[string][]string{
		"apps": {"deployments", "statefulsets", "replicasets", "*"}, "": {"replicationcontrollers", "*"}, "*": {"deployments", "statefulsets", "replicasets", "*"},
	}
	for i, resources := range match.Resources {
		if !slices.Contains(resources.Operations, "UPDATE") {
			continue
		}
		for _, group := range resources.APIGroups {
			for _, name := range resources.Resources {
				if slices.Contains(scalable[group], name) && !slices.ContainsFunc(match.Resources, func(other rules.KubernetesResources) bool {
					return coversScale(other, group, name)
				}) {
					w.add(lintrule.ScaleNotLimited, fmt.Sprintf("%s[%d]", field, i),
						"%q does not cover the subresource scale, so kubectl scale is not limited; add %q", name, name+"/scale")
					return
				}
			}
		}
	}
}

// coversScale reports whether the entry covers updates of the subresource scale of a resource.
func coversScale(resources rules.KubernetesResources, group, name string) bool {
	isInGroup := slices.Contains(resources.APIGroups, group) || slices.Contains(resources.APIGroups, "*")
	return isInGroup && slices.Contains(resources.Operations, "UPDATE") && slices.ContainsFunc(resources.Resources, func(have string) bool {
		return slices.Contains([]string{name + "/scale", name + "/*", "*/scale", "*/*"}, have)
	})
}

// isEverything reports whether API servers must call the limiter for all resources.
func isEverything(resources rules.KubernetesResources) bool {
	return slices.Contains(resources.APIGroups, "*") && (slices.Contains(resources.Resources, "*") || slices.Contains(resources.Resources, "*/*"))
}

// warnQueue warns of a queue: an API server does not delay a write, so no write waits in the queue.
func (w *warnings) warnQueue() {
	if !w.rule.Algorithm.Traits().Queues {
		return
	}
	const why = "writes never wait in the queue; "
	if w.rule.Burst > 0 {
		w.add(lintrule.WritesNeverWait, "spec.burst", why+"burst only bounds the cost of a write. Use TokenBucket for bursts")
	} else if w.rule.Cost != nil && w.rule.Cost.Expression != "" {
		w.add(lintrule.WritesNeverWait, "spec.cost.expression", "a %s without burst denies every write that costs more than 1 unit", w.rule.Algorithm)
	}
	for i := range w.rule.Tiers {
		if w.rule.Tiers[i].Burst > 0 {
			w.add(lintrule.WritesNeverWait, tierField(i, "burst"), why+"burst only bounds the cost of a write")
		}
	}
}
