package deployment

import (
	"context"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment/redisauth"
	"github.com/weir-dev/weir/controllers/ownership"
)

// Ports of DNS. The DNS pods of OpenShift listen on 5353, and a NetworkPolicy matches the port of the pod.
const (
	dnsPort          = 53
	openShiftDNSPort = 5353
)

// Indexes of the egress rules.
const (
	dnsRule = iota
	redisRule
)

// networkPolicy allows ingress to the ports of the pods from the peers in the spec. It allows egress only to DNS, Redis, the provider of its
// tokens, and the collector of traces.
//
// The egress rule for Redis allows the ports of its addresses. With Sentinel or a cluster it allows every TCP port, because nodes
// announce ports of their own. It allows any IP address, because a NetworkPolicy cannot match host names.
func networkPolicy(limiter *v1alpha1.Limiter, options Options) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		TypeMeta:   kindOf("networking.k8s.io", "v1", "NetworkPolicy"),
		ObjectMeta: objectMeta(limiter),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: *labelSelector(limiter),
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Ingress:     ingress(limiter, options),
			Egress: slices.Concat([]networkingv1.NetworkPolicyEgressRule{
				dnsRule: {Ports: []networkingv1.NetworkPolicyPort{
					policyPort(corev1.ProtocolUDP, dnsPort), policyPort(corev1.ProtocolTCP, dnsPort),
					policyPort(corev1.ProtocolUDP, openShiftDNSPort), policyPort(corev1.ProtocolTCP, openShiftDNSPort),
				}},
				redisRule: {Ports: redisPorts(limiter.Spec.Redis)},
			}, tracingEgress(limiter.Spec.Tracing), redisauth.Egress(limiter.Spec.Redis.Auth)),
		},
	}
}

// ingress allows the peers of each port. A port without peers is open: gateways may be in any namespace or outside the cluster.
func ingress(limiter *v1alpha1.Limiter, options Options) []networkingv1.NetworkPolicyIngressRule {
	from := limiter.Spec.NetworkPolicy.From
	open := networkingv1.NetworkPolicyIngressRule{}
	var restricted []networkingv1.NetworkPolicyIngressRule
	type source struct {
		number int32
		peers  []networkingv1.NetworkPolicyPeer
	}
	sources := []source{{httpPort, from.HTTP}, {grpcPort, from.GRPC}, {opsPort, from.Metrics}}
	if options.exposesThrottle(limiter) {
		sources = append(sources, source{ThrottlePort, from.Throttle})
	}
	for _, port := range sources {
		ports := []networkingv1.NetworkPolicyPort{policyPort(corev1.ProtocolTCP, port.number)}
		if len(port.peers) == 0 {
			open.Ports = append(open.Ports, ports...)
		} else {
			restricted = append(restricted, networkingv1.NetworkPolicyIngressRule{Ports: ports, From: port.peers})
		}
	}
	restricted = append(restricted, adminIngress(options)...)
	if len(open.Ports) == 0 { // a rule without ports would allow all ports
		return restricted
	}
	return append([]networkingv1.NetworkPolicyIngressRule{open}, restricted...)
}

func policyPort(protocol corev1.Protocol, port int32) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Protocol: new(protocol), Port: new(intstr.FromInt32(port))}
}

func redisPorts(redis v1alpha1.Redis) []networkingv1.NetworkPolicyPort {
	everyPort := []networkingv1.NetworkPolicyPort{{Protocol: new(corev1.ProtocolTCP)}}
	if mode := redis.EffectiveMode(); mode == v1alpha1.RedisSentinel || mode == v1alpha1.RedisCluster {
		return everyPort
	}
	var numbers []int32
	for _, address := range redis.Addresses {
		text := string(address)
		port, err := strconv.ParseInt(text[strings.LastIndexByte(text, ':')+1:], 10, 32)
		if err != nil { // impossible: the CRD schema requires a port
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

// applyNetworkPolicy is apply for the NetworkPolicy. If keep is true, it keeps the Redis ports that pods of an older template use.
func (r *Reconciler) applyNetworkPolicy(ctx context.Context, limiter *v1alpha1.Limiter, want *networkingv1.NetworkPolicy, keep bool) error {
	live, err := r.readLive(ctx, want)
	if err != nil {
		return err
	}
	if current, ok := live.(*networkingv1.NetworkPolicy); ok && keep && ownership.Belongs(current, limiter) {
		keepRedisPorts(want, current)
	}
	_, err = r.applyIfChanged(ctx, limiter, want, live)
	return err
}

// mayHaveOutdatedPods reports whether pods of an older template may exist, including terminating ones that still serve requests.
func mayHaveOutdatedPods(d *appsv1.Deployment) bool {
	if d == nil {
		return false
	}
	terminating := d.Status.TerminatingReplicas // of any template; nil if the cluster does not count them
	return d.Status.ObservedGeneration < d.Generation || outdatedReplicas(d) > 0 || terminating != nil && *terminating > 0
}

// keepRedisPorts adds the Redis ports of the live policy to the new one.
func keepRedisPorts(policy, current *networkingv1.NetworkPolicy) {
	if len(current.Spec.Egress) <= redisRule {
		return
	}
	to := &policy.Spec.Egress[redisRule]
	for _, port := range current.Spec.Egress[redisRule].Ports {
		if !slices.ContainsFunc(to.Ports, func(p networkingv1.NetworkPolicyPort) bool { return equality.Semantic.DeepEqual(p, port) }) {
			to.Ports = append(to.Ports, port)
		}
	}
}
