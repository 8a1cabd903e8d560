package deployment

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// The ports of DNS: as everywhere, and as the pods of OpenShift's DNS listen, for a policy sees the port of the pod.
const (
	dnsPort          = 53
	openShiftDNSPort = 5353
)

// networkPolicy lets pods be reached at their ports from everywhere, for gateways may be in any namespace or before the
// cluster, as API servers are; and lets them reach DNS and Redis.
//
// Redis is the port of its address, or, of Sentinels and clusters, whose nodes announce ports of their own, every TCP
// port. It is any address: a policy knows no names.
func networkPolicy(limiter *v1alpha1.Limiter, options Options) *networkingv1.NetworkPolicy {
	ports := []networkingv1.NetworkPolicyPort{
		policyPort(corev1.ProtocolTCP, httpPort), policyPort(corev1.ProtocolTCP, grpcPort), policyPort(corev1.ProtocolTCP, opsPort),
	}
	if options.throttles(limiter) {
		ports = append(ports, policyPort(corev1.ProtocolTCP, ThrottlePort))
	}
	return &networkingv1.NetworkPolicy{
		TypeMeta:   kindOf("networking.k8s.io", "v1", "NetworkPolicy"),
		ObjectMeta: objectMeta(limiter),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: *labelSelector(limiter),
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{{Ports: ports}},
			Egress: []networkingv1.NetworkPolicyEgressRule{
				{Ports: []networkingv1.NetworkPolicyPort{
					policyPort(corev1.ProtocolUDP, dnsPort), policyPort(corev1.ProtocolTCP, dnsPort),
					policyPort(corev1.ProtocolUDP, openShiftDNSPort), policyPort(corev1.ProtocolTCP, openShiftDNSPort),
				}},
				{Ports: redisPorts(limiter.Spec.Redis)},
			},
		},
	}
}

func policyPort(protocol corev1.Protocol, port int32) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Protocol: new(protocol), Port: new(intstr.FromInt32(port))}
}

func redisPorts(redis v1alpha1.Redis) []networkingv1.NetworkPolicyPort {
	everyPort := []networkingv1.NetworkPolicyPort{{Protocol: new(corev1.ProtocolTCP)}}
	if redis.Mode == v1alpha1.RedisSentinel || redis.Mode == v1alpha1.RedisCluster {
		return everyPort
	}
	var numbers []int32
	for _, address := range redis.Addresses {
		text := string(address)
		port, err := strconv.ParseInt(text[strings.LastIndexByte(text, ':')+1:], 10, 32)
		if err != nil { // the schema of the API lets no such address in
			return everyPort
		}
		numbers = append(numbers, int32(port))
	}
	slices.Sort(numbers)
	var ports []networkingv1.NetworkPolicyPort
	for _, number := range slices.Compact(numbers) {
		ports = append(ports, policyPort(corev1.ProtocolTCP, number))
	}
	return ports
}
