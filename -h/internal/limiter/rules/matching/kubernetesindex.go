package matching

import (
	"iter"
	"slices"
	"strings"

	"github.com/weir-dev/weir/go/internal/limiter/rules"
)

// kubernetesIndex maps writes to the Kubernetes API to rules, by the namespace of the object and then by resource and operation. Each
// step is a map lookup.
type kubernetesIndex struct {
	namespaces        map[string]*resourceIndex
	everywhere        *resourceIndex // the rules for all namespaces and for cluster-scoped objects; nil if there are no such rules
	clusterNamespaces map[string]*rules.Namespace
}

// resourceIndex maps resources and operations to rules. A write is looked up once for each pattern of wildcards that some rule has.
// Usually there is one pattern.
type resourceIndex struct {
	rules    map[resourceKey][]int
	patterns []openParts
}

// resourceKey is a resource and an operation. The subresource is empty for the resource itself. "*" is the wildcard.
type resourceKey struct{ group, resource, subresource, operation string }

// openParts states which parts of a resourceKey are wildcards.
type openParts struct{ group, resource, subresource bool }

// wildcard matches every value of a part of a resource. As in the rules of a webhook configuration, a wildcard subresource includes the
// resource itself.
const wildcard = "*"

func newKubernetesIndex(namespaces []rules.Namespace) kubernetesIndex {
	x := kubernetesIndex{namespaces: map[string]*resourceIndex{}, clusterNamespaces: make(map[string]*rules.Namespace, len(namespaces))}
	for i := range namespaces {
		x.clusterNamespaces[namespaces[i].Name] = &namespaces[i]
	}
	return x
}

// add adds rule i. A rule for all domains with a list of namespaces is added to those namespaces only. A rule without a domain never
// matches.
func (x *kubernetesIndex) add(i int, rule *rules.Rule) {
	match := rule.Match.Kubernetes
	switch {
	case rule.AllDomains && len(match.Namespaces) == 0:
		if x.everywhere == nil {
			x.everywhere = newResourceIndex()
		}
		x.everywhere.add(i, match)
	case rule.AllDomains:
		x.addToNamespaces(match.Namespaces, i, match)
	case rule.Domain != "":
		x.addToNamespaces([]string{rule.Domain}, i, match)
	default:
		x.addToNamespaces(rule.Domains, i, match)
	}
}

func (x *kubernetesIndex) addToNamespaces(namespaces []string, i int, match *rules.KubernetesMatch) {
	for _, namespace := range namespaces {
		if x.namespaces[namespace] == nil {
			x.namespaces[namespace] = newResourceIndex()
		}
		x.namespaces[namespace].add(i, match)
	}
}

func newResourceIndex() *resourceIndex { return &resourceIndex{rules: map[resourceKey][]int{}} }

func (x *resourceIndex) add(i int, match *rules.KubernetesMatch) {
	for key := range resourceKeys(match) {
		if listed := x.rules[key]; len(listed) == 0 || listed[len(listed)-1] != i { // rules are added in order
			x.rules[key] = append(listed, i)
		}
		if pattern := key.openParts(); !slices.Contains(x.patterns, pattern) {
			x.patterns = append(x.patterns, pattern)
		}
	}
}

// resourceKeys yields the keys of the match in a resourceIndex.
func resourceKeys(m *rules.KubernetesMatch) iter.Seq[resourceKey] {
	return func(yield func(resourceKey) bool) {
		for _, resources := range m.Resources {
			for _, group := range resources.APIGroups {
				for _, name := range resources.Resources {
					resource, subresource, _ := strings.Cut(name, "/")
					group, resource := canonicalResource(group, resource)
					for _, operation := range resources.Operations {
						if !yield(resourceKey{group, resource, subresource, operation}) {
							return
						}
					}
				}
			}
		}
	}
}

// Events are the one resource that API servers serve in two groups and store once. A rule for either group must match writes through
// both. Otherwise a user who is limited in one group could write through the other: an API server converts a request to the other
// group only if no webhook rule names that group.
const (
	eventsGroup = "events.k8s.io" // has only Events
	events      = "events"
)

// canonicalResource returns the same group and resource for Events of both groups, and any other resource unchanged.
func canonicalResource(group, resource string) (asGroup, asResource string) {
	if group == eventsGroup && (resource == events || resource == wildcard) {
		return "", events
	}
	return group, resource
}

func (k *resourceKey) openParts() openParts {
	return openParts{k.group == wildcard, k.resource == wildcard, k.subresource == wildcard}
}

// keyOf returns the key of a write among the rules with these wildcards.
func (w openParts) keyOf(r *rules.KubernetesRequest) resourceKey {
	group, resource := canonicalResource(r.Group, r.Resource)
	key := resourceKey{group, resource, r.Subresource, r.Operation}
	if w.group {
		key.group = wildcard
	}
	if w.resource {
		key.resource = wildcard
	}
	if w.subresource {
		key.subresource = wildcard
	}
	return key
}

// findKubernetes finds the rules for a write to the Kubernetes API.
func (s *search) findKubernetes(x *kubernetesIndex) {
	write := s.request.Kubernetes
	s.namespace = x.clusterNamespaces[write.Namespace]
	if within := x.namespaces[write.Namespace]; within != nil && write.Namespace != "" {
		s.findByResource(within)
	}
	if x.everywhere != nil {
		s.findByResource(x.everywhere)
	}
}

func (s *search) findByResource(x *resourceIndex) {
	for _, pattern := range x.patterns {
		for _, i := range x.rules[pattern.keyOf(s.request.Kubernetes)] {
			s.appendWriteIfMatched(i)
		}
	}
}

// appendWriteIfMatched appends rule i if the conditions that are not in the index match too. The most expensive condition comes last.
func (s *search) appendWriteIfMatched(i int) {
	c, r := &s.index.rules[i], s.request.Kubernetes
	if failed := firstFailed(c.Match.Kubernetes, r, s.namespace); failed != NoCondition {
		s.failed = failedCondition{condition: failed}
		return
	}
	if !c.Identifier.From.AppliesTo(r) {
		s.failed = failedCondition{condition: ConditionIdentifier}
		return
	}
	uncertain := false
	if c.condition != nil {
		selected, certain := c.condition.Selects(s.activation(), &c.Rule)
		if certain && !selected {
			s.failed = failedCondition{condition: ConditionExpression}
			return
		}
		uncertain = !certain
	}
	m := Matched{Rule: c, order: orderOf(i, certaintyOf(uncertain)), descriptor: noDescriptor, namespace: s.namespace}
	if c.sharesBudget {
		m.on = s.activation() // shared by all rules, so that the object is decoded once
	}
	if m.isSkipped(s.request) {
		s.failed = failedCondition{condition: ConditionIdentifier}
		return
	}
	s.defaults = s.defaults || c.Default
	s.found = append(s.found, m)
}

// firstFailed returns the first condition on the user and the namespace that the write does not meet, or NoCondition.
func firstFailed(m *rules.KubernetesMatch, r *rules.KubernetesRequest, namespace *rules.Namespace) Condition {
	switch {
	case len(m.Namespaces) > 0 && !slices.Contains(m.Namespaces, r.Namespace):
		return ConditionNamespaces
	case len(m.Users) > 0 && !slices.Contains(m.Users, r.User):
		return ConditionUsers
	case len(m.Groups) > 0 && !r.InGroup(m.Groups):
		return ConditionGroups
	case slices.Contains(m.ExceptUsers, r.User):
		return ConditionExceptUsers
	case r.InGroup(m.ExceptGroups):
		return ConditionExceptGroups
	case !m.NamespaceSelector.Selects(namespace):
		return ConditionNamespaceSelector
	default:
		return NoCondition
	}
}

// tenant returns the tenant of the namespace of the write. It is the name of the namespace unless the Set has another tenant for it.
func (m Matched) tenant(r *rules.KubernetesRequest) string {
	if m.namespace != nil && m.namespace.Tenant != "" {
		return m.namespace.Tenant
	}
	return r.Namespace
}
