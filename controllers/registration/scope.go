package registration

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/limiter/rules"
)

// mostNamespaces bounds how many namespaces a webhook names. Where policies speak of more it is asked about all.
const maxNamespaces = 256

// reach is where the objects are whose writes a rule may match.
type scope struct {
	// cluster: some are in no namespace.
	cluster bool
	// all namespaces, or these.
	all        bool
	namespaces []string
}

func (r scope) empty() bool { return !r.cluster && !r.all && len(r.namespaces) == 0 }

// reachOf is the reach of a rule but for namespaces that are exempt.
func scopeOf(rule *rules.Rule, exempt deployment.Exemptions) scope {
	match := rule.Match.Kubernetes
	var r scope
	switch {
	case rule.Domain != "":
		r.namespaces = []string{rule.Domain}
	case rule.AllDomains:
		r.all = true
		// What names namespaces, selects them or counts by them speaks of no object that is in none.
		r.cluster = len(match.Namespaces) == 0 && len(match.NamespaceSelector) == 0 &&
			rule.Identifier.From != rules.FromKubernetesTenant && rule.Identifier.From != rules.FromKubernetesNamespace
	default:
		r.namespaces = slices.Clone(rule.Domains)
	}
	if len(match.Namespaces) > 0 {
		r = r.restrictTo(match.Namespaces)
	}
	r.namespaces = slices.DeleteFunc(r.namespaces, func(name string) bool { return name == "" || slices.Contains(exempt.Namespaces, name) })
	return r
}

func (r scope) restrictTo(names []string) scope {
	if r.all {
		return scope{namespaces: slices.Clone(names)}
	}
	return scope{namespaces: slices.DeleteFunc(r.namespaces, func(name string) bool { return !slices.Contains(names, name) })}
}

// union is both reaches.
func (r scope) union(other scope) scope {
	u := scope{cluster: r.cluster || other.cluster, all: r.all || other.all}
	if !u.all {
		u.namespaces = slices.Concat(r.namespaces, other.namespaces)
		slices.Sort(u.namespaces)
		u.namespaces = slices.Compact(u.namespaces)
	}
	return u
}

// namespaceSelector selects by the one label that nobody can change. Objects that are in no namespace it lets through.
func (a webhookRules) namespaceSelector(exempt deployment.Exemptions) *metav1.LabelSelector {
	named := metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: a.scope.namespaces}
	if a.scope.all || a.scope.cluster || len(a.scope.namespaces) > maxNamespaces {
		named.Operator, named.Values = metav1.LabelSelectorOpNotIn, exempt.Namespaces
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{named}}
}
