package registration

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/limiter/rules"
)

// maxNamespaces bounds the namespaces in the selector of a webhook. If policies name more, the webhook is called for all.
const maxNamespaces = 256

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
func scopeOf(rule *rules.Rule, exempt deployment.Exemptions) scope {
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
	s.namespaces = slices.DeleteFunc(s.namespaces, func(name string) bool { return name == "" || slices.Contains(exempt.Namespaces, name) })
	return s
}

func (s scope) restrictTo(names []string) scope {
	if s.all {
		return scope{namespaces: slices.Clone(names)}
	}
	return scope{namespaces: slices.DeleteFunc(s.namespaces, func(name string) bool { return !slices.Contains(names, name) })}
}

// union returns the scope that covers both.
func (s scope) union(other scope) scope {
	u := scope{cluster: s.cluster || other.cluster, all: s.all || other.all}
	if !u.all {
		u.namespaces = slices.Concat(s.namespaces, other.namespaces)
		slices.Sort(u.namespaces)
		u.namespaces = slices.Compact(u.namespaces)
	}
	return u
}

// namespaceSelector selects by kubernetes.io/metadata.name, the one label that users cannot change. It also matches cluster-scoped
// objects.
func (w webhookRules) namespaceSelector(exempt deployment.Exemptions) *metav1.LabelSelector {
	named := metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: w.scope.namespaces}
	if w.scope.all || w.scope.cluster || len(w.scope.namespaces) > maxNamespaces {
		named.Operator, named.Values = metav1.LabelSelectorOpNotIn, exempt.Namespaces
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{named}}
}
