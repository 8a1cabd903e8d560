package deployment

import (
	"fmt"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// tracingArguments returns the flags for traces. A sample without an endpoint has no effect.
func tracingArguments(tracing v1alpha1.Tracing) []string {
	if tracing.Endpoint == "" {
		return nil
	}
	args := []string{"--tracing-endpoint=" + tracing.Endpoint}
	if tracing.SampleOneIn > 0 {
		args = append(args, fmt.Sprintf("--tracing-sample=%d", tracing.SampleOneIn))
	}
	return args
}

// tracingEgress allows connections to the port of the collector. It allows any IP address, because a NetworkPolicy cannot match host names.
func tracingEgress(tracing v1alpha1.Tracing) []networkingv1.NetworkPolicyEgressRule {
	collector, err := url.Parse(tracing.Endpoint)
	if err != nil || tracing.Endpoint == "" {
		return nil
	}
	port, err := strconv.ParseInt(collector.Port(), 10, 32)
	if err != nil { // impossible: the CRD schema requires a port
		return nil
	}
	return []networkingv1.NetworkPolicyEgressRule{{Ports: []networkingv1.NetworkPolicyPort{policyPort(corev1.ProtocolTCP, int32(port))}}}
}
