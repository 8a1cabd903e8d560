package compile

import (
	"maps"
	"slices"
	"strings"

	"github.com/weir-dev/weir/limiter/rules"
)

// namespaceInputs are the properties of namespaces that a list of rules reads.
type namespaceInputs struct {
	labels  map[string]bool
	absence bool // some selector can select a namespace without any of the labels
	tenants bool // some rule counts by tenant
}

// namespaceInputsOf collects the properties of namespaces that the rules read.
func namespaceInputsOf(list []rules.Rule) (q namespaceInputs) {
	for i := range list {
		match := list[i].Match.Kubernetes
		if match == nil {
			continue
		}
		q.tenants = q.tenants || list[i].Identifier.From == rules.FromKubernetesTenant
		q.add(match.NamespaceSelector)
		for _, tier := range list[i].Tiers {
			q.add(tier.When.NamespaceSelector)
		}
	}
	return q
}

func (q *namespaceInputs) add(selector rules.Selector) {
	for _, r := range selector {
		q.addLabel(r.Key)
	}
	q.absence = q.absence || selector.SelectsUnlabeled()
}

func (q *namespaceInputs) addLabel(key string) {
	if q.labels == nil {
		q.labels = map[string]bool{}
	}
	q.labels[key] = true
}

func (q *namespaceInputs) addAll(other *namespaceInputs) {
	for key := range other.labels {
		q.addLabel(key)
	}
	q.absence, q.tenants = q.absence || other.absence, q.tenants || other.tenants
}

func (q *namespaceInputs) equal(other *namespaceInputs) bool {
	return q.absence == other.absence && q.tenants == other.tenants && maps.Equal(q.labels, other.labels)
}

// namespaceMemo remembers what rules read of namespaces.
type namespaceMemo struct {
	version uint64 // of the namespaces; 0 if there is nothing to reuse
	inputs  namespaceInputs
	facts   []rules.Namespace
}

// update returns the properties of namespaces that the rules of the policies read. They are those that limit writes.
func (m *namespaceMemo) update(in *Inputs, policies []*compiled, identity Identity) []rules.Namespace {
	var inputs namespaceInputs
	for _, c := range policies {
		inputs.addAll(&c.inputs)
	}
	if m.version == 0 || m.version != in.NamespacesVersion || !m.inputs.equal(&inputs) {
		*m = namespaceMemo{in.NamespacesVersion, inputs, inputs.factsOf(in.Namespaces, identity)}
	}
	return m.facts
}

// factsOf returns the properties of namespaces that the rules read, sorted by name. It omits other properties, so that the Set does
// not change if they change. It also omits namespaces without any of these properties, because a limiter treats them like unknown
// namespaces, unless a rule selects namespaces by the absence of a label.
func (q *namespaceInputs) factsOf(namespaces []Namespace, identity Identity) (facts []rules.Namespace) {
	for _, n := range namespaces {
		fact := rules.Namespace{Name: n.Name, Labels: q.labelsOf(n)}
		if tenant := identity.TenantOf(n.Name, n.Labels, n.Annotations); q.tenants && tenant != n.Name {
			fact.Tenant = tenant
		}
		if q.absence || len(fact.Labels) > 0 || fact.Tenant != "" {
			facts = append(facts, fact)
		}
	}
	slices.SortFunc(facts, func(a, b rules.Namespace) int { return strings.Compare(a.Name, b.Name) })
	return facts
}

func (q *namespaceInputs) labelsOf(n Namespace) map[string]string {
	labels := map[string]string{}
	for key := range q.labels {
		if value, exists := n.Labels[key]; exists {
			labels[key] = value
		}
	}
	if len(labels) == 0 {
		return nil
	}
	return labels
}
