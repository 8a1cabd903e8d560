package registration

import (
	"slices"

	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/rules"
)

// scope describes the namespaces of the objects that a rule may match.
type scope struct {
	// cluster means that some objects are cluster-scoped.
	cluster bool
	// all means all namespaces. Otherwise, namespaces lists them.
	all        bool
	namespaces []string
}

func (s scope) empty() bool { return !s.cluster && !s.all && len(s.namespaces) == 0 }

// scopeOf returns the scope of a rule without the exempt namespaces.
func scopeOf(rule *rules.Rule, never exempt.Lists) scope {
	match := rule.Match.Kubernetes
	var s scope
	switch {
	case rule.Domain != "":
		s.namespaces = []string{rule.Domain}
	case rule.AllDomains:
		s.all = true
		// A rule that names or selects namespaces, or that counts by namespace, does not match cluster-scoped objects.
		s.cluster = len(match.Namespaces) == 0 && len(match.NamespaceSelector) == 0 &&
			rule.Identifier.From != rules.FromKubernetesTenant && rule.Identifier.From != rules.FromKubernetesNamespace
	default:
		s.namespaces = slices.Clone(rule.Domains)
	}
	if len(match.Namespaces) > 0 {
		s = s.restrictTo(match.Namespaces)
	}
	s.namespaces = slices.DeleteFunc(s.namespaces, func(name string) bool { return name == "" || slices.Contains(never.Namespaces, name) })
	return s
}

func (s scope) restrictTo(names []string) scope {
	if s.all {
		return scope{namespaces: slices.Clone(names)}
	}
	return scope{namespaces: slices.DeleteFunc(s.namespaces, func(name string) bool { return !slices.Contains(names, name) })}
}
