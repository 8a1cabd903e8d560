package deployment

import (
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment/redisauth"
	"github.com/weir-dev/weir/controllers/hashkey"
)

// Ports of a limiter.
const (
	httpPort = 8080
	grpcPort = 8081
	opsPort  = 9090
)

const (
	// graceSeconds, after the drain, covers up to 10 seconds for requests in flight, one second to remove the heartbeat, and a reserve.
	graceSeconds = 15
	// secretMode lets the user of the container read a mounted Secret, whatever its ID is. No other user runs in the pod.
	secretMode = 0o444
)

// Mount paths.
const (
	snapshotDir    = "/etc/weir/snapshot"
	credentialsDir = "/etc/weir/redis"
	tlsDir         = "/etc/weir/redis-tls"
	hashKeyDir     = "/etc/weir/hash-key"
)

func deployment(limiter *v1alpha1.Limiter, secrets Secrets, options Options) *appsv1.Deployment {
	d := &appsv1.Deployment{
		TypeMeta:   kindOf("apps", "v1", "Deployment"),
		ObjectMeta: objectMeta(limiter),
		Spec: appsv1.DeploymentSpec{
			// A new pod must be ready before an old one is stopped: callers never have fewer limiters than before.
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxUnavailable: new(intstr.FromInt32(0)),
					MaxSurge:       new(intstr.FromString("25%")),
				},
			},
			Selector: labelSelector(limiter),
			Template: pod(limiter, secrets, options),
		},
	}
	if limiter.Spec.Autoscaling == nil {
		d.Spec.Replicas = new(initialReplicas(limiter))
	}
	return d
}

func pod(limiter *v1alpha1.Limiter, secrets Secrets, options Options) corev1.PodTemplateSpec {
	template := limiter.Spec.PodTemplate
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels: mergeMaps(template.Labels, mergeMaps(redisauth.Labels(limiter.Spec.Redis.Auth), Labels(limiter))),
			Annotations: mergeMaps(mergeMaps(
				map[string]string{"kubectl.kubernetes.io/default-container": "limiter"},
				redisauth.Annotations(limiter.Spec.Redis.Auth), // pods have the identity that their ServiceAccount had when they were created
			), template.Annotations),
		},
		Spec: corev1.PodSpec{
			ServiceAccountName:            Name(limiter.Name),
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false), // a Service named weir would set variables with the prefix of the flags
			TerminationGracePeriodSeconds: new(drainSeconds(limiter) + graceSeconds),
			SecurityContext: &corev1.PodSecurityContext{ // without IDs: the image has a user, and OpenShift assigns one
				RunAsNonRoot:   new(true),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			NodeSelector:      template.NodeSelector,
			Tolerations:       template.Tolerations,
			Affinity:          template.Affinity,
			PriorityClassName: template.PriorityClassName,
			ImagePullSecrets:  pullSecrets(template.ImagePullSecrets),
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{
				spreadConstraint(limiter, corev1.LabelHostname), spreadConstraint(limiter, corev1.LabelTopologyZone),
			},
			Containers: []corev1.Container{container(limiter, secrets, options)},
			Volumes:    volumes(limiter, options),
		},
	}
}

// spreadConstraint spreads the pods of one template revision over nodes or zones where possible.
func spreadConstraint(limiter *v1alpha1.Limiter, over string) corev1.TopologySpreadConstraint {
	return corev1.TopologySpreadConstraint{
		TopologyKey:       over,
		MaxSkew:           1,
		WhenUnsatisfiable: corev1.ScheduleAnyway,
		MatchLabelKeys:    []string{"pod-template-hash"},
		LabelSelector:     labelSelector(limiter),
	}
}

func container(limiter *v1alpha1.Limiter, secrets Secrets, options Options) corev1.Container {
	resources := resourcesOf(limiter)
	image := options.Image
	if limiter.Spec.Image != "" {
		image = limiter.Spec.Image
	}
	return corev1.Container{
		Name:          "limiter",
		Image:         image,
		Args:          arguments(limiter, secrets, options, hasLimit(resources, corev1.ResourceMemory)),
		Env:           environment(limiter, resources),
		VolumeMounts:  mounts(limiter, options),
		Ports:         ports(limiter, options),
		LivenessProbe: probe("/healthz", 10, 3),
		// A limiter is ready once it has rules. The period is short because a rollout waits for readiness.
		ReadinessProbe: probe("/readyz", 2, 2),
		Resources:      resources,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

func ports(limiter *v1alpha1.Limiter, options Options) []corev1.ContainerPort {
	all := []corev1.ContainerPort{
		{Name: "http", ContainerPort: httpPort, Protocol: corev1.ProtocolTCP},
		{Name: "grpc", ContainerPort: grpcPort, Protocol: corev1.ProtocolTCP},
		{Name: "ops", ContainerPort: opsPort, Protocol: corev1.ProtocolTCP},
	}
	if options.servesThrottle(limiter) {
		all = append(all, corev1.ContainerPort{Name: throttlePortName, ContainerPort: ThrottlePort, Protocol: corev1.ProtocolTCP})
	}
	return append(all, adminPorts(options)...)
}

func probe(path string, period, timeout int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:   corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("ops")}},
		PeriodSeconds:  period,
		TimeoutSeconds: timeout,
	}
}

func resourcesOf(limiter *v1alpha1.Limiter) corev1.ResourceRequirements {
	if given := limiter.Spec.PodTemplate.Resources; given != nil {
		return *given
	}
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("256Mi")},
	}
}

// hasLimit reports whether the container has a limit for the resource. Without one, Kubernetes would pass the capacity of the node.
func hasLimit(resources corev1.ResourceRequirements, name corev1.ResourceName) bool {
	limit, found := resources.Limits[name]
	return found && !limit.IsZero()
}

// environment passes the resource limits to the process.
func environment(limiter *v1alpha1.Limiter, resources corev1.ResourceRequirements) []corev1.EnvVar {
	env := []corev1.EnvVar{{Name: "WEIR_REPLICAS", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: Name(limiter.Name)}, Key: replicasKey,
	}}}}
	if hasLimit(resources, corev1.ResourceCPU) { // more threads than CPUs would be throttled in the middle of a request
		env = append(env, limitVariable("GOMAXPROCS", "limits.cpu", "1"))
	}
	if hasLimit(resources, corev1.ResourceMemory) { // the number of MiB read as MB is 95 % of the limit; the rest is for memory that Go does not count
		env = append(env, limitVariable("MEMORY_LIMIT", "limits.memory", "1Mi"), corev1.EnvVar{Name: "GOMEMLIMIT", Value: "$(MEMORY_LIMIT)000000B"})
	}
	return env
}

func limitVariable(variable, limit, divisor string) corev1.EnvVar {
	return corev1.EnvVar{Name: variable, ValueFrom: &corev1.EnvVarSource{
		ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: limit, Divisor: resource.MustParse(divisor)},
	}}
}

func mounts(limiter *v1alpha1.Limiter, options Options) []corev1.VolumeMount {
	all := []corev1.VolumeMount{{Name: "snapshot", MountPath: snapshotDir, ReadOnly: true}}
	if credentialsSecret(limiter) != "" {
		all = append(all, corev1.VolumeMount{Name: "redis", MountPath: credentialsDir, ReadOnly: true})
	}
	if tlsSecret(limiter) != "" {
		all = append(all, corev1.VolumeMount{Name: "redis-tls", MountPath: tlsDir, ReadOnly: true})
	}
	for _, files := range tlsFiles(limiter) {
		all = append(all, corev1.VolumeMount{Name: files.volume, MountPath: files.dir(), ReadOnly: true})
	}
	if options.HashKey != nil {
		all = append(all, corev1.VolumeMount{Name: "hash-key", MountPath: hashKeyDir, ReadOnly: true})
	}
	if options.servesThrottle(limiter) {
		all = append(all, corev1.VolumeMount{Name: throttlePortName, MountPath: throttleDir, ReadOnly: true})
	}
	return all
}

// volumes mounts whole directories: a file that is mounted with subPath is not updated when its Secret changes.
func volumes(limiter *v1alpha1.Limiter, options Options) []corev1.Volume {
	all := []corev1.Volume{{
		// The rule set that the operator published last, for a start while Redis is unavailable. It does not exist before the first publication.
		Name:         "snapshot",
		VolumeSource: corev1.VolumeSource{Projected: snapshotVolume(limiter)},
	}}
	if name := credentialsSecret(limiter); name != "" {
		all = append(all, secretVolume("redis", name))
	}
	if name := tlsSecret(limiter); name != "" {
		all = append(all, secretVolume("redis-tls", name))
	}
	for _, files := range tlsFiles(limiter) {
		all = append(all, keysVolume(files.volume, files.secret, files.keys...))
	}
	if options.HashKey != nil {
		all = append(all, secretVolume("hash-key", hashKeySecret(limiter, hashkey.Of(options.HashKey, limiter))))
	}
	if options.servesThrottle(limiter) {
		all = append(all, throttleVolume())
	}
	return all
}

// snapshotVolume mounts the parts of the snapshot that exist into one directory.
func snapshotVolume(limiter *v1alpha1.Limiter) *corev1.ProjectedVolumeSource {
	volume := &corev1.ProjectedVolumeSource{}
	for part := range v1alpha1.SnapshotParts {
		key := v1alpha1.SnapshotKey(part)
		volume.Sources = append(volume.Sources, corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: v1alpha1.SnapshotName(limiter.Name, part)},
			Items:                []corev1.KeyToPath{{Key: key, Path: key}},
			Optional:             new(true),
		}})
	}
	return volume
}

func secretVolume(volume, secret string) corev1.Volume {
	return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: new(int32(secretMode))},
	}}
}

// keysVolume mounts only some keys of a Secret.
func keysVolume(volume, secret string, keys ...string) corev1.Volume {
	v := secretVolume(volume, secret)
	for _, key := range keys {
		v.Secret.Items = append(v.Secret.Items, corev1.KeyToPath{Key: key, Path: key})
	}
	return v
}

// mergeMaps returns lower overwritten with the entries of upper.
func mergeMaps(lower, upper map[string]string) map[string]string {
	all := maps.Clone(lower)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, upper)
	return all
}

const (
	// minMemory is the least memory limit with which a limiter starts.
	minMemory = "128Mi"
	// maxRedisTimeout is the longest Redis timeout of a limiter that API servers call.
	maxRedisTimeout = 750 * time.Millisecond
)

// checkTemplate rejects settings with which pods would not start, although the current or an older CRD accepts them.
func checkTemplate(limiter *v1alpha1.Limiter) error {
	timeout, err := time.ParseDuration(string(limiter.Spec.Redis.Timeout))
	if err == nil && timeout > maxRedisTimeout && Throttles(limiter) {
		return refused("spec.redis.timeout: %v is too long: with kubernetesThrottle it must be at most %v, because API servers do not wait longer",
			timeout, maxRedisTimeout)
	}
	limit, found := resourcesOf(limiter).Limits[corev1.ResourceMemory]
	if found && !limit.IsZero() && limit.Cmp(resource.MustParse(minMemory)) < 0 {
		return refused("spec.podTemplate.resources.limits.memory: %s is too low: a limiter needs at least %s to start", limit.String(), minMemory)
	}
	return nil
}

func pullSecrets(named []v1alpha1.SecretReference) []corev1.LocalObjectReference {
	var secrets []corev1.LocalObjectReference
	for _, secret := range named {
		secrets = append(secrets, corev1.LocalObjectReference{Name: secret.Name})
	}
	return secrets
}
