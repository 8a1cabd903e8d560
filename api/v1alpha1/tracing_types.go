package v1alpha1

// Tracing makes the pods send OpenTelemetry traces of sampled requests to a collector.
type Tracing struct {
	// endpoint is the URL of the collector, which receives OTLP over gRPC: http:// or, with TLS, https://, the host and the port. If omitted, no
	// requests are traced. The generated NetworkPolicy allows connections to this port.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=266
	// +kubebuilder:validation:Pattern=`^https?://([a-zA-Z0-9]([a-zA-Z0-9_.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:.]+\]):([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$`
	Endpoint string `json:"endpoint,omitempty"`
	// sampleOneIn traces one in so many of the requests without a W3C trace context. If omitted or 0, they are not traced. If a request has
	// a trace context, its caller decides whether it is traced.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	SampleOneIn int32 `json:"sampleOneIn,omitempty"`
}
