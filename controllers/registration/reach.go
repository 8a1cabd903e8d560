package registration

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/limiter/rules"
)

// mostNamespaces bounds how many namespaces a webhook names. Where policies speak of more it is asked about all.
const mostNamespaces = 256

// reach is where the objects are whose writes a rule may match.
type reach struct {
	// cluster: some are in no namespace.
	cluster bool
	// all namespaces, or these.
	all        bool
	namespaces []string
}

func (r reach) none() bool { return !r.cluster && !r.all && len(r.namespaces) == 0 }

// reachOf is the reach of a rule but for namespaces that are exempt.
func reachOf(rule *rules.Rule, exempt deployment.Exempt) reach {
	match := rule.Match.Kubernetes
	var r reach
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
		r = r.within(match.Namespaces)
	}
	r.namespaces = slices.DeleteFunc(r.namespaces, func(name string) bool { return name == "" || slices.Contains(exempt.Namespaces, name) })
	return r
}

func (r reach) within(names []string) reach {
	if r.all {
		return reach{namespaces: slices.Clone(names)}
	}
	return reach{namespaces: slices.DeleteFunc(r.namespaces, func(name string) bool { return !slices.Contains(names, name) })}
}

// union is both reaches.
func (r reach) union(other reach) reach {
	u := reach{cluster: r.cluster || other.cluster, all: r.all || other.all}
	if !u.all {
		u.namespaces = slices.Concat(r.namespaces, other.namespaces)
		slices.Sort(u.namespaces)
		u.namespaces = slices.Compact(u.namespaces)
	}
	return u
}

// namespaceSelector selects by the one label that nobody can change. Objects that are in no namespace it lets through.
func (a asked) namespaceSelector(exempt deployment.Exempt) *metav1.LabelSelector {
	named := metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: a.reach.namespaces}
	if a.reach.all || a.reach.cluster || len(a.reach.namespaces) > mostNamespaces {
		named.Operator, named.Values = metav1.LabelSelectorOpNotIn, exempt.Namespaces
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{named}}
}
