package deployment

import (
	"cmp"
	"maps"
	"strconv"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment/redisauth"
)

// serviceAccount has no role bindings, and its pods mount no token for the Kubernetes API, which a limiter never calls.
func serviceAccount(limiter *v1alpha1.Limiter) *corev1.ServiceAccount {
	account := &corev1.ServiceAccount{
		TypeMeta:                     kindOf("", "v1", "ServiceAccount"),
		ObjectMeta:                   objectMeta(limiter),
		AutomountServiceAccountToken: new(false),
	}
	account.Annotations = redisauth.Annotations(limiter.Spec.Redis.Auth)
	return account
}

// replicasKey is the key of the number of replicas in the start values.
const replicasKey = "replicas"

// startValues is a ConfigMap with values that a pod reads only when it starts. As command-line arguments they would replace all
// pods whenever the Limiter is scaled.
func startValues(limiter *v1alpha1.Limiter) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   kindOf("", "v1", "ConfigMap"),
		ObjectMeta: objectMeta(limiter),
		Data:       map[string]string{replicasKey: strconv.Itoa(int(max(1, initialReplicas(limiter))))},
	}
}

// initialReplicas returns the number of replicas. With an autoscaler, it is the number to start with.
func initialReplicas(limiter *v1alpha1.Limiter) int32 {
	replicas := *cmp.Or(limiter.Spec.Replicas, new(int32(2)))
	if a := limiter.Spec.Autoscaling; a != nil {
		return min(max(replicas, minReplicas(a)), a.MaxReplicas)
	}
	return replicas
}

func service(limiter *v1alpha1.Limiter, options Options) *corev1.Service {
	s := &corev1.Service{
		TypeMeta:   kindOf("", "v1", "Service"),
		ObjectMeta: objectMeta(limiter),
		Spec: corev1.ServiceSpec{
			Selector: selector(limiter),
			Ports: []corev1.ServicePort{
				{
					Name: "http", Protocol: corev1.ProtocolTCP, Port: httpPort, TargetPort: intstr.FromString("http"),
					AppProtocol: new(appProtocol("http", limiter.Spec.Endpoints.HTTP.TLS)),
				},
				{
					Name: "grpc", Protocol: corev1.ProtocolTCP, Port: grpcPort, TargetPort: intstr.FromString("grpc"),
					AppProtocol: new(appProtocol("kubernetes.io/h2c", limiter.Spec.Endpoints.GRPC.TLS)),
				},
			},
		},
	}
	if options.exposesThrottle(limiter) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{
			Name: "https-throttle", Protocol: corev1.ProtocolTCP, Port: ThrottlePort,
			TargetPort: intstr.FromString(throttlePortName), AppProtocol: new("https"),
		})
	}
	return s
}

// appProtocol returns the protocol of a port, which is plain without TLS. HTTP/2 over TLS is https too.
func appProtocol(plain string, tls *v1alpha1.EndpointTLS) string {
	if tls != nil {
		return "https"
	}
	return plain
}

// disruptionBudget limits how many limiters a node drain evicts at the same time. Pods that are not ready serve no calls and can
// always be evicted.
func disruptionBudget(limiter *v1alpha1.Limiter) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   kindOf("policy", "v1", "PodDisruptionBudget"),
		ObjectMeta: objectMeta(limiter),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable:             new(intstr.FromInt32(max(1, limiter.Spec.PodDisruptionBudget.MaxUnavailable))),
			UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow),
			Selector:                   labelSelector(limiter),
		},
	}
}

// The defaults of a Limiter that the pods do not have as the defaults of their flags.
const (
	defaultMinReplicas    = 2
	defaultCPUUtilization = 70 // percent of the CPU that the pods request
)

func minReplicas(a *v1alpha1.Autoscaling) int32 {
	return cmp.Or(a.MinReplicas, min(defaultMinReplicas, a.MaxReplicas))
}

func autoscaler(limiter *v1alpha1.Limiter) *autoscalingv2.HorizontalPodAutoscaler {
	spec := limiter.Spec.Autoscaling
	return &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta:   kindOf("autoscaling", "v2", "HorizontalPodAutoscaler"),
		ObjectMeta: objectMeta(limiter),
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: Name(limiter.Name)},
			MinReplicas:    new(minReplicas(spec)),
			MaxReplicas:    spec.MaxReplicas,
			Metrics: []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{
					Name: corev1.ResourceCPU,
					Target: autoscalingv2.MetricTarget{
						Type:               autoscalingv2.UtilizationMetricType,
						AverageUtilization: new(cmp.Or(int32(spec.TargetCPUUtilization.Int()), defaultCPUUtilization)),
					},
				},
			}},
		},
	}
}

// podMonitor makes Prometheus Operator scrape the metrics. It is unstructured because the cluster may not have its CRD. The labels of
// Weir replace additional labels of the same name.
func podMonitor(limiter *v1alpha1.Limiter, additional map[string]string) *unstructured.Unstructured {
	match := map[string]any{}
	for name, value := range selector(limiter) {
		match[name] = value
	}
	monitor := emptyPodMonitor()
	meta := objectMeta(limiter)
	monitor.SetNamespace(meta.Namespace)
	monitor.SetName(meta.Name)
	labels := maps.Clone(additional)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, meta.Labels)
	monitor.SetLabels(labels)
	monitor.SetOwnerReferences(meta.OwnerReferences)
	monitor.Object["spec"] = map[string]any{
		"selector": map[string]any{"matchLabels": match},
		"podMetricsEndpoints": []any{map[string]any{
			"port": "ops", "path": "/metrics",
			// Prometheus Operator adds a target label "endpoint", the name of the port. With it, Prometheus would rename the label
			// "endpoint" of weir_decision_duration_seconds to "exported_endpoint".
			"relabelings": []any{map[string]any{"action": "labeldrop", "regex": "endpoint"}},
		}},
	}
	return monitor
}

func emptyPodMonitor() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "monitoring.coreos.com/v1", "kind": "PodMonitor"}}
}
