package deployment

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/limiter/mutualtls"
)

const (
	// adminPort is the port of the admin endpoint on the pods. Only the operator can call it.
	adminPort = 9092
	// AdminPortName is the name of this port.
	AdminPortName = "admin"
)

// servesAdmin reports whether the pods serve the admin endpoint: its keys are derived from the hash keys.
func (o Options) servesAdmin() bool { return o.HashKey != nil }

// adminArguments enable the admin endpoint. The key is public.
func adminArguments(options Options) []string {
	if !options.servesAdmin() {
		return nil
	}
	return []string{
		"--admin-listen=:" + strconv.Itoa(adminPort),
		"--admin-operator-key=" + mutualtls.PublicText(mutualtls.OperatorKey(options.HashKey)),
	}
}

func adminPorts(options Options) []corev1.ContainerPort {
	if !options.servesAdmin() {
		return nil
	}
	return []corev1.ContainerPort{{Name: AdminPortName, ContainerPort: adminPort, Protocol: corev1.ProtocolTCP}}
}

// adminIngress allows only pods of the operator.
func adminIngress(options Options) []networkingv1.NetworkPolicyIngressRule {
	if !options.servesAdmin() {
		return nil
	}
	return []networkingv1.NetworkPolicyIngressRule{{
		Ports: []networkingv1.NetworkPolicyPort{policyPort(corev1.ProtocolTCP, adminPort)},
		From: []networkingv1.NetworkPolicyPeer{{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: options.OperatorNamespace}},
			PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
				"app.kubernetes.io/name": "weir", "app.kubernetes.io/component": "operator",
			}},
		}},
	}}
}
