package misconfigured

import (
	"context"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/test/cluster/scenario"
)

const rightPassword = "correct-horse"

// startMisconfiguredServers starts a Redis with a password, a Redis that accepts only TLS, and a Redis that evicts keys.
func (s Steps) startMisconfiguredServers(ctx context.Context) error {
	right, key, err := cert.GenerateSelfSignedCertKey("redis-tls", nil, nil)
	if err != nil {
		return fmt.Errorf("create certificates: %w", err)
	}
	wrong, _, err := cert.GenerateSelfSignedCertKey("redis-tls", nil, nil)
	if err != nil {
		return fmt.Errorf("create certificates: %w", err)
	}
	objects := []client.Object{
		scenario.Namespace(scenario.Misconfigured),
		secret("server", map[string][]byte{"tls.crt": right, "tls.key": key}),
		secret("right-ca", map[string][]byte{"ca.crt": right}),
		secret("wrong-ca", map[string][]byte{"ca.crt": wrong}),
		password("right-password", rightPassword),
		password("wrong-password", "staple"),
	}
	objects = append(objects, s.redisServer("redis-password", "--requirepass", rightPassword)...)
	objects = append(objects, s.redisServer("redis-evicts", "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru")...)
	objects = append(objects, s.redisServer("redis-tls", "--port", "0", "--tls-port", strconv.Itoa(scenario.RedisPort), "--tls-auth-clients", "no",
		"--tls-ca-cert-file", "/tls/tls.crt", "--tls-cert-file", "/tls/tls.crt", "--tls-key-file", "/tls/tls.key")...)
	if err := s.CreateAll(ctx, objects...); err != nil {
		return err
	}
	return scenario.WaitUntil(scenario.Sequence(
		s.RolledOut(scenario.Misconfigured, "redis-password"),
		s.RolledOut(scenario.Misconfigured, "redis-evicts"),
		s.RolledOut(scenario.Misconfigured, "redis-tls")))(ctx)
}

func secret(name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: scenario.Misconfigured, Name: name, Labels: scenario.Labels()}, Data: data}
}

func password(name, value string) *corev1.Secret {
	return secret(name, map[string][]byte{"password": []byte(value)})
}

// redisServer returns a Redis with a Service of the same name.
func (s Steps) redisServer(name string, args ...string) []client.Object {
	meta := metav1.ObjectMeta{Namespace: scenario.Misconfigured, Name: name, Labels: scenario.Labels()}
	labels := map[string]string{"server": name}
	nonRoot := int64(65532)
	return []client.Object{
		&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: scenario.RedisPort}}}},
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				AutomountServiceAccountToken: new(false),
				EnableServiceLinks:           new(false),
				SecurityContext:              &corev1.PodSecurityContext{RunAsUser: &nonRoot, RunAsGroup: &nonRoot},
				Containers: []corev1.Container{{
					Name: "redis", Image: s.Options.Redis, ImagePullPolicy: corev1.PullIfNotPresent,
					Args:         append([]string{"--save", "", "--protected-mode", "no"}, args...),
					VolumeMounts: []corev1.VolumeMount{{Name: "tls", MountPath: "/tls"}},
					ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
						TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(scenario.RedisPort)},
					}},
				}},
				Volumes: []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "server"}}}},
			}},
		}},
	}
}
