package throttle

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
	"github.com/weir-dev/weir/test/cluster/scenario"
)

// workloads returns the resources of a flood.
func workloads() []v1alpha1.KubernetesResources {
	return []v1alpha1.KubernetesResources{
		{APIGroups: []v1alpha1.APIGroup{""}, Resources: []v1alpha1.ResourceName{"pods"}},
		{APIGroups: []v1alpha1.APIGroup{"apps"}, Resources: []v1alpha1.ResourceName{"deployments"}},
		{APIGroups: []v1alpha1.APIGroup{"batch"}, Resources: []v1alpha1.ResourceName{"jobs"}},
	}
}

// rollOutDuringFlood measures rollouts of tenant B, alternately on a quiet API server and during a flood of tenant A.
func (w *tenants) rollOutDuringFlood(ctx context.Context) error {
	const rounds, limit = 3, 6 // tenant B creates 6 Deployments in total
	if err := w.applyPolicies(perTenant("e2e-workloads", limit, workloads()...))(ctx); err != nil {
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
	w.Logf("tenant A creates pods, Deployments and Jobs, its limit is %d per minute: %v", limit, &flood)
	w.Logf("tenant B rolls out 3 replicas: quiet %v, during the flood %v; %.2f times as long (at most 1.2: %v)", quiet, flooded, ratio, ratio <= 1.2)
	w.Expect(flood.denied > flood.passed && flood.failed == nil, "tenant A was not throttled, or had other errors: %v", flood.failed)
	w.Expect(ratio <= 1.5, "rollouts of tenant B take %.2f times as long during the flood, want at most 1.5", ratio)
	return nil
}

// flooded measures a rollout of B while A creates at least 100 workloads, 20 per second, which is 200 times its limit. A higher rate would
// measure the capacity of the machine, because denials cost time too.
func (w *tenants) flooded(ctx context.Context, flood *attempts) (time.Duration, error) {
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

// workload returns object i of the flood.
func (w *tenants) workload(i int) client.Object {
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

// sleeps returns a pod that does nothing.
func (w *tenants) sleeps() corev1.PodSpec {
	return corev1.PodSpec{
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		TerminationGracePeriodSeconds: new(int64(1)),
		Containers: []corev1.Container{{
			Name: "redis", Image: w.Options.Redis, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"--save", ""},
		}},
	}
}

func (w *tenants) threeReplicas(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenantB, Name: name, Labels: scenario.Labels()},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: w.sleeps()},
		},
	}
}

// rollOut measures how long tenant B waits for a Deployment, and deletes the Deployment.
func (w *tenants) rollOut(ctx context.Context) (time.Duration, error) {
	w.rounds++
	d := w.threeReplicas(fmt.Sprintf("rollout-%d", w.rounds))
	began := time.Now()
	if _, err := w.b.create(ctx, d); err != nil {
		return 0, fmt.Errorf("tenant B creates a Deployment: %w", err)
	}
	_, err := w.Quietly(ctx, "", "kubectl", "rollout", "status", "deployment/"+d.Name, "--timeout=2m", "--kubeconfig", w.b.kubeconfig)
	took := time.Since(began).Round(time.Millisecond)
	if err != nil {
		return took, err
	}
	return took, w.deleteWithPods(ctx, d)
}

func (w *tenants) deleteWithPods(ctx context.Context, d *appsv1.Deployment) error {
	if err := w.Delete(ctx, d, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		return err
	}
	return scenario.WaitUntil(func(ctx context.Context) error {
		pods, err := w.PodsOf(ctx, d)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("deployment %s still has %d pods", d.Name, len(pods))
		}
		return err
	})(ctx)
}
