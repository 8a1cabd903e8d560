package kubernetes

import (
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const authenticated = "system:authenticated"

// Person is somebody who is no service account.
func Person(name string, groups ...string) rest.ImpersonationConfig {
	return rest.ImpersonationConfig{UserName: name, Groups: append(groups, authenticated)}
}

// ServiceAccount is one, in the groups that all of them are in.
func ServiceAccount(namespace, name string) rest.ImpersonationConfig {
	return rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + name,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, authenticated},
	}
}

// ConfigAs is a client configuration of who, by API server 0 or 1. Its calls are not slowed down.
func (w *World) ConfigAs(server int, who rest.ImpersonationConfig) *rest.Config {
	config := w.Kube.ConfigOf(server)
	config.Impersonate, config.QPS = who, -1
	config.WarningHandler = rest.NoWarnings{}
	return config
}

// As is a client of who by API server 0 or 1.
func (w *World) As(server int, who rest.ImpersonationConfig) (client.Client, error) {
	return newClient(w.ConfigAs(server, who))
}

// ClientGo is client-go's own for who.
func (w *World) ClientGo(server int, who rest.ImpersonationConfig) (*kubernetes.Clientset, error) {
	return kubernetes.NewForConfig(w.ConfigAs(server, who))
}
