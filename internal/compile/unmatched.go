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

// unmatched finds the policies that limit no request, in the order of their rules. Without namespaces, it assumes that all of them exist.
func unmatched(set rules.Set, attachments []Attachment, namespaces []Namespace) (all []Unmatched) {
	attached := map[previousKey]*Attachment{}
	for i := range attachments {
		a := &attachments[i]
		attached[previousKey{a.Policy, a.Cluster}] = a
	}
	byName := map[string]*Namespace{}
	for i := range namespaces {
		byName[namespaces[i].Name] = &namespaces[i]
	}
	for name, own := range set.Policies() {
		rule := &own[0] // all match the same requests
		u := Unmatched{Policy: name, Cluster: rule.Domain == ""}
		redundancy.NoMatch(rule, func(field, why string) {
			if u.Reason == "" {
				u.Reason, u.Message = policyapi.ReasonNoMatch, field+": "+why
			}
		})
		if u.Reason == "" {
			u.Message = attached[previousKey{u.Policy, u.Cluster}].idle()
			if u.Message != "" {
				u.Reason = policyapi.ReasonNoRoutes
			} else if len(namespaces) > 0 && !matchesNamespace(rule, namespaces, byName) {
				u.Reason = policyapi.ReasonNoNamespaces
				u.Message = "spec.match.kubernetes: no namespace of the cluster has a name and labels that namespaces and namespaceSelector select, " +
					"and to which the policy applies; label a namespace, or correct the selection"
			}
		}
		if u.Reason != "" {
			all = append(all, u)
		}
	}
	return all
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
