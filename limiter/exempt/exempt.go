// Package exempt defines the writes to the Kubernetes API that no policy limits: without them, a policy could prevent its own repair,
// or the repair of the cluster. The operator excludes them from the webhook configuration, and the limiter allows them if an API server
// asks nevertheless.
package exempt

import (
	"slices"

	"github.com/weir-dev/weir/limiter/rules"
)

// Lists of namespaces, users and groups whose writes are exempt. Each is sorted and has no duplicates.
type Lists struct {
	Namespaces, Users, Groups []string
}

// The prefix of the group with the service accounts of a namespace.
const serviceAccountsGroup = "system:serviceaccounts:"

// With returns the lists that always apply to a limiter in the namespace own, which may be empty, and the additional names. The service
// accounts of an exempt namespace are exempt everywhere: otherwise nothing in the namespace could be repaired.
func With(own string, additional Lists) Lists {
	namespaces := sorted([]string{"kube-system", "kube-node-lease", "kube-public", own}, additional.Namespaces)
	// A joining node has the group system:bootstrappers until its certificate is signed. With failurePolicy Fail and no limiter that
	// answers, no node could join to run one.
	groups := []string{"system:masters", "kubeadm:cluster-admins", "system:nodes", "system:bootstrappers"}
	for _, namespace := range namespaces {
		groups = append(groups, serviceAccountsGroup+namespace)
	}
	return Lists{
		Namespaces: namespaces,
		Users: sorted([]string{
			"system:apiserver", "system:cloud-controller-manager", "system:kube-controller-manager", "system:kube-scheduler", "system:kube-proxy",
		}, additional.Users),
		Groups: sorted(groups, additional.Groups),
	}
}

// Includes reports whether the lists, or what is exempt for every user, include a write.
func (l Lists) Includes(w *rules.KubernetesRequest) bool {
	has := func(list []string, name string) bool {
		_, found := slices.BinarySearch(list, name)
		return found
	}
	return has(l.Namespaces, w.Namespace) || has(l.Users, w.User) ||
		slices.ContainsFunc(w.Groups, func(group string) bool { return has(l.Groups, group) }) || Write(w)
}

// sorted omits "": it is the namespace of cluster-scoped objects.
func sorted(lists ...[]string) []string {
	names := slices.DeleteFunc(slices.Concat(lists...), func(name string) bool { return name == "" })
	slices.Sort(names)
	return slices.Compact(names)
}

// Groups returns the exempt API groups, sorted: the policies themselves, permissions, admission configuration, leader election, the
// certificates with which nodes join and components authenticate, and the reviews that other components need to authenticate and
// authorize, which store nothing.
func Groups() []string {
	return []string{
		"admissionregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "certificates.k8s.io", "coordination.k8s.io",
		"rbac.authorization.k8s.io", "weir.dev",
	}
}

// The exempt resources of the core group.
const (
	nodes    = "nodes"
	pods     = "pods"
	eviction = "eviction" // a denial would look like a PodDisruptionBudget, and a drain would retry forever
)

// Resource reports whether all writes to the resource are exempt. The name may contain wildcards, which other resources match too.
func Resource(group, name, subresource string) bool {
	return slices.Contains(Groups(), group) || group == "" && (name == nodes || name == pods && subresource == eviction)
}

// Operation reports whether the operation is exempt: to delete an object frees what a limit protects, and repairs begin with it.
func Operation(name string) bool { return name == "DELETE" }

// Write reports whether the write is exempt for every user.
func Write(w *rules.KubernetesRequest) bool {
	return Operation(w.Operation) || Resource(w.Group, w.Resource, w.Subresource) || isCleanup(w)
}
