package tables

import (
	"iter"
	"strings"

	"github.com/weir-dev/weir/limiter/persistent"
	"github.com/weir-dev/weir/limiter/rules"
)

// Resources map resources and operations to rules. A write is looked up once for each pattern of wildcards that some rule has. Usually there is one
// pattern.
type Resources[R Rule] struct {
	version persistent.Version

	rules persistent.Map[resourceKey, List[R]]
	keys  [allOpen + 1]int // their number, by openParts
}

// For yields the rules for the resource and the operation of a write.
func (x *Resources[R]) For(write *rules.KubernetesRequest) iter.Seq[R] {
	return func(yield func(R) bool) {
		for open, keys := range x.keys {
			if keys == 0 {
				continue
			}
			for _, r := range x.rules.Get(openParts(open).keyOf(write)).Rules {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// resourceKey is a resource and an operation. The subresource is empty for the resource itself. "*" is the wildcard.
type resourceKey struct{ group, resource, subresource, operation string }

// openParts states which parts of a resourceKey are wildcards.
type openParts uint8

const (
	openGroup openParts = 1 << iota
	openResource
	openSubresource
	allOpen = openGroup | openResource | openSubresource
)

// wildcard matches every value of a part of a resource. As in the rules of a webhook configuration, a wildcard subresource includes the
// resource itself.
const wildcard = "*"

// inNamespaces edits the tables of the rule. A rule for all domains with a list of namespaces is in the tables of those namespaces only. A rule without a
// domain never matches.
func (e *Edit[R]) inNamespaces(t *Tables[R]) {
	r := e.Rule.Declaration()
	namespaces := r.Domains
	switch {
	case r.AllDomains && len(r.Match.Kubernetes.Namespaces) == 0:
		t.AllNamespaces = e.inResources(t.AllNamespaces)
		return
	case r.AllDomains:
		namespaces = r.Match.Kubernetes.Namespaces
	case r.Domain != "":
		namespaces = []string{r.Domain}
	}
	for _, namespace := range namespaces {
		editIn(e, &t.Namespaces, namespace, e.inResources)
	}
}

func (e *Edit[R]) inResources(x *Resources[R]) *Resources[R] {
	if x == nil {
		x = &Resources[R]{version: e.Version}
	} else if x.version != e.Version {
		x = new(*x)
		x.version = e.Version
	}
	for key := range resourceKeys(e.Rule.Declaration().Match.Kubernetes) {
		before := x.rules.Len()
		inList(e, &x.rules, key)
		x.keys[key.openParts()] += x.rules.Len() - before
	}
	if x.rules.Len() == 0 {
		return nil
	}
	return x
}

// resourceKeys yields the keys of the match in a resourceIndex.
func resourceKeys(m *rules.KubernetesMatch) iter.Seq[resourceKey] {
	return func(yield func(resourceKey) bool) {
		for _, resources := range m.Resources {
			for _, group := range resources.APIGroups {
				for _, name := range resources.Resources {
					resource, subresource, _ := strings.Cut(name, "/")
					group, resource := canonicalResource(group, resource)
					for _, operation := range resources.Operations {
						if !yield(resourceKey{group, resource, subresource, operation}) {
							return
						}
					}
				}
			}
		}
	}
}

// Events are the one resource that API servers serve in two groups and store once. A rule for either group must match writes through
// both. Otherwise a user who is limited in one group could write through the other: an API server converts a request to the other
// group only if no webhook rule names that group.
const (
	eventsGroup = "events.k8s.io" // has only Events
	events      = "events"
)

// canonicalResource returns the same group and resource for Events of both groups, and any other resource unchanged.
func canonicalResource(group, resource string) (asGroup, asResource string) {
	if group == eventsGroup && (resource == events || resource == wildcard) {
		return "", events
	}
	return group, resource
}

func (k *resourceKey) openParts() (open openParts) {
	if k.group == wildcard {
		open |= openGroup
	}
	if k.resource == wildcard {
		open |= openResource
	}
	if k.subresource == wildcard {
		open |= openSubresource
	}
	return open
}

// keyOf returns the key of a write among the rules with these wildcards.
func (w openParts) keyOf(r *rules.KubernetesRequest) resourceKey {
	group, resource := canonicalResource(r.Group, r.Resource)
	key := resourceKey{group, resource, r.Subresource, r.Operation}
	if w&openGroup != 0 {
		key.group = wildcard
	}
	if w&openResource != 0 {
		key.resource = wildcard
	}
	if w&openSubresource != 0 {
		key.subresource = wildcard
	}
	return key
}
