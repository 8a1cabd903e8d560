package v1alpha1

import corev1 "k8s.io/api/core/v1"

// PodTemplate is what the pods of a Limiter have beside what every limiter has.
type PodTemplate struct {
	// resources of the container. Absent: 250m CPU and 128Mi are requested, and 2 CPU and 256Mi are the limits.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// nodeSelector is the labels of the nodes that the pods may run on.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// tolerations of the pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// affinity of the pods.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// priorityClassName is how important the pods are among others. Absent: what the cluster says.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// imagePullSecrets are Secrets with the credentials of registries, in the namespace of the Limiter.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []SecretReference `json:"imagePullSecrets,omitempty"`
	// labels of the pods, beside Weir's own.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="!('app.kubernetes.io/name' in self) && !('app.kubernetes.io/component' in self) && !('app.kubernetes.io/instance' in self)",message="app.kubernetes.io/name, /component and /instance are Weir's own: it finds its pods by them"
	Labels map[string]string `json:"labels,omitempty"`
	// annotations of the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Autoscaling changes the number of pods by their use of CPU.
// +kubebuilder:validation:XValidation:rule="self.maxReplicas < 1 || self.minReplicas <= self.maxReplicas",fieldPath=".minReplicas",message="minReplicas must not be above maxReplicas"
type Autoscaling struct {
	// minReplicas is the least number of pods.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MinReplicas int32 `json:"minReplicas,omitempty"`
	// maxReplicas is the greatest number of pods.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxReplicas int32 `json:"maxReplicas"`
	// targetCPUUtilizationPercentage is the use of CPU to aim at, in percent of what the pods request.
	// +optional
	// +kubebuilder:default=70
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	TargetCPUUtilizationPercentage int32 `json:"targetCPUUtilizationPercentage,omitempty"`
}

// DisruptionBudget is how many pods may be away at once while nodes are drained.
type DisruptionBudget struct {
	// maxUnavailable is how many.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxUnavailable int32 `json:"maxUnavailable,omitempty"`
}
