package commands

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/cluster/scenario"
)

const laggingName = "e2e-lagging"

// replicaLags adds a replica that cannot reach Redis, and whose snapshot is never updated. So it does not learn of an edit.
func (b *badDays) replicaLags(ctx context.Context) (err error) {
	b.Logf("A replica lags")
	snapshot, err := b.copySnapshot(ctx)
	if err != nil {
		return err
	}
	pod, err := b.withoutRedis(ctx)
	if err != nil {
		return err
	}
	defer func() {
		for _, o := range []client.Object{pod, snapshot} {
			err = errors.Join(err, client.IgnoreNotFound(b.Delete(context.WithoutCancel(ctx), o, client.GracePeriodSeconds(0))))
		}
	}()
	if err := b.CreateAll(ctx, snapshot, pod); err != nil {
		return err
	}
	if _, err := scenario.Await(ctx, 30*time.Second, b.podIsReady(pod)); err != nil {
		return err
	}
	b.show(ctx, true, nil, "rules", "diff")
	late := scenario.Policy(scenario.Support, "late", 5, "1h")
	if err := b.CreateAll(ctx, late); err != nil {
		return err
	}
	if _, err := scenario.Await(ctx, 30*time.Second, b.HasCondition(late, scenario.Ready("Programmed"))); err != nil {
		return err
	}
	stdout, _ := b.show(ctx, false, []string{"+++ enforced by " + laggingName, scenario.Support + "/late"}, "rules", "diff")
	b.Expect(strings.Count(stdout, "+++") == 1, "rules diff names replicas that enforce the published rules:\n%s", stdout)
	return client.IgnoreNotFound(b.Delete(ctx, late))
}

// copySnapshot returns a copy of the snapshot of the rules that are enforced now.
func (b *badDays) copySnapshot(ctx context.Context) (*corev1.ConfigMap, error) {
	key := v1alpha1.SnapshotKey(0)
	var data []byte
	_, err := scenario.Await(ctx, 30*time.Second, func(ctx context.Context) error {
		limiter := scenario.LimiterNamed(scenario.System, "default")
		snapshot := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: scenario.System, Name: v1alpha1.SnapshotName(limiter.Name, 0)}}
		for _, o := range []client.Object{limiter, &snapshot} {
			if err := b.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
		}
		data = snapshot.BinaryData[key]
		_, err := rules.DecodeAs(data, limiter.Status.Revision)
		return err
	})
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: scenario.System, Name: laggingName, Labels: scenario.Labels()}, BinaryData: map[string][]byte{key: data},
	}, err
}

// withoutRedis returns a copy of a replica that connects to a closed port instead of Redis. No ReplicaSet owns it.
func (b *badDays) withoutRedis(ctx context.Context) (*corev1.Pod, error) {
	replica := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: scenario.System, Name: b.pods[0]}}
	if err := b.Get(ctx, client.ObjectKeyFromObject(&replica), &replica); err != nil {
		return nil, err
	}
	labels := maps.Clone(replica.Labels)
	delete(labels, "pod-template-hash")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: scenario.System, Name: laggingName, Labels: labels}, Spec: *replica.Spec.DeepCopy()}
	pod.Spec.NodeName = ""
	args := pod.Spec.Containers[0].Args
	redis := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--redis=") })
	volume := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "snapshot" })
	if redis < 0 || volume < 0 {
		return nil, fmt.Errorf("pod %s has no --redis or no snapshot: %q", replica.Name, args)
	}
	args[redis] = "--redis=redis://127.0.0.1:1"
	pod.Spec.Volumes[volume].VolumeSource = corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: laggingName},
	}}
	return pod, nil
}

func (b *badDays) podIsReady(pod *corev1.Pod) scenario.Action {
	return func(ctx context.Context) error {
		if err := b.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("pod %s is not ready: %s", pod.Name, pod.Status.Phase)
	}
}
