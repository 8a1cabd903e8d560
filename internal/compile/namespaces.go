package compile

import (
	"maps"
	"slices"
	"strings"

	"github.com/weir-dev/weir/limiter/rules"
)

// maxTenant is the longest annotation that is a tenant, in bytes: that of an identifier in a tier.
const maxTenant = 253

// questions are what rules ask of namespaces.
type questions struct {
	labels  map[string]bool
	absence bool // whether a namespace has none of the labels
	tenants bool
}

func questionsOf(list []rules.Rule) questions {
	q := questions{labels: map[string]bool{}}
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

func (q *questions) add(selector rules.Selector) {
	for _, r := range selector {
		q.labels[r.Key] = true
	}
	q.absence = q.absence || selector.SelectsUnlabeled()
}

// known is what the rules may ask of the namespaces, sorted by name: nothing that no rule asks, so that the Set stays the same
// when something else about a namespace changes. A limiter takes a namespace of which there is nothing to say for one that it
// does not know; only where a rule selects by what a namespace has not, the two differ, and all are named.
func known(namespaces []Namespace, list []rules.Rule, identity Identity) []rules.Namespace {
	asked := questionsOf(list)
	var all []rules.Namespace
	for _, n := range namespaces {
		fact := rules.Namespace{Name: n.Name, Labels: asked.labelsOf(n)}
		if tenant := identity.tenantOf(n); asked.tenants && tenant != n.Name {
			fact.Tenant = tenant
		}
		if asked.absence || len(fact.Labels) > 0 || fact.Tenant != "" {
			all = append(all, fact)
		}
	}
	slices.SortFunc(all, func(a, b rules.Namespace) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (q *questions) labelsOf(n Namespace) map[string]string {
	if len(q.labels) == 0 || len(n.Labels) == 0 {
		return nil
	}
	labels := maps.Clone(n.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return !q.labels[key] })
	if len(labels) == 0 {
		return nil
	}
	return labels
}

// tenantOf is the tenant that the namespace names where the table says, else its name.
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
