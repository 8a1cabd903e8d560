// Package policyname joins and splits the names that policies have in rules, answers, headers, metrics, keys and problems.
package policyname

import "strings"

// Cluster is the scope of a ClusterRateLimitPolicy. A namespace cannot have this name, because it is a DNS label and has no underscore.
const Cluster = "_cluster"

// Join returns the name of a policy: "shop/orders" in namespace shop, or "_cluster/orders" in scope [Cluster].
func Join(scope, name string) string { return scope + "/" + name }

// Split returns the scope and the name of a policy from the result of Join. If the text is no such result, the scope is the whole text and the name
// is empty.
func Split(policy string) (scope, name string) {
	scope, name, _ = strings.Cut(policy, "/")
	return scope, name
}
