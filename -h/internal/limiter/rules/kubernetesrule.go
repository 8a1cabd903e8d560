package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// IsKubernetes reports whether only writes to the Kubernetes API have the source.
func (s IdentifierSource) IsKubernetes() bool {
	switch s {
	case FromKubernetesTenant, FromKubernetesNamespace, FromKubernetesUser, FromServiceAccount:
		return true
	default:
		return false
	}
}

// Validate returns an error if the match cannot be compiled.
func (m *KubernetesMatch) Validate() error {
	if len(m.Resources) == 0 {
		return errors.New("match.kubernetes must have resources")
	}
	for _, resources := range m.Resources {
		if len(resources.APIGroups) == 0 || len(resources.Resources) == 0 || len(resources.Operations) == 0 {
			return errors.New("match.kubernetes.resources must have groups, resources and operations")
		}
		for _, name := range resources.Resources {
			if resource, subresource, cut := strings.Cut(name, "/"); resource == "" || cut && subresource == "" {
				return fmt.Errorf("invalid resource %q; must be resource or resource/subresource", name)
			}
		}
	}
	return m.NamespaceSelector.Validate()
}

// InGroup reports whether the user is in one of the groups.
func (r *KubernetesRequest) InGroup(groups []string) bool {
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

// AppliesTo reports whether the write has the source: a namespace, or a service account as its user. A rule does not match other writes.
// If it did, all of them would share the counter of requests without an identifier.
func (s IdentifierSource) AppliesTo(r *KubernetesRequest) bool {
	switch s {
	case FromKubernetesTenant, FromKubernetesNamespace:
		return r.Namespace != ""
	case FromServiceAccount:
		return r.serviceAccount() != ""
	default:
		return true
	}
}

// serviceAccountPrefix is the prefix of the user name of a service account. "namespace:name" follows it.
const serviceAccountPrefix = "system:serviceaccount:"

// serviceAccount returns the user as "namespace:name", or "" if the user is not a service account.
func (r *KubernetesRequest) serviceAccount() string {
	account, hasPrefix := strings.CutPrefix(r.User, serviceAccountPrefix)
	namespace, name, both := strings.Cut(account, ":")
	if !hasPrefix || !both || namespace == "" || name == "" || strings.ContainsAny(account, "/") || strings.Contains(name, ":") {
		return ""
	}
	return account
}

// ServiceAccount returns "namespace/name" if the user is a service account, or "" for other users.
func ServiceAccount(user string) string {
	r := KubernetesRequest{User: user}
	return strings.Replace(r.serviceAccount(), ":", "/", 1)
}
