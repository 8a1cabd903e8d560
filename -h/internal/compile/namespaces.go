package compile

import (
	"slices"
	"strings"

	"github.com/weir-dev/weir/go/internal/limiter/rules"
)

// maxTenant is the maximum length of a tenant in an annotation, in bytes. It is the maximum length of an identifier in a tier.
const maxTenant = 253

// namespaceInputs are the properties of namespaces that a list of rules reads.
type namespaceInputs struct {
	labels  map[string]bool
	absence bool // some selector can select a namespace without any of the labels
	tenants bool // some rule counts by tenant
}

// namespaceInputsOf collects the properties of namespaces that the rules read.
func namespaceInputsOf(list []rules.Rule) namespaceInputs {
	q := namespaceInputs{labels: map[string]bool{}}
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
		q.labels[r.Key] = true
	}
	q.absence = q.absence || selector.SelectsUnlabeled()
}

// namespaceFacts returns the properties of namespaces that the rules read, sorted by name. It omits other properties, so that the Set does
// not change if they change. It also omits namespaces without any of these properties, because a limiter treats them like unknown
// namespaces, unless a rule selects namespaces by the absence of a label.
func namespaceFacts(namespaces []Namespace, list []rules.Rule, identity Identity) []rules.Namespace {
	inputs := namespaceInputsOf(list)
	var facts []rules.Namespace
	for _, n := range namespaces {
		fact := rules.Namespace{Name: n.Name, Labels: inputs.labelsOf(n)}
		if tenant := identity.tenantOf(n); inputs.tenants && tenant != n.Name {
			fact.Tenant = tenant
		}
		if inputs.absence || len(fact.Labels) > 0 || fact.Tenant != "" {
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

// tenantOf returns the tenant in the label or annotation of the namespace that the identity table names, or else the name of the namespace.
func (i Identity) tenantOf(n Namespace) string {
	tenant := ""
	switch {
	case i.NamespaceLabel != "":
		tenant = n.Labels[i.NamespaceLabel]
	case i.NamespaceAnnotation != "":
		tenant = n.Annotations[i.NamespaceAnnotation]
	}
	if tenant == "" || len(tenant) > maxTenant {
		return n.Name
	}
	return tenant
}
