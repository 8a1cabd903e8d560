package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// isKubernetes reports whether only writes to the Kubernetes API have the source.
func (s IdentifierSource) isKubernetes() bool {
	switch s {
	case FromKubernetesTenant, FromKubernetesNamespace, FromKubernetesUser, FromServiceAccount:
		return true
	default:
		return false
	}
}

// validateKubernetes rejects a rule for writes to the Kubernetes API that reads parts of HTTP requests, and the reverse.
func validateKubernetes(c *Compiled) error {
	match := c.Match.Kubernetes
	if match == nil {
		if c.Identifier.From.isKubernetes() || slices.ContainsFunc(c.Tiers, func(t Tier) bool { return len(t.When.NamespaceSelector) > 0 }) {
			return errors.New("identifier and tiers must not use parts of Kubernetes requests without match.kubernetes")
		}
		return nil
	}
	if !c.Identifier.From.isKubernetes() && c.Identifier.From != FromExpression {
		return fmt.Errorf("a write to the Kubernetes API has no %s", c.Identifier.From)
	}
	if c.PerEndpoint || c.Cost != nil && c.Cost.Header != "" || isHTTP(&c.Match) ||
		slices.ContainsFunc(c.Tiers, func(t Tier) bool { return t.When.Header != nil || len(t.When.CIDRs) > 0 }) {
		return errors.New("a write to the Kubernetes API has no endpoint, header, address or descriptor")
	}
	return match.validate()
}

func isHTTP(m *Match) bool {
	return len(m.Hosts)+len(m.Paths)+len(m.Methods)+len(m.Headers)+len(m.CIDRs)+len(m.ExceptCIDRs)+len(m.Descriptors) > 0
}

func (m *KubernetesMatch) validate() error {
	if len(m.Resources) == 0 {
		return errors.New("match.kubernetes must have resources")
	}
	for _, of := range m.Resources {
		if len(of.APIGroups) == 0 || len(of.Resources) == 0 || len(of.Operations) == 0 {
			return errors.New("match.kubernetes.resources must have groups, resources and operations")
		}
		for _, name := range of.Resources {
			if resource, subresource, cut := strings.Cut(name, "/"); resource == "" || cut && subresource == "" {
				return fmt.Errorf("invalid resource %q; must be resource or resource/subresource", name)
			}
		}
	}
	return m.NamespaceSelector.validate()
}
