package admin

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/bypass"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// unlimitedReason describes why the policy, or this rate of it, does not limit a request.
func unlimitedReason(p *engine.ExplainedPolicy) string {
	switch {
	case p.Terms.Tier == "":
		return "this rate limits only requests in tiers that have it, and the request is in no tier"
	case p.Rule.Rate != "":
		return "tier " + p.Terms.Tier + " has no limit for this rate"
	default:
		return "tier " + p.Terms.Tier + " has no limit"
	}
}

// outcome returns the outcome of a policy that the request is charged to, and the reason. decides is the policy that decides.
func outcome(p *engine.ExplainedPolicy, decides string) (Outcome, string) {
	d := p.Result
	switch {
	case p.Bypass != nil && p.Bypass.Blocks:
		return Denies, sentence(p, decides, bypassReason(p.Bypass))
	case p.Bypass != nil:
		return Bypassed, bypassReason(p.Bypass)
	case p.Terms.Unlimited:
		return Unlimited, unlimitedReason(p)
	case d == nil:
		return Undecided, "not decided: another policy denies the request first, or the counter is unavailable"
	case d.Allowed:
		return Allows, sentence(p, decides, fmt.Sprintf("%d of %d units used", p.Used, p.Terms.Limit.Capacity()))
	case d.Missing != "":
		return Denies, sentence(p, decides, "the request has no "+d.Missing+", and the policy denies requests without an identifier")
	case p.Terms.Limit.Blocks():
		return Denies, sentence(p, decides, "the limit is 0, so every request is denied")
	case d.RetryAfter == limiter.Never:
		return Denies, sentence(p, decides, fmt.Sprintf("the cost of %d units is above the limit", p.Terms.Cost))
	default:
		return Denies, sentence(p, decides, fmt.Sprintf("%d of %d units used; retry after %v", p.Used, p.Terms.Limit.Capacity(), RoundUp(d.RetryAfter)))
	}
}

func bypassReason(b *bypass.Bypass) string {
	return fmt.Sprintf(b.Kind()+" %s of %s until %s: %s", b.Name, quote(b.CreatedBy), b.ExpiresAt.UTC().Format(time.RFC3339), quote(b.Reason))
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

func leftOut(rule *matching.Compiled) string {
	scope := "its namespace"
	if rule.Domain == "" {
		scope = "the cluster"
	}
	return fmt.Sprintf("more than %d policies of %s match, and older ones are counted first", matching.MaxPoliciesPerRequest, scope)
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
func identifierSource(id rules.Identifier, r *rules.Request) string {
	switch id.From {
	case rules.FromClientIP, rules.FromHeader, rules.FromQuery, rules.FromCookie, rules.FromClaim, rules.FromDescriptor:
		return id.Describe()
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
func fieldOf(e *matching.Explained) string {
	switch {
	case e.Failed == matching.ConditionDomain && e.Rule.Match.Routes != nil && len(e.Rule.Domains) > 0:
		return "targetRefs"
	case e.Failed == matching.ConditionDomain && e.Rule.Domain != "":
		return "metadata.namespace"
	case e.Failed == matching.ConditionHeaders:
		return "match.http.headers[" + strconv.Itoa(e.Header) + "]"
	case e.Failed == matching.ConditionExpression && e.Rule.Match.Kubernetes != nil:
		return "match.kubernetes.expression"
	}
	fields := [...]string{
		matching.ConditionDomain:            "domains",
		matching.ConditionKind:              "match",
		matching.ConditionHosts:             "match.http.hosts",
		matching.ConditionRoutes:            "targetRefs",
		matching.ConditionPaths:             "match.http.paths",
		matching.ConditionMethods:           "match.http.methods",
		matching.ConditionCIDRs:             "match.http.cidrs",
		matching.ConditionExceptCIDRs:       "match.http.exceptCIDRs",
		matching.ConditionExpression:        "match.http.expression",
		matching.ConditionDescriptors:       "match.descriptors",
		matching.ConditionResources:         "match.kubernetes.resources",
		matching.ConditionNamespaces:        "match.kubernetes.namespaces",
		matching.ConditionUsers:             "match.kubernetes.users",
		matching.ConditionGroups:            "match.kubernetes.groups",
		matching.ConditionExceptUsers:       "match.kubernetes.exceptUsers",
		matching.ConditionExceptGroups:      "match.kubernetes.exceptGroups",
		matching.ConditionNamespaceSelector: "match.kubernetes.namespaceSelector",
		matching.ConditionIdentifier:        "identifier",
	}
	return fields[e.Failed]
}

// The bounds of lists and values in reasons.
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
