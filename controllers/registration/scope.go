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

func (r scope) empty() bool { return !r.cluster && !r.all && len(r.namespaces) == 0 }

// scopeOf returns the scope of a rule without the exempt namespaces.
func scopeOf(rule *rules.Rule, exempt deployment.Exemptions) scope {
	match := rule.Match.Kubernetes
	var r scope
	switch {
	case rule.Domain != "":
		r.namespaces = []string{rule.Domain}
	case rule.AllDomains:
		r.all = true
		// A rule that names or selects namespaces, or that counts by namespace, does not match cluster-scoped objects.
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

// union returns the scope that covers both.
func (r scope) union(other scope) scope {
	u := scope{cluster: r.cluster || other.cluster, all: r.all || other.all}
	if !u.all {
		u.namespaces = slices.Concat(r.namespaces, other.namespaces)
		slices.Sort(u.namespaces)
		u.namespaces = slices.Compact(u.namespaces)
	}
	return u
}

// namespaceSelector selects by kubernetes.io/metadata.name, the one label that users cannot change. It also matches cluster-scoped
// objects.
func (a webhookRules) namespaceSelector(exempt deployment.Exemptions) *metav1.LabelSelector {
	named := metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: a.scope.namespaces}
	if a.scope.all || a.scope.cluster || len(a.scope.namespaces) > maxNamespaces {
		named.Operator, named.Values = metav1.LabelSelectorOpNotIn, exempt.Namespaces
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{named}}
}
