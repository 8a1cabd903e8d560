package matching

import (
	"slices"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/tables"
)

// findKubernetes finds the rules for a write to the Kubernetes API.
func (s *search) findKubernetes(x *Index) {
	write := s.request.Kubernetes
	s.namespace = x.namespaces.Get(write.Namespace)
	if within := x.tables.Namespaces.Get(write.Namespace); within != nil && write.Namespace != "" {
		s.findByResource(within)
	}
	if x.tables.AllNamespaces != nil {
		s.findByResource(x.tables.AllNamespaces)
	}
}

func (s *search) findByResource(x *tables.Resources[*Compiled]) {
	for c := range x.For(s.request.Kubernetes) {
		s.appendWriteIfMatched(c)
	}
}

// appendWriteIfMatched appends the rule if the conditions that are not in the index match too. The most expensive condition comes last.
func (s *search) appendWriteIfMatched(c *Compiled) {
	r := s.request.Kubernetes
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
	m := Matched{Rule: c, certainty: certaintyOf(uncertain), descriptor: noDescriptor, namespace: s.namespace}
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
