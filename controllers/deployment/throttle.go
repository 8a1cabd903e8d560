package deployment

import (
	"context"
	"encoding/csv"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/weir-dev/weir/api/v1alpha1"
)

const (
	// ThrottlePort is the port of the throttle endpoint, on the pods and on the Service.
	ThrottlePort = 9443
	// ThrottlePath is the path of the throttle endpoint.
	ThrottlePath = "/v1/throttle"
	// ThrottleSecret is the Secret in the operator's namespace with the serving certificate of the throttle endpoint.
	ThrottleSecret = "weir-throttle-certificates"

	throttlePortName = "throttle"
	throttleDir      = "/etc/weir/throttle"
)

// Throttles reports whether the spec enables throttling of writes to the Kubernetes API.
func Throttles(limiter *v1alpha1.Limiter) bool {
	spec := limiter.Spec.KubernetesThrottle
	return spec != nil && spec.Mode != v1alpha1.ThrottleModeDisabled
}

// servesThrottle reports whether the pods serve the throttle endpoint. Only those of Limiters in the operator's namespace do.
func (o Options) servesThrottle(limiter *v1alpha1.Limiter) bool {
	return Throttles(limiter) && limiter.Namespace == o.OperatorNamespace
}

// awaitsWithdrawal reports whether API servers may still call the Limiter although its spec no longer enables throttling. The registration
// removes its condition after the webhook.
func awaitsWithdrawal(limiter *v1alpha1.Limiter) bool {
	return !Throttles(limiter) && meta.FindStatusCondition(limiter.Status.Conditions, v1alpha1.ConditionThrottleRegistered) != nil
}

// exposesThrottle reports whether the throttle port must be reachable: also while API servers may still call it.
func (o Options) exposesThrottle(limiter *v1alpha1.Limiter) bool {
	return o.servesThrottle(limiter) || awaitsWithdrawal(limiter) && limiter.Namespace == o.OperatorNamespace
}

// checkWithdrawal returns a conditionError while API servers may still call the Limiter. Its pods must not be replaced until then,
// because the spec may no longer contain the settings of the throttle endpoint.
func checkWithdrawal(limiter *v1alpha1.Limiter) error {
	if !awaitsWithdrawal(limiter) {
		return nil
	}
	return pending("spec.kubernetesThrottle: disabled; the pods are updated after the webhook is removed")
}

func sortedTexts[T ~string](given []T) []string {
	all := make([]string, len(given))
	for i, one := range given {
		all[i] = string(one)
	}
	slices.Sort(all) // the order does not matter: a different one must not replace the pods
	return all
}

// throttleArguments enable the throttle endpoint. The process knows its own namespace from --limiter.
func throttleArguments(limiter *v1alpha1.Limiter) []string {
	spec := limiter.Spec.KubernetesThrottle
	args := []string{
		"--throttle-listen=:" + strconv.Itoa(ThrottlePort),
		"--throttle-cert=" + path.Join(throttleDir, certificateKey),
		"--throttle-key=" + path.Join(throttleDir, privateKeyKey),
	}
	for _, list := range [...]struct {
		flag  string
		names []string
	}{
		{"--throttle-additional-exempt-namespaces=", sortedTexts(spec.AdditionalExemptNamespaces)},
		{"--throttle-additional-exempt-users=", sortedTexts(spec.AdditionalExemptUsers)},
		{"--throttle-additional-exempt-groups=", sortedTexts(spec.AdditionalExemptGroups)},
	} {
		if len(list.names) > 0 {
			args = append(args, list.flag+csvList(list.names))
		}
	}
	if spec.MaxRetryAfter != "" {
		args = append(args, "--throttle-max-retry-after="+string(spec.MaxRetryAfter))
	}
	if spec.WarnAt != "" {
		args = append(args, "--throttle-warn-percent="+strconv.FormatInt(spec.WarnAt.Int(), 10))
	}
	return args
}

// csvList encodes names for a flag that reads CSV. It escapes "$", because the kubelet expands $(NAME). Names, such as the subject of a
// certificate, may contain any character.
func csvList(names []string) string {
	var text strings.Builder
	w := csv.NewWriter(&text)
	_ = w.Write(names) // writes into memory and cannot fail
	w.Flush()
	return strings.ReplaceAll(strings.TrimSuffix(text.String(), "\n"), "$", "$$")
}

// throttleVolume is not optional: without a certificate a pod could not serve. It mounts only the serving pair, because the Secret also
// holds the private keys of the CAs that API servers trust.
func throttleVolume() corev1.Volume {
	return keysVolume(throttlePortName, ThrottleSecret, certificateKey, privateKeyKey)
}

// checkThrottleSecret returns a conditionError if the Secret with the serving certificate is incomplete. It adds the certificate to found.
func (r *Reconciler) checkThrottleSecret(ctx context.Context, limiter *v1alpha1.Limiter, found *Secrets) error {
	if !r.Options.servesThrottle(limiter) {
		return nil
	}
	keys, certificate, err := r.readKeys(ctx, limiter.Namespace, ThrottleSecret)
	if err != nil {
		return err
	}
	for _, key := range []string{certificateKey, privateKeyKey} {
		if !keys.Has(key) {
			return secretMissing("spec.kubernetesThrottle: Secret %s has no key %s: waiting for its owner to issue the certificate", ThrottleSecret, key)
		}
	}
	found.addCertificate(v1alpha1.CertificateKubernetesThrottle, ThrottleSecret, certificate)
	return nil
}
