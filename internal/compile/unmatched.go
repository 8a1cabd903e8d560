package compile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/limiter/rules"
)

// Unmatched is a valid policy that limits no request. Its rule is in the Set: the reason may end without an edit of the policy.
type Unmatched struct {
	Policy  string
	Cluster bool
	// Reason of the condition Ready: policyapi.ReasonNoRoutes, ReasonNoNamespaces or ReasonNoMatch.
	Reason  string
	Message string
}

// unmatchedOf returns why the rules of a policy limit no request, apart from the namespaces of the cluster; the zero value if some may.
func unmatchedOf(c *Compiled, attachment *Attachment) (u Unmatched) {
	rule := &c.Rules[0] // all match the same requests
	redundancy.NoMatch(rule, func(field, why string) {
		if u.Reason == "" {
			u = Unmatched{c.Policy, rule.Domain == "", policyapi.ReasonNoMatch, field + ": " + why}
		}
	})
	if u.Reason != "" {
		return u
	}
	if why := attachment.idle(); why != "" {
		return Unmatched{c.Policy, rule.Domain == "", policyapi.ReasonNoRoutes, why}
	}
	return Unmatched{}
}

// unmatched finds those of the special policies that limit no request. Without namespaces, it assumes that all of them exist.
func (in *Inputs) unmatched(policies []*compiled) (all []Unmatched) {
	var byName map[string]*Namespace
	for _, c := range policies {
		if c.unmatched.Reason != "" {
			all = append(all, c.unmatched)
			continue
		}
		if len(in.Namespaces) == 0 || c.Rules[0].Match.Kubernetes == nil {
			continue
		}
		if known := &c.namespaced; known.version == 0 || known.version != in.NamespacesVersion {
			if byName == nil {
				byName = in.namespacesByName()
			}
			known.version, known.matches = in.NamespacesVersion, matchesNamespace(&c.Rules[0], in.Namespaces, byName)
		}
		if !c.namespaced.matches {
			const why = "spec.match.kubernetes: no namespace of the cluster has a name and labels that namespaces and namespaceSelector select, " +
				"and to which the policy applies; label a namespace, or correct the selection"
			all = append(all, Unmatched{c.Policy, c.Rules[0].Domain == "", policyapi.ReasonNoNamespaces, why})
		}
	}
	return all
}

func (in *Inputs) namespacesByName() map[string]*Namespace {
	byName := make(map[string]*Namespace, len(in.Namespaces))
	for i := range in.Namespaces {
		byName[in.Namespaces[i].Name] = &in.Namespaces[i]
	}
	return byName
}

// idle returns why gateways route no request to any target that accepts the policy; empty if they may.
func (a *Attachment) idle() string {
	if a == nil {
		return ""
	}
	var reasons []string
	for i, t := range a.Targets {
		switch {
		case t.Reason != policyapi.ReasonAccepted:
		case !t.Idle:
			return ""
		default:
			reasons = append(reasons, fmt.Sprintf("spec.targetRefs[%d]: %s", i, t.Message))
		}
	}
	return strings.Join(reasons, "; ")
}

// matchesNamespace reports whether a namespace can have writes that match the rule. Writes of cluster-scoped objects match only rules that select no
// namespaces.
func matchesNamespace(rule *rules.Rule, namespaces []Namespace, byName map[string]*Namespace) bool {
	k := rule.Match.Kubernetes
	if k == nil || len(k.Namespaces) == 0 && len(k.NamespaceSelector) == 0 {
		return true
	}
	selects := func(n *Namespace) bool {
		return n != nil && rule.AppliesTo(n.Name) && (len(k.Namespaces) == 0 || slices.Contains(k.Namespaces, n.Name)) &&
			k.NamespaceSelector.Selects(&rules.Namespace{Name: n.Name, Labels: n.Labels})
	}
	switch {
	case rule.Domain != "":
		return selects(byName[rule.Domain])
	case len(k.Namespaces) > 0:
		return slices.ContainsFunc(k.Namespaces, func(name string) bool { return selects(byName[name]) })
	default:
		for i := range namespaces {
			if selects(&namespaces[i]) {
				return true
			}
		}
		return false
	}
}
