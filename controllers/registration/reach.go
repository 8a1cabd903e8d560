package registration

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/rules"
)

// maxNamespaces bounds the namespaces that have webhooks of their own: every name is in a selector twice.
const maxNamespaces = 1024

// reach is which writes some policies may match: the resources, and the users.
type reach struct {
	resources resources
	who       audience
}

func (r reach) union(other reach) reach {
	return reach{r.resources.union(other.resources), r.who.union(other.who)}
}

// with adds another reach, without removing what wildcards cover. It changes the resources of r.
func (r reach) with(other reach) reach {
	if r.resources == nil {
		r.resources = resources{}
	}
	for res, ops := range other.resources {
		r.resources[res] |= ops
	}
	if !r.who.all {
		r.who = r.who.union(other.who)
	}
	return r
}

// withoutCovered returns the reach without the resources that wildcards cover.
func (r reach) withoutCovered() reach { return reach{r.resources.minus(nil), r.who} }

// reaches are the reaches of the policies of a Limiter. Each policy is in exactly one of them, except one that lists several namespaces.
type reaches struct {
	// everywhere includes cluster-scoped objects. namespaced is about the objects in all namespaces.
	everywhere, namespaced reach
	// listed is by namespace.
	listed map[string]reach
	// policies that limit some write that is not exempt.
	policies map[policyKey]bool
}

// policyKey identifies a policy. The name does not: a namespace can have the name that rules use as the prefix of cluster policies.
type policyKey struct {
	name    string
	cluster bool
}

func keyOf(rule *rules.Rule) policyKey { return policyKey{rule.PolicyName(), rule.Domain == ""} }

func (r *reaches) empty() bool { return len(r.policies) == 0 }

// newReaches returns the writes that a rule of the set may match and that are not exempt.
func newReaches(set []rules.Rule, never exempt.Lists) *reaches {
	r := &reaches{
		everywhere: reach{resources: resources{}}, namespaced: reach{resources: resources{}}, listed: map[string]reach{}, policies: map[policyKey]bool{},
	}
	own := reach{resources: resources{}}
	for i := range set {
		match := set[i].Match.Kubernetes
		if match == nil {
			continue
		}
		clear(own.resources)
		own.resources.add(match.Resources)
		within := scopeOf(&set[i], never)
		if len(own.resources) == 0 || within.empty() {
			continue
		}
		own.who = audienceOf(match)
		r.policies[keyOf(&set[i])] = true
		switch {
		case within.cluster:
			r.everywhere = r.everywhere.with(own)
		case within.all:
			r.namespaced = r.namespaced.with(own)
		}
		for _, namespace := range within.namespaces {
			r.listed[namespace] = r.listed[namespace].with(own)
		}
	}
	r.everywhere, r.namespaced = r.everywhere.withoutCovered(), r.namespaced.withoutCovered()
	for namespace, listed := range r.listed {
		r.listed[namespace] = listed.withoutCovered()
	}
	r.bound()
	return r
}

// bound removes namespaces for which the webhook for all namespaces is enough. If too many are left, it extends that webhook for those that
// many namespaces have in common, and that are narrow.
func (r *reaches) bound() {
	r.namespaced = r.namespaced.union(r.everywhere) // every webhook is about either namespaced or cluster-scoped objects
	r.removeCovered()
	if len(r.listed) <= maxNamespaces {
		return
	}
	alike := map[string][]string{} // namespaces by what is limited in them
	for _, namespace := range slices.Sorted(maps.Keys(r.listed)) {
		key := r.listed[namespace].resources.key()
		alike[key] = append(alike[key], namespace)
	}
	groups := slices.SortedFunc(maps.Values(alike), func(a, b []string) int {
		costOfA, costOfB := r.listed[a[0]].resources.breadth()*len(b), r.listed[b[0]].resources.breadth()*len(a)
		return cmp.Or(cmp.Compare(costOfA, costOfB), strings.Compare(a[0], b[0]))
	})
	for left := len(r.listed); left > maxNamespaces; groups = groups[1:] {
		for _, namespace := range groups[0] {
			r.namespaced = r.namespaced.union(r.listed[namespace])
		}
		left -= len(groups[0])
	}
	r.removeCovered()
}

func (r *reaches) removeCovered() {
	maps.DeleteFunc(r.listed, func(_ string, own reach) bool {
		return len(own.resources.minus(r.namespaced.resources)) == 0 && r.namespaced.who.covers(own.who)
	})
}

// entry is one webhook.
type entry struct {
	name     string // added to the name of the Limiter's webhook; "" for the first
	reach    reach
	rules    []admissionv1.RuleWithOperations
	selector *metav1.LabelSelector
}

// entries returns the webhooks of the Limiter. At most one of them is called for any write: the limiter would count it twice otherwise.
// Therefore a namespace is in exactly one of them, with everything that policies limit there. A policy in one namespace causes no calls
// for writes in others.
func (r *reaches) entries(never exempt.Lists) (all []entry) {
	if len(r.listed) == 0 {
		rules := r.everywhere.resources.rules(admissionv1.AllScopes)
		rules = slices.Concat(rules, r.namespaced.resources.minus(r.everywhere.resources).rules(admissionv1.NamespacedScope))
		if tooMany(rules) {
			rules = slices.Concat(r.everywhere.resources.widened(admissionv1.AllScopes),
				r.namespaced.resources.minus(r.everywhere.resources).widened(admissionv1.NamespacedScope))
		}
		return []entry{{"", r.namespaced, rules, namespaceSelector(metav1.LabelSelectorOpNotIn, never.Namespaces)}}
	}
	if len(r.everywhere.resources) > 0 {
		all = append(all, entry{
			"cluster", r.everywhere, r.everywhere.resources.bounded(admissionv1.ClusterScope), namespaceSelector(metav1.LabelSelectorOpNotIn, never.Namespaces),
		})
	}
	if len(r.namespaced.resources) > 0 {
		others := slices.Sorted(maps.Keys(r.listed))
		all = append(all, entry{
			"", r.namespaced, r.namespaced.resources.bounded(admissionv1.NamespacedScope),
			namespaceSelector(metav1.LabelSelectorOpNotIn, slices.Concat(never.Namespaces, others)),
		})
	}
	for _, c := range r.classes() {
		all = append(all, entry{
			c.name(), c.reach, c.reach.resources.bounded(admissionv1.NamespacedScope), namespaceSelector(metav1.LabelSelectorOpIn, c.namespaces),
		})
	}
	return all
}

// namespaceSelector selects by kubernetes.io/metadata.name, the one label that users cannot change. It also matches cluster-scoped objects
// other than Namespaces.
func namespaceSelector(operator metav1.LabelSelectorOperator, names []string) *metav1.LabelSelector {
	names = slices.Sorted(slices.Values(names))
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1.LabelMetadataName, Operator: operator, Values: slices.Compact(names),
	}}}
}
