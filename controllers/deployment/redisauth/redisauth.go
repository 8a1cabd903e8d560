// Package redisauth computes what pods need to authenticate with Redis by tokens of a cloud provider.
package redisauth

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// The names by which the webhooks and metadata servers of the clouds find the identity of a pod.
const (
	awsRoleAnnotation       = "eks.amazonaws.com/role-arn"
	googleAccountAnnotation = "iam.gke.io/gcp-service-account"
	azureClientAnnotation   = "azure.workload.identity/client-id"
	azureUseLabel           = "azure.workload.identity/use"
)

// Arguments returns the flags of the provider of tokens for Redis.
func Arguments(auth *v1alpha1.RedisAuth) []string {
	switch {
	case auth == nil:
		return nil
	case auth.AWS != nil:
		return []string{
			"--redis-auth=" + string(auth.AWS.Service), "--redis-auth-cache=" + auth.AWS.Name,
			"--redis-auth-region=" + auth.AWS.Region, "--redis-auth-user=" + string(auth.AWS.User),
		}
	case auth.Google != nil:
		return []string{"--redis-auth=Google"}
	case auth.Azure != nil:
		return []string{"--redis-auth=Azure"}
	default: // impossible: the CRD schema requires a member
		return nil
	}
}

// Annotations returns the annotations of the ServiceAccount that give its pods an identity of a cloud.
func Annotations(auth *v1alpha1.RedisAuth) map[string]string {
	switch {
	case auth == nil:
		return nil
	case auth.AWS != nil && auth.AWS.RoleARN != "":
		return map[string]string{awsRoleAnnotation: auth.AWS.RoleARN}
	case auth.Google != nil && auth.Google.ServiceAccount != "":
		return map[string]string{googleAccountAnnotation: auth.Google.ServiceAccount}
	case auth.Azure != nil && auth.Azure.ClientID != "":
		return map[string]string{azureClientAnnotation: auth.Azure.ClientID}
	default:
		return nil
	}
}

// Labels returns the labels of pods that get a token for the identity. They are no part of a selector.
func Labels(auth *v1alpha1.RedisAuth) map[string]string {
	if auth == nil || auth.Azure == nil || auth.Azure.ClientID == "" {
		return nil
	}
	return map[string]string{azureUseLabel: "true"}
}

// Egress allows connections to the providers of tokens: at the addresses of the node by number, and to those in the internet by port, because a
// NetworkPolicy cannot match host names.
func Egress(auth *v1alpha1.RedisAuth) []networkingv1.NetworkPolicyEgressRule {
	const instanceMetadata = "169.254.169.254/32"
	internet := networkingv1.NetworkPolicyEgressRule{Ports: []networkingv1.NetworkPolicyPort{tcp(443)}}
	switch {
	case auth == nil:
		return nil
	case auth.AWS != nil: // the agent of EKS Pod Identity, and STS
		return []networkingv1.NetworkPolicyEgressRule{
			nodeEgress(80, instanceMetadata, "fd00:ec2::254/128", "169.254.170.23/32", "fd00:ec2::23/128"), internet,
		}
	case auth.Google != nil: // GKE translates the address to that of its metadata server, before or after the NetworkPolicy
		return []networkingv1.NetworkPolicyEgressRule{nodeEgress(80, instanceMetadata), nodeEgress(988, "169.254.169.252/32")}
	default: // the metadata service, and Microsoft Entra ID
		return []networkingv1.NetworkPolicyEgressRule{nodeEgress(80, instanceMetadata), internet}
	}
}

// nodeEgress allows connections to a port of addresses that belong to the node.
func nodeEgress(port int32, blocks ...string) networkingv1.NetworkPolicyEgressRule {
	rule := networkingv1.NetworkPolicyEgressRule{Ports: []networkingv1.NetworkPolicyPort{tcp(port)}}
	for _, block := range blocks {
		rule.To = append(rule.To, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: block}})
	}
	return rule
}

func tcp(port int32) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt32(port))}
}
