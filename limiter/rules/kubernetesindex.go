package rules

import (
	"slices"
	"strings"
)

// kubernetesIndex is the rules for writes to the Kubernetes API, by the namespace of the object and then by resource and
// operation, each found by look-up.
type kubernetesIndex struct {
	namespaces map[string]*resourceIndex
	everywhere *resourceIndex // the rules for all namespaces, and for objects that are in none; nil without any
	known      map[string]*Namespace
}

// resourceIndex holds rules by what is written and how. For each pattern in which some of its rules leave a part of the resource
// open a write is looked up once: as a rule there is one.
type resourceIndex struct {
	rules    map[resourceKey][]int
	patterns []openParts
}

// resourceKey is a resource and an operation. The subresource is empty for the resource itself; "*" stands for what is left
// open.
type resourceKey struct{ group, resource, subresource, operation string }

// openParts are which parts of a resource are left open.
type openParts struct{ group, resource, subresource bool }

// wildcard is what leaves a part of a resource open. An open subresource is the resource itself, too, as it is where API
// servers are told what to ask about.
const wildcard = "*"

func newKubernetesIndex(known []Namespace) kubernetesIndex {
	x := kubernetesIndex{namespaces: map[string]*resourceIndex{}, known: make(map[string]*Namespace, len(known))}
	for i := range known {
		x.known[known[i].Name] = &known[i]
	}
	return x
}

// add adds rule i. One for all namespaces that names some is found in those only. One without any domain never matches.
func (x *kubernetesIndex) add(i int, rule *Rule) {
	match := rule.Match.Kubernetes
	switch {
	case rule.AllDomains && len(match.Namespaces) == 0:
		if x.everywhere == nil {
			x.everywhere = newResourceIndex()
		}
		x.everywhere.add(i, match)
	case rule.AllDomains:
		x.addWithin(match.Namespaces, i, match)
	case rule.Domain != "":
		x.addWithin([]string{rule.Domain}, i, match)
	default:
		x.addWithin(rule.Domains, i, match)
	}
}

func (x *kubernetesIndex) addWithin(namespaces []string, i int, match *KubernetesMatch) {
	for _, namespace := range namespaces {
		if x.namespaces[namespace] == nil {
			x.namespaces[namespace] = newResourceIndex()
		}
		x.namespaces[namespace].add(i, match)
	}
}

func newResourceIndex() *resourceIndex { return &resourceIndex{rules: map[resourceKey][]int{}} }

func (x *resourceIndex) add(i int, match *KubernetesMatch) {
	for key := range match.keys {
		if listed := x.rules[key]; len(listed) == 0 || listed[len(listed)-1] != i { // rules come one after another
			x.rules[key] = append(listed, i)
		}
		if pattern := key.openParts(); !slices.Contains(x.patterns, pattern) {
			x.patterns = append(x.patterns, pattern)
		}
	}
}

// keys yields what the match is found by.
func (m *KubernetesMatch) keys(yield func(resourceKey) bool) {
	for _, of := range m.Resources {
		for _, group := range of.APIGroups {
			for _, name := range of.Resources {
				resource, subresource, _ := strings.Cut(name, "/")
				group, resource := canonicalResource(group, resource)
				for _, operation := range of.Operations {
					if !yield(resourceKey{group, resource, subresource, operation}) {
						return
					}
				}
			}
		}
	}
}

// The groups in which API servers have Events, the one resource that they serve in two and store as one. Whoever is limited in one
// could else write through the other: API servers translate only where nobody is to be asked about the other, too.
const (
	eventsGroup = "events.k8s.io" // which has nothing but Events
	events      = "events"
)

// canonicalResource is what stands for a resource in every group that has it.
func canonicalResource(group, resource string) (asGroup, asResource string) {
	if group == eventsGroup && (resource == events || resource == wildcard) {
		return "", events
	}
	return group, resource
}

func (k *resourceKey) openParts() openParts {
	return openParts{k.group == wildcard, k.resource == wildcard, k.subresource == wildcard}
}

// keyOf is what a write is looked up by among the rules that leave these parts open.
func (w openParts) keyOf(r *KubernetesRequest) resourceKey {
	group, resource := canonicalResource(r.Group, r.Resource)
	key := resourceKey{group, resource, r.Subresource, r.Operation}
	if w.group {
		key.group = wildcard
	}
	if w.resource {
		key.resource = wildcard
	}
	if w.subresource {
		key.subresource = wildcard
	}
	return key
}

// kubernetes finds the rules for the write that the request is.
func (s *search) findKubernetes(x *kubernetesIndex) {
	write := s.request.Kubernetes
	s.namespace = x.known[write.Namespace]
	if within := x.namespaces[write.Namespace]; within != nil && write.Namespace != "" {
		s.findByResource(within)
	}
	if x.everywhere != nil {
		s.findByResource(x.everywhere)
	}
}

func (s *search) findByResource(x *resourceIndex) {
	for _, pattern := range x.patterns {
		for _, i := range x.rules[pattern.keyOf(s.request.Kubernetes)] {
			s.appendWriteIfMatched(i)
		}
	}
}

// write appends rule i if the parts of its match that the index does not hold match too, the dearest asked last.
func (s *search) appendWriteIfMatched(i int) {
	c, r := &s.index.rules[i], s.request.Kubernetes
	if !c.Match.Kubernetes.selects(r, s.namespace) || !c.Identifier.From.appliesTo(r) {
		return
	}
	if c.condition != nil && !c.condition.selects(s.activation()) {
		return
	}
	s.defaults = s.defaults || c.Default
	m := Matched{Rule: c, order: int32(i), descriptor: none, namespace: s.namespace}
	if c.hasExpressions {
		m.on = s.activation() // one for all rules: the object is decoded once
	}
	s.found = append(s.found, m)
}

// selects says whether who writes, and where, is of the match.
func (m *KubernetesMatch) selects(r *KubernetesRequest, namespace *Namespace) bool {
	return (len(m.Namespaces) == 0 || slices.Contains(m.Namespaces, r.Namespace)) &&
		(len(m.Users) == 0 || slices.Contains(m.Users, r.User)) &&
		(len(m.Groups) == 0 || r.inGroup(m.Groups)) &&
		!slices.Contains(m.ExceptUsers, r.User) &&
		!r.inGroup(m.ExceptGroups) &&
		m.NamespaceSelector.Selects(namespace)
}

func (r *KubernetesRequest) inGroup(groups []string) bool {
	if len(groups) == 0 {
		return false
	}
	for _, group := range r.Groups {
		if slices.Contains(groups, group) {
			return true
		}
	}
	return false
}

// isIn says whether a write is one of those that the source speaks of: those in a namespace, those of service accounts. A
// rule does not match the others: counted together they would be an axis of their own that nobody asked for.
func (s IdentifierSource) appliesTo(r *KubernetesRequest) bool {
	switch s {
	case FromKubernetesTenant, FromKubernetesNamespace:
		return r.Namespace != ""
	case FromServiceAccount:
		return r.serviceAccount() != ""
	default:
		return true
	}
}

// serviceAccountPrefix is what API servers put before namespace and name of a service account: the rest holds a colon
// between the two.
const serviceAccountPrefix = "system:serviceaccount:"

// serviceAccount is the user as "namespace:name", "" for one that is no service account.
func (r *KubernetesRequest) serviceAccount() string {
	account, is := strings.CutPrefix(r.User, serviceAccountPrefix)
	namespace, name, both := strings.Cut(account, ":")
	if !is || !both || namespace == "" || name == "" || strings.ContainsAny(account, "/") || strings.Contains(name, ":") {
		return ""
	}
	return account
}

// ServiceAccount returns "namespace/name" of a user who is a service account, "" for any other.
func ServiceAccount(user string) string {
	r := KubernetesRequest{User: user}
	return strings.Replace(r.serviceAccount(), ":", "/", 1)
}

// tenant of the namespace that the write is in: its name, where nothing else is known.
func (m Matched) tenant(r *KubernetesRequest) string {
	if m.namespace != nil && m.namespace.Tenant != "" {
		return m.namespace.Tenant
	}
	return r.Namespace
}
