package kubernetes

import (
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const authenticated = "system:authenticated"

// Person returns a user who is not a service account.
func Person(name string, groups ...string) rest.ImpersonationConfig {
	return rest.ImpersonationConfig{UserName: name, Groups: append(groups, authenticated)}
}

// ServiceAccount returns a service account, in the groups of all service accounts.
func ServiceAccount(namespace, name string) rest.ImpersonationConfig {
	return rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + name,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, authenticated},
	}
}

// ConfigAs returns a client configuration for the user and API server 0 or 1, without client-side throttling.
func (w *World) ConfigAs(server int, who rest.ImpersonationConfig) *rest.Config {
	config := w.Kube.ConfigOf(server)
	config.Impersonate, config.QPS = who, -1
	config.WarningHandler = rest.NoWarnings{}
	return config
}

// As returns a client for the user and API server 0 or 1.
func (w *World) As(server int, who rest.ImpersonationConfig) (client.Client, error) {
	return newClient(w.ConfigAs(server, who))
}

// ClientGo returns a client-go clientset for the user and API server 0 or 1.
func (w *World) ClientGo(server int, who rest.ImpersonationConfig) (*kubernetes.Clientset, error) {
	return kubernetes.NewForConfig(w.ConfigAs(server, who))
}
