package admin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/credentials"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// mismatch explains the condition that the request does not meet: what the request has, and what the policy matches.
func mismatch(e *matching.Explained, r *rules.Request, isSecret isSecret) string {
	m := &e.Rule.Match
	switch e.Failed {
	case matching.ConditionDomain:
		return domainMismatch(e.Rule, r)
	case matching.ConditionKind:
		return fmt.Sprintf("the request is %s; the policy matches only %s", kindOfRequest(r), kindsOfPolicy(&e.Rule.Rule))
	case matching.ConditionHosts:
		return fmt.Sprintf("host is %s; the policy matches %s", quote(r.Host), list(m.Hosts))
	case matching.ConditionRoutes:
		return routeMismatch(m.Routes, r)
	case matching.ConditionPaths:
		return fmt.Sprintf("path is %s; the policy matches %s", quote(r.Path), list(paths(m.Paths))+ignoringCase(m))
	case matching.ConditionMethods:
		return fmt.Sprintf("method is %s; the policy matches %s", quote(r.Method), list(m.Methods))
	case matching.ConditionHeaders:
		return headerMismatch(m.Headers[e.Header], r, isSecret(rules.FromHeader, m.Headers[e.Header].Name))
	case matching.ConditionCIDRs:
		return fmt.Sprintf("client address %s is not in %s", address(r), list(m.CIDRs))
	case matching.ConditionExceptCIDRs:
		return fmt.Sprintf("client address %s is in exceptCIDRs: %s", address(r), list(m.ExceptCIDRs))
	case matching.ConditionDescriptors:
		return "no descriptor of the request has exactly the entries " + descriptors(m.Descriptors, isSecret)
	case matching.ConditionExpression:
		if (credentials.Names{}).InText(m.Expression) {
			return "the expression, which is not shown because it names credentials, is false for this request"
		}
		return "the expression is false for this request: " + quote(m.Expression)
	case matching.ConditionIdentifier:
		if r.Kubernetes == nil {
			return "the request has no " + e.Rule.DescribeSources() + ", and the policy skips requests without an identifier"
		}
		return "the write has no " + strings.TrimSuffix(identifierSource(e.Rule.Identifier, r), " of namespace ") + " to count by"
	default:
		return writeMismatch(e.Failed, m.Kubernetes, r.Kubernetes)
	}
}

// writeMismatch explains a condition on a write to the Kubernetes API.
func writeMismatch(failed matching.Condition, m *rules.KubernetesMatch, w *rules.KubernetesRequest) string {
	switch failed {
	case matching.ConditionResources:
		return fmt.Sprintf("the write is %s %s; the policy matches %s", w.Operation, resourceOf(w), resources(m.Resources))
	case matching.ConditionNamespaces:
		return fmt.Sprintf("namespace is %s; the policy matches %s", quote(w.Namespace), list(m.Namespaces))
	case matching.ConditionUsers:
		return fmt.Sprintf("user is %s; the policy matches %s", quote(w.User), list(m.Users))
	case matching.ConditionGroups:
		return fmt.Sprintf("user %s is in the groups [%s]; the policy matches %s", quote(w.User), list(w.Groups), list(m.Groups))
	case matching.ConditionExceptUsers:
		return fmt.Sprintf("user %s is in exceptUsers", quote(w.User))
	case matching.ConditionExceptGroups:
		return fmt.Sprintf("user %s is in a group of exceptGroups: %s", quote(w.User), list(m.ExceptGroups))
	case matching.ConditionNamespaceSelector:
		return fmt.Sprintf("the labels of namespace %s do not meet the selector, or the limiter does not know them", quote(w.Namespace))
	default:
		return ""
	}
}

func domainMismatch(rule *matching.Compiled, r *rules.Request) string {
	domains := rule.Domain
	if len(rule.Domains) > 0 {
		domains = list(rule.Domains)
	}
	return fmt.Sprintf("the request is in domain %s; the policy applies to %s", quote(r.Domain), domains)
}

func kindOfRequest(r *rules.Request) string {
	switch {
	case r.Kubernetes != nil:
		return "a write to the Kubernetes API"
	case r.NoHTTP:
		return "a list of descriptors"
	case len(r.Descriptors) > 0:
		return "an HTTP request with descriptors"
	default:
		return "an HTTP request"
	}
}

func kindsOfPolicy(rule *rules.Rule) string {
	var names []string
	for _, kind := range []struct {
		kind rules.RequestKinds
		name string
	}{
		{rules.PlainHTTP, "HTTP requests"},
		{rules.HTTPWithDescriptors, "HTTP requests with descriptors"},
		{rules.OnlyDescriptors, "lists of descriptors"},
		{rules.KubernetesWrites, "writes to the Kubernetes API"},
	} {
		if rule.Kinds()&kind.kind != 0 {
			names = append(names, kind.name)
		}
	}
	return strings.Join(names, " and ")
}

// isSecret reports whether a header or a descriptor entry can contain a secret.
type isSecret func(source rules.IdentifierSource, name string) bool

// secretsOf returns the isSecret for credentials, and for what a policy counts as an API key.
func secretsOf(policies []engine.ExplainedPolicy) isSecret {
	return func(source rules.IdentifierSource, name string) bool {
		if (credentials.Names{}).Name(name) {
			return true
		}
		return slices.ContainsFunc(policies, func(p engine.ExplainedPolicy) bool {
			return slices.ContainsFunc(p.Rule.Sources(), func(id rules.Identifier) bool {
				return id.Secret && (id.From == source && strings.EqualFold(id.Name, name) || id.From == rules.FromExpression)
			})
		})
	}
}

// headerMismatch leaves out the values of a secret header.
func headerMismatch(m rules.HeaderMatch, r *rules.Request, secret bool) string {
	has := "is absent"
	if value, ok := r.Headers[m.Name]; ok {
		has = "is " + quote(value)
		if secret {
			has = "is set"
		}
	}
	want := "any value"
	switch m.Type {
	case rules.HeaderExact:
		want = quote(m.Value)
	case rules.HeaderRegex:
		want = "the regular expression " + quote(m.Value)
	}
	if secret && m.Type != rules.HeaderPresent {
		want = "another value"
		if m.Invert {
			want = "this value"
		}
	}
	switch {
	case m.Invert && m.Type == rules.HeaderPresent:
		return fmt.Sprintf("header %s %s; the policy matches requests without it", m.Name, has)
	case m.Invert:
		return fmt.Sprintf("header %s %s; the policy matches requests without %s", m.Name, has, want)
	}
	return fmt.Sprintf("header %s %s; the policy matches %s", m.Name, has, want)
}

func address(r *rules.Request) string {
	if !r.ClientIP.IsValid() {
		return "(unknown)"
	}
	return r.ClientIP.String()
}

func paths(matches []rules.PathMatch) []string {
	texts := make([]string, len(matches))
	for i, p := range matches {
		texts[i] = string(p.Type) + " " + p.Value
	}
	return texts
}

// ignoringCase describes how the paths are compared.
func ignoringCase(m *rules.Match) string {
	if m.IgnoreCase {
		return ", without regard to case"
	}
	return ""
}

// namedTargets returns the routes that the descriptors of the request name.
func namedTargets(r *rules.Request) (targets []string) {
	for _, d := range r.Descriptors {
		for _, e := range d {
			if e.Key == rules.RouteEntry {
				targets = append(targets, e.Value)
			}
		}
	}
	return targets
}

// routeMismatch explains that the gateway names no route of the policy.
func routeMismatch(routes []rules.Route, r *rules.Request) string {
	named := "no route: the request has no entry with key " + rules.RouteEntry
	if targets := namedTargets(r); len(targets) > 0 {
		named = fmt.Sprintf("the routes %s in entries with key %s", list(targets), rules.RouteEntry)
	}
	return fmt.Sprintf("the gateway names %s; the policy matches %s in domain %s", named, list(targetsIn(routes, r.Domain)), quote(r.Domain))
}

// targetsIn returns the targets of the routes in one domain.
func targetsIn(routes []rules.Route, domain string) (targets []string) {
	for _, route := range routes {
		if route.Namespace == domain {
			targets = append(targets, route.Target)
		}
	}
	return targets
}

// descriptors leaves out the values of secret entries.
func descriptors(match []rules.DescriptorMatch, isSecret isSecret) string {
	texts := make([]string, len(match))
	for i, m := range match {
		texts[i] = m.Key
		if m.Value+m.Pattern != "" && isSecret(rules.FromDescriptor, m.Key) {
			texts[i] += "=…"
			continue
		}
		switch {
		case m.Value != "":
			texts[i] += "=" + m.Value
		case m.Pattern != "":
			texts[i] += " like " + m.Pattern
		}
		if len(m.Except) > 0 && !isSecret(rules.FromDescriptor, m.Key) {
			texts[i] += " except " + list(m.Except)
		}
	}
	return list(texts)
}

func resourceOf(w *rules.KubernetesRequest) string {
	return resourceName(w.Group, joined(w.Resource, w.Subresource))
}

func joined(resource, subresource string) string {
	if subresource == "" {
		return resource
	}
	return resource + "/" + subresource
}

// resourceName returns "pods", or "deployments.apps".
func resourceName(group, resource string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}

func resources(entries []rules.KubernetesResources) string {
	var texts []string
	for _, r := range entries {
		operations := strings.Join(r.Operations, "|")
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				texts = append(texts, operations+" "+resourceName(group, resource))
			}
		}
	}
	return list(texts)
}
