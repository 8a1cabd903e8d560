package kubernetes

import "k8s.io/client-go/rest"

// exempt are those without whom a cluster does not run, and who repairs it.
func exemptIdentities() map[string]rest.ImpersonationConfig {
	return map[string]rest.ImpersonationConfig{
		"an API server":               Person("system:apiserver"),
		"kube-controller-manager":     Person("system:kube-controller-manager"),
		"kube-scheduler":              Person("system:kube-scheduler"),
		"kube-proxy":                  Person("system:kube-proxy"),
		"a node":                      Person("system:node:one", "system:nodes"),
		"a controller of the cluster": ServiceAccount("kube-system", "replicaset-controller"),
		"the operator":                ServiceAccount(operatorNamespace, "weir-operator"),
		"an admin of the cluster":     Person("root", "system:masters"),
		"an admin whom kubeadm made":  Person("kubernetes-admin", "kubeadm:cluster-admins"),
	}
}

// pipeline is somebody who is limited, and is told no wait, for they write outside of their own namespace: their clients do not
// sleep.
func pipeline(name string) rest.ImpersonationConfig { return ServiceAccount("builds", name) }
