package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LimiterCertificate describes the certificate in a Secret of a Limiter.
type LimiterCertificate struct {
	// use is what the certificate is for: Redis (the client certificate for Redis), HTTP, GRPC or KubernetesThrottle (the certificate that the
	// pods serve on that port).
	// +required
	Use CertificateUse `json:"use"`
	// secret is the name of the Secret in the namespace of the Limiter. Its key tls.crt has the certificate.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Secret string `json:"secret"`
	// notBefore is when the certificate begins to be valid.
	// +required
	NotBefore metav1.Time `json:"notBefore"`
	// notAfter is when the certificate expires.
	// +required
	NotAfter metav1.Time `json:"notAfter"`
}

// CertificateUse is what a certificate of a Limiter is for.
// +kubebuilder:validation:Enum=Redis;HTTP;GRPC;KubernetesThrottle
type CertificateUse string

const (
	// CertificateRedis is the client certificate for Redis.
	CertificateRedis CertificateUse = "Redis"
	// CertificateHTTP is the certificate of the HTTP port.
	CertificateHTTP CertificateUse = "HTTP"
	// CertificateGRPC is the certificate of the gRPC port.
	CertificateGRPC CertificateUse = "GRPC"
	// CertificateKubernetesThrottle is the certificate of the endpoint that API servers call.
	CertificateKubernetesThrottle CertificateUse = "KubernetesThrottle"
)
