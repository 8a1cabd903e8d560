package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// PodTemplate adds settings to the pods of a Limiter.
type PodTemplate struct {
	// resources are the compute resources of the limiter container. The memory limit also bounds the memory for local counters, which
	// replace Redis while it is unavailable. If omitted, the container requests 250m CPU and 128Mi memory, and its limits are 2 CPU and
	// 256Mi memory.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// nodeSelector is the set of labels that a node must have to run the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// tolerations are the tolerations of the pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// affinity is the affinity of the pods.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// priorityClassName is the name of the PriorityClass of the pods. If omitted, the default of the cluster applies.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// imagePullSecrets lists Secrets with registry credentials, in the namespace of the Limiter.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []SecretReference `json:"imagePullSecrets,omitempty"`
	// labels are labels of the pods, in addition to the labels that Weir sets.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="!('app.kubernetes.io/name' in self) && !('app.kubernetes.io/component' in self) && !('app.kubernetes.io/instance' in self)",message="labels must not have app.kubernetes.io/name, app.kubernetes.io/component or app.kubernetes.io/instance, because Weir selects its pods by them"
	Labels map[string]string `json:"labels,omitempty"`
	// annotations are annotations of the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Autoscaling scales the number of pods by their CPU utilization.
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || self.maxReplicas < 1 || self.minReplicas <= self.maxReplicas",fieldPath=".minReplicas",message="minReplicas must not be greater than maxReplicas"
type Autoscaling struct {
	// minReplicas is the lower limit for the number of pods. Defaults to 2, or to maxReplicas if that is lower.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MinReplicas int32 `json:"minReplicas,omitempty"`
	// maxReplicas is the upper limit for the number of pods.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxReplicas int32 `json:"maxReplicas"`
	// targetCPUUtilization is the target average CPU utilization, as a percentage of the CPU that the pods request, from 1% to 1000%. Defaults
	// to 70%.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([1-9][0-9]{0,2}|1000)%$')",message="targetCPUUtilization must be a whole percentage from 1% to 1000%"
	TargetCPUUtilization Percentage `json:"targetCPUUtilization,omitempty"`
}

// DisruptionBudget limits how many pods a voluntary disruption, such as a node drain, can evict at the same time.
type DisruptionBudget struct {
	// maxUnavailable is the maximum number of pods that can be unavailable at the same time. Defaults to 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxUnavailable int32 `json:"maxUnavailable,omitempty"`
}

// LimiterNetworkPolicy configures the NetworkPolicy of the pods. The operator creates one if it runs with --network-policies.
type LimiterNetworkPolicy struct {
	// from lists the peers that can connect to the pods, for each port.
	// +optional
	From NetworkSources `json:"from,omitzero"`
}

// NetworkSources lists the peers that can connect to the pods, for each port.
type NetworkSources struct {
	// http lists the peers that can connect to port 8080, as in a NetworkPolicy. A podSelector without a namespaceSelector selects pods in
	// the namespace of the Limiter. If omitted, all peers can connect.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	HTTP []networkingv1.NetworkPolicyPeer `json:"http,omitempty"`
	// grpc lists the peers that can connect to port 8081, in the same form. If omitted, all peers can connect.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	GRPC []networkingv1.NetworkPolicyPeer `json:"grpc,omitempty"`
	// metrics lists the peers that can connect to port 9090, in the same form. The probes of the kubelet do not need an entry. If omitted, all
	// peers can connect.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Metrics []networkingv1.NetworkPolicyPeer `json:"metrics,omitempty"`
	// throttle lists the peers that can connect to port 9443, the admission webhook, in the same form. API servers are usually outside the
	// pod network: list their networks as ipBlock. If omitted, all peers can connect.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Throttle []networkingv1.NetworkPolicyPeer `json:"throttle,omitempty"`
}
