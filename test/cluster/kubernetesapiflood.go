package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// workloads are what a flood is made of.
func workloads() []v1alpha1.KubernetesResources {
	return []v1alpha1.KubernetesResources{
		{APIGroups: []v1alpha1.APIGroup{""}, Resources: []v1alpha1.ResourceName{"pods"}},
		{APIGroups: []v1alpha1.APIGroup{"apps"}, Resources: []v1alpha1.ResourceName{"deployments"}},
		{APIGroups: []v1alpha1.APIGroup{"batch"}, Resources: []v1alpha1.ResourceName{"jobs"}},
	}
}

// besideFlood has tenant B roll a Deployment out, while nobody else creates anything and while tenant A floods, in turn.
func (w *writers) besideFlood(ctx context.Context) error {
	const rounds, limit = 3, 6 // B creates as much in all
	if err := w.limits(perTenant("e2e-workloads", limit, workloads()...))(ctx); err != nil {
		return err
	}
	var quiet, flooded []time.Duration
	var flood attempts
	for range rounds {
		took, err := w.rollOut(ctx)
		if err != nil {
			return err
		}
		quiet = append(quiet, took)
		if took, err = w.flooded(ctx, &flood); err != nil {
			return err
		}
		flooded = append(flooded, took)
	}
	ratio := float64(quantile(flooded, 50)) / float64(quantile(quiet, 50))
	w.say("tenant A floods with pods, Deployments and Jobs, %d a minute allowed: %v", limit, &flood)
	w.say("tenant B rolls 3 replicas out: quiet %v, beside the flood %v; %.2f times as long (within 1.2: %v)", quiet, flooded, ratio, ratio <= 1.2)
	w.expect(flood.denied > flood.passed && flood.failed == nil, "tenant A was not throttled, or failed otherwise: %v", flood.failed)
	w.expect(ratio <= 1.5, "tenant B waits %.2f times as long beside the flood", ratio)
	return nil
}

// flooded is a rollout of B while A creates workloads in a loop, 100 at least: 20 a second, 200 times what it may.
// As many as an API server takes would measure the machine, for to deny costs time, too.
func (w *writers) flooded(ctx context.Context, flood *attempts) (time.Duration, error) {
	var over atomic.Bool
	var flooding sync.WaitGroup
	flooding.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for i := 0; i < 100 || !over.Load(); i++ {
			flood.count(w.a.create(ctx, w.workload(i)))
			<-tick.C
		}
	})
	took, err := w.rollOut(ctx)
	over.Store(true)
	flooding.Wait()
	return took, err
}

// workload is one of a flood.
func (w *writers) workload(i int) client.Object {
	labels := map[string]string{"flood": "a"}
	meta := metav1.ObjectMeta{GenerateName: "flood-", Labels: labels}
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: w.sleeps()}
	switch i % 3 {
	case 0:
		return &corev1.Pod{ObjectMeta: meta, Spec: pod.Spec}
	case 1:
		return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: pod}}
	default:
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		return &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: pod}}
	}
}

// sleeps is a pod that does nothing.
func (w *writers) sleeps() corev1.PodSpec {
	return corev1.PodSpec{
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		TerminationGracePeriodSeconds: new(int64(1)),
		Containers: []corev1.Container{{
			Name: "redis", Image: w.plan.redis, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"--save", ""},
		}},
	}
}

func (w *writers) threeReplicas(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenantB, Name: name, Labels: mine()},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: w.sleeps()},
		},
	}
}

// rollOut is how long tenant B waits for a Deployment. Afterwards it is gone.
func (w *writers) rollOut(ctx context.Context) (time.Duration, error) {
	w.rounds++
	d := w.threeReplicas(fmt.Sprintf("rollout-%d", w.rounds))
	began := time.Now()
	if _, err := w.b.create(ctx, d); err != nil {
		return 0, fmt.Errorf("tenant B creates a Deployment: %w", err)
	}
	_, err := w.quietly(ctx, "", "kubectl", "rollout", "status", "deployment/"+d.Name, "--timeout=2m", "--kubeconfig", w.b.kubeconfig)
	took := time.Since(began).Round(time.Millisecond)
	if err != nil {
		return took, err
	}
	return took, w.deleteWithPods(ctx, d)
}

func (w *writers) deleteWithPods(ctx context.Context, d *appsv1.Deployment) error {
	if err := w.Delete(ctx, d, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		return err
	}
	return until(func(ctx context.Context) error {
		pods, err := w.podsOf(ctx, d)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("deployment %s has %d pods still", d.Name, len(pods))
		}
		return err
	})(ctx)
}
