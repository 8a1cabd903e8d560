package admin

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
)

// outcome returns the outcome of a policy that the request is charged to, and the reason. decides is the policy that decides.
func outcome(p *engine.ExplainedPolicy, decides string) (Outcome, string) {
	d := p.Result
	switch {
	case p.Terms.Unlimited:
		return Unlimited, "tier " + p.Terms.Tier + " has no limit"
	case d == nil:
		return Undecided, "not decided: another policy denies the request first, or the counter is unavailable"
	case d.Allowed:
		return Allows, sentence(p, decides, fmt.Sprintf("%d of %d units used", p.Used, p.Terms.Limit.Capacity()))
	case d.RetryAfter == limiter.Never:
		return Denies, sentence(p, decides, fmt.Sprintf("the cost of %d units is above the limit", p.Terms.Cost))
	default:
		return Denies, sentence(p, decides, fmt.Sprintf("%d of %d units used; retry after %v", p.Used, p.Terms.Limit.Capacity(), RoundUp(d.RetryAfter)))
	}
}

func sentence(p *engine.ExplainedPolicy, decides, text string) string {
	switch {
	case p.Rule.Policy == decides:
		text += "; this policy decides"
	case p.Rule.Shadow:
		text += "; a Shadow policy denies nothing"
	}
	if p.Uncertain {
		text += "; a condition could not be evaluated, so it counts as met"
	}
	if p.Shared {
		text += "; identifiers over the bound share this counter"
	}
	return text
}

func leftOut(rule *rules.Compiled) string {
	scope := "its namespace"
	if rule.Domain == "" {
		scope = "the cluster"
	}
	return fmt.Sprintf("more than %d policies of %s match, and older ones are counted first", rules.MaxPoliciesPerRequest, scope)
}

// RoundUp rounds a duration up, to milliseconds below a second and to seconds above.
func RoundUp(d time.Duration) time.Duration {
	unit := time.Second
	if d < time.Second {
		unit = time.Millisecond
	}
	return (d + unit - 1).Truncate(unit)
}

// identifierSource describes where the identifier of r comes from.
func identifierSource(rule *rules.Rule, r *rules.Request) string {
	id := rule.Identifier
	switch id.From {
	case rules.FromClientIP:
		return "client address"
	case rules.FromHeader:
		return "header " + id.Name
	case rules.FromQuery:
		return "query parameter " + id.Name
	case rules.FromCookie:
		return "cookie " + id.Name
	case rules.FromClaim:
		return "claim " + id.Name
	case rules.FromDescriptor:
		return "descriptor " + id.Name
	case rules.FromExpression:
		return "expression " + id.Name
	case rules.FromEndpoint:
		return "path"
	case rules.FromKubernetesTenant:
		return "tenant of namespace " + r.Kubernetes.Namespace
	case rules.FromKubernetesNamespace:
		return "namespace of the object"
	case rules.FromKubernetesUser:
		return "user"
	case rules.FromServiceAccount:
		return "service account"
	default:
		return string(id.From)
	}
}

// fieldOf returns the field of the policy that the request does not meet.
func fieldOf(e *rules.Explained) string {
	http, kubernetes := "match.http.", "match.kubernetes."
	switch e.Failed {
	case rules.ConditionDomain:
		if e.Rule.Domain != "" {
			return "metadata.namespace"
		}
		return "domains"
	case rules.ConditionKind:
		return "match"
	case rules.ConditionHosts:
		return http + "hosts"
	case rules.ConditionPaths:
		return http + "paths"
	case rules.ConditionMethods:
		return http + "methods"
	case rules.ConditionHeaders:
		return http + "headers[" + strconv.Itoa(e.Header) + "]"
	case rules.ConditionCIDRs:
		return http + "cidrs"
	case rules.ConditionExceptCIDRs:
		return http + "exceptCIDRs"
	case rules.ConditionDescriptors:
		return "match.descriptors"
	case rules.ConditionResources:
		return kubernetes + "resources"
	case rules.ConditionNamespaces:
		return kubernetes + "namespaces"
	case rules.ConditionUsers:
		return kubernetes + "users"
	case rules.ConditionGroups:
		return kubernetes + "groups"
	case rules.ConditionExceptUsers:
		return kubernetes + "exceptUsers"
	case rules.ConditionExceptGroups:
		return kubernetes + "exceptGroups"
	case rules.ConditionNamespaceSelector:
		return kubernetes + "namespaceSelector"
	case rules.ConditionIdentifier:
		return "identifier"
	case rules.ConditionExpression:
		if e.Rule.Match.Kubernetes != nil {
			return kubernetes + "expression"
		}
		return http + "expression"
	default:
		return ""
	}
}

// shown bounds the length of a list or a value of a reason.
const (
	maxShownItems = 5
	maxShownBytes = 100
)

func quote(text string) string {
	if len(text) > maxShownBytes {
		text = strings.ToValidUTF8(text[:maxShownBytes], "") + "…"
	}
	return strconv.Quote(text)
}

func list(items []string) string {
	if len(items) > maxShownItems {
		items = append(append([]string{}, items[:maxShownItems]...), fmt.Sprintf("%d more", len(items)-maxShownItems))
	}
	return strings.Join(items, ", ")
}
