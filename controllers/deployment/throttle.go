package deployment

import (
	"context"
	"encoding/csv"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/weir-dev/weir/api/v1alpha1"
)

const (
	// ThrottlePort is where the pods of a throttling Limiter, and its Service, answer API servers.
	ThrottlePort = 9443
	// ThrottlePath is what API servers ask for there.
	ThrottlePath = "/v1/throttle"
	// ThrottleFinalizer is on a Limiter that API servers ask: from before its webhook comes until that is gone.
	ThrottleFinalizer = "weir.dev/throttle"
	// ThrottleSecret is the name of the Secret in the operator's namespace with the certificate that they answer with.
	ThrottleSecret = "weir-throttle-certificates"

	throttlePortName = "throttle"
	throttleDir      = "/etc/weir/throttle"
)

// Throttles says whether the Limiter wants API servers to ask it about writes.
func Throttles(limiter *v1alpha1.Limiter) bool {
	spec := limiter.Spec.KubernetesThrottle
	return spec != nil && (spec.Enabled == nil || *spec.Enabled)
}

// throttles says whether the pods of the Limiter are to answer API servers: those of a Limiter beside the operator may.
func (o Options) throttles(limiter *v1alpha1.Limiter) bool {
	return Throttles(limiter) && limiter.Namespace == o.OperatorNamespace
}

// withdrawing says whether API servers may still ask the Limiter, though it does not want that any more.
func withdrawing(limiter *v1alpha1.Limiter) bool {
	return !Throttles(limiter) && controllerutil.ContainsFinalizer(limiter, ThrottleFinalizer)
}

// asked says whether API servers are to reach the pods of the Limiter: as long as they ask, what it wants by then aside.
func (o Options) asked(limiter *v1alpha1.Limiter) bool {
	return o.throttles(limiter) || withdrawing(limiter) && limiter.Namespace == o.OperatorNamespace
}

// checkWithdrawn says that the pods have to go on answering API servers. What they were told for that the Limiter may not
// say any more.
func checkWithdrawn(limiter *v1alpha1.Limiter) error {
	if !withdrawing(limiter) {
		return nil
	}
	return pending("spec.kubernetesThrottle: its pods stay as they are until API servers ask them no more")
}

// Exempt is who is never limited, and where nothing is, each sorted.
type Exempt struct {
	Namespaces, Users, Groups []string
}

// The groups of those who can help when all else fails, and of the service accounts of a namespace.
const (
	mastersGroup         = "system:masters"
	serviceAccountsGroup = "system:serviceaccounts:"
)

// ExemptFrom is what a throttling Limiter says, and what no Limiter can take away: its own namespace, system:masters, and
// the service accounts of namespaces that are exempt. Without those who write there, nothing could be repaired there.
func ExemptFrom(limiter *v1alpha1.Limiter) Exempt {
	spec := limiter.Spec.KubernetesThrottle
	namespaces := sorted(spec.ExemptNamespaces, limiter.Namespace)
	groups := []string{mastersGroup}
	for _, namespace := range namespaces {
		groups = append(groups, serviceAccountsGroup+namespace)
	}
	return Exempt{Namespaces: namespaces, Users: sorted(spec.ExemptUsers), Groups: sorted(spec.ExemptGroups, groups...)}
}

func sorted[T ~string](given []T, more ...string) []string {
	all := slices.Clone(more)
	for _, one := range given {
		all = append(all, string(one))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// throttleArguments tell the process to answer API servers. Lists that are empty are told too: the flags have defaults.
func throttleArguments(limiter *v1alpha1.Limiter) []string {
	spec, exempt := limiter.Spec.KubernetesThrottle, ExemptFrom(limiter)
	args := []string{
		"--throttle-listen=:" + strconv.Itoa(ThrottlePort),
		"--throttle-cert=" + path.Join(throttleDir, certificateKey),
		"--throttle-key=" + path.Join(throttleDir, privateKeyKey),
		"--throttle-exempt-namespaces=" + list(exempt.Namespaces),
		"--throttle-exempt-users=" + list(exempt.Users),
		"--throttle-exempt-groups=" + list(exempt.Groups),
	}
	if spec.MaxRetryAfter != "" {
		args = append(args, "--throttle-max-retry-after="+string(spec.MaxRetryAfter))
	}
	if spec.WarnPercent != nil {
		args = append(args, "--throttle-warn-percent="+strconv.Itoa(int(*spec.WarnPercent)))
	}
	return args
}

// list is names as a flag takes them, which reads CSV, behind the kubelet, which reads $(NAME): the subject of a
// certificate may hold anything.
func list(names []string) string {
	if len(names) == 0 {
		return ""
	}
	var text strings.Builder
	w := csv.NewWriter(&text)
	_ = w.Write(names) // into memory
	w.Flush()
	return strings.ReplaceAll(strings.TrimSuffix(text.String(), "\n"), "$", "$$")
}

// throttleVolume must be there: a pod that came up without a certificate would have nothing to answer with. It is not all of
// the Secret, which also holds the private keys of the authorities that API servers trust.
func throttleVolume() corev1.Volume {
	volume := secretVolume(throttlePortName, ThrottleSecret)
	for _, key := range []string{certificateKey, privateKeyKey} {
		volume.Secret.Items = append(volume.Secret.Items, corev1.KeyToPath{Key: key, Path: key})
	}
	return volume
}

// lookAtThrottleSecret says what is missing of the certificate.
func (r *Reconciler) lookAtThrottleSecret(ctx context.Context, limiter *v1alpha1.Limiter) error {
	if !r.Options.throttles(limiter) {
		return nil
	}
	keys, err := r.keysOf(ctx, limiter.Namespace, ThrottleSecret)
	if err != nil {
		return err
	}
	for _, key := range []string{certificateKey, privateKeyKey} {
		if !keys.Has(key) {
			return secretMissing("spec.kubernetesThrottle: Secret %s has no key %s", ThrottleSecret, key)
		}
	}
	return nil
}
