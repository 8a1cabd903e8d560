package main

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
)

const (
	rightPassword = "correct-horse"
	redisPort     = 6379
)

// startMistakenServers starts a Redis that wants a password, one that speaks TLS alone and one that evicts.
func (s *story) startMistakenServers(ctx context.Context) error {
	right, key, err := cert.GenerateSelfSignedCertKey("redis-tls", nil, nil)
	if err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	wrong, _, err := cert.GenerateSelfSignedCertKey("redis-tls", nil, nil)
	if err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	objects := []client.Object{
		namespace(mistaken),
		secret("server", map[string][]byte{"tls.crt": right, "tls.key": key}),
		secret("right-authority", map[string][]byte{"ca.crt": right}),
		secret("wrong-authority", map[string][]byte{"ca.crt": wrong}),
		password("right-password", rightPassword),
		password("wrong-password", "staple"),
	}
	objects = append(objects, s.redisServer("redis-password", "--requirepass", rightPassword)...)
	objects = append(objects, s.redisServer("redis-evicts", "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru")...)
	objects = append(objects, s.redisServer("redis-tls", "--port", "0", "--tls-port", strconv.Itoa(redisPort), "--tls-auth-clients", "no",
		"--tls-ca-cert-file", "/tls/tls.crt", "--tls-cert-file", "/tls/tls.crt", "--tls-key-file", "/tls/tls.key")...)
	if err := s.create(ctx, objects...); err != nil {
		return err
	}
	return until(inOrder(s.rolled(mistaken, "redis-password"), s.rolled(mistaken, "redis-evicts"), s.rolled(mistaken, "redis-tls")))(ctx)
}

func secret(name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: mistaken, Name: name, Labels: mine()}, Data: data}
}

func password(name, is string) *corev1.Secret {
	return secret(name, map[string][]byte{"password": []byte(is)})
}

// redisServer is a Redis with a Service of its name.
func (s *story) redisServer(name string, args ...string) []client.Object {
	meta := metav1.ObjectMeta{Namespace: mistaken, Name: name, Labels: mine()}
	labels := map[string]string{"server": name}
	nobody := int64(65532)
	return []client.Object{
		&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: redisPort}}}},
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				AutomountServiceAccountToken: new(false),
				EnableServiceLinks:           new(false),
				SecurityContext:              &corev1.PodSecurityContext{RunAsUser: &nobody, RunAsGroup: &nobody},
				Containers: []corev1.Container{{
					Name: "redis", Image: s.plan.redis, ImagePullPolicy: corev1.PullIfNotPresent,
					Args:         append([]string{"--save", "", "--protected-mode", "no"}, args...),
					VolumeMounts: []corev1.VolumeMount{{Name: "tls", MountPath: "/tls"}},
					ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
						TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(redisPort)},
					}},
				}},
				Volumes: []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "server"}}}},
			}},
		}},
	}
}
