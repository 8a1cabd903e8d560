package kubernetes

import "k8s.io/client-go/rest"

// exemptIdentities are the users that a cluster needs to run, and those who repair it.
func exemptIdentities() map[string]rest.ImpersonationConfig {
	return map[string]rest.ImpersonationConfig{
		"an API server":               Person("system:apiserver"),
		"kube-controller-manager":     Person("system:kube-controller-manager"),
		"kube-scheduler":              Person("system:kube-scheduler"),
		"kube-proxy":                  Person("system:kube-proxy"),
		"cloud-controller-manager":    Person("system:cloud-controller-manager"),
		"a node":                      Person("system:node:one", "system:nodes"),
		"a node that joins":           Person("system:bootstrap:abcdef", "system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token"),
		"a controller of the cluster": ServiceAccount("kube-system", "replicaset-controller"),
		"the operator":                ServiceAccount(operatorNamespace, "weir-operator"),
		"an admin of the cluster":     Person("root", "system:masters"),
		"an admin created by kubeadm": Person("kubernetes-admin", "kubeadm:cluster-admins"),
	}
}

// pipeline is a user who is limited. It gets no Retry-After, because it writes outside of its own namespace, so its client does not wait.
func pipeline(name string) rest.ImpersonationConfig { return ServiceAccount("builds", name) }
