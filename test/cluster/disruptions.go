package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// disruptionSteps are events under load, and outages.
type disruptionSteps struct{ *scenario }

// disruption is an event during which no request may fail, and after which Weir must be in the same state as before.
type disruption struct {
	what string
	do   action
}

// disruptUnderLoad restarts, deletes and scales all pods of Weir under load. The hot policy shows whether units were counted twice or lost:
// its tenant must be admitted exactly as often as the limit allows.
func (s disruptionSteps) disruptUnderLoad(ctx context.Context) error {
	if err := s.resetCounters(ctx); err != nil {
		return err
	}
	load, err := s.resumeLoad(ctx)
	if err != nil {
		return err
	}
	for _, d := range s.disruptions(load) {
		if _, err := s.underLoad(ctx, load, d.what, d.do); err != nil {
			return err
		}
	}
	j, err := s.loadStats(ctx, load)
	if err != nil {
		return err
	}
	hot := traffic + "/" + hotPolicy
	counted, local := j.Total().Admitted[hot+" redis"], j.Total().Admitted[hot+" local"]
	s.logf("in total, the hot tenant was admitted %d times with Redis and %d times in local mode; its limit is %d", counted, local, hotLimit)
	s.expect(counted <= hotLimit && counted+local >= hotLimit, "the number of admissions differs from the limit: counters were lost, or units were counted twice")
	return s.stopLoad(ctx, load)
}

func (s disruptionSteps) disruptions(load loadPod) []disruption {
	limiters, operators := waitUntil(s.rolledOut(system, limiterPods)), waitUntil(s.rolledOut(system, operatorPods))
	edit := s.editWithin(load, takeOver)
	return []disruption{
		{"nothing, for comparison", func(ctx context.Context) error { return s.waitForStats(ctx, load, time.Now().Add(5*time.Second)) }},
		{"the limiters are restarted", s.restart(limiterPods)},
		{"the pod of a limiter is deleted", sequence(s.deletePod(limiterPods), limiters)},
		{"the Limiter is scaled to 3 and back", sequence(s.scaleTo(3), s.scaleTo(2))},
		{"the pod template of the Limiter is changed", sequence(s.changeTemplate, waitUntil(s.templateApplied), limiters)},
		{"the operators are restarted, and a policy is edited immediately", sequence(
			s.command("kubectl", "-n", system, "rollout", "restart", "deployment/"+operatorPods), edit, operators)},
		{"the leader of the operators is deleted, and a policy is edited immediately", sequence(s.deleteLeader, edit, operators)},
		{"the leader of the operators crashes, and a policy is edited immediately", sequence(s.crashLeader, edit, operators)},
		{"the leader of the operators is paused until another one leads, and a policy is edited meanwhile", sequence(
			func(ctx context.Context) error { return s.pauseLeader(ctx, load) }, operators)},
		{"Weir is upgraded to " + s.options.next, sequence(
			func(ctx context.Context) error { return s.applyManifest(ctx, s.options.next) },
			operators, waitUntil(s.runsImage(s.options.next)), limiters, edit)},
	}
}

func (s disruptionSteps) changeTemplate(ctx context.Context) error {
	return change(ctx, s.scenario, limiterNamed(system, "default"), func(l *v1alpha1.Limiter) {
		l.Spec.PodTemplate.Annotations = map[string]string{"e2e": time.Now().Format(time.RFC3339)}
	})
}

// deletePod deletes one pod and waits until it does not exist.
func (s disruptionSteps) deletePod(deployment string, how ...string) action {
	return func(ctx context.Context) error {
		pod, err := s.anyPod(ctx, system, deployment)
		if err != nil {
			return err
		}
		return s.run(ctx, append([]string{"kubectl", "-n", system, "delete", "pod", pod}, how...)...)
	}
}

// leader waits until an operator is the leader, and returns its pod. After a leader releases its lease, the other operator acquires it within
// two seconds.
func (s disruptionSteps) leader(ctx context.Context) (*corev1.Pod, error) {
	var pod corev1.Pod
	_, err := await(ctx, takeOver, func(ctx context.Context) error {
		var lease coordinationv1.Lease
		if err := s.Get(ctx, types.NamespacedName{Namespace: system, Name: "weir-operator"}, &lease); err != nil {
			return err
		}
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			return errors.New("no operator is the leader")
		}
		name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
		if err := s.Get(ctx, types.NamespacedName{Namespace: system, Name: name}, &pod); err != nil {
			return err
		}
		if pod.DeletionTimestamp != nil {
			return fmt.Errorf("the leader, pod %s, is being deleted", name)
		}
		return nil
	})
	return &pod, err
}

// deleteLeader deletes the pod of the leader, which releases the lease.
func (s disruptionSteps) deleteLeader(ctx context.Context) error {
	pod, err := s.leader(ctx)
	if err != nil {
		return err
	}
	return s.run(ctx, "kubectl", "-n", system, "delete", "pod", pod.Name, "--wait=false")
}

// crashLeader ends the process of the leader without a release of the lease, which must expire: an ephemeral container sends SIGQUIT. A
// deleted pod always gets SIGTERM, even with --force, and SIGKILL from within the pod does not affect its first process.
func (s disruptionSteps) crashLeader(ctx context.Context) error {
	pod, err := s.leader(ctx)
	if err != nil {
		return err
	}
	s.logf("operator pod %s crashes", pod.Name)
	restarts := pod.Status.ContainerStatuses[0].RestartCount
	pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{
		TargetContainerName: "operator",
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: "quit", Image: s.options.load, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"-quit", "1"},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		},
	})
	if _, err := s.sets.CoreV1().Pods(system).UpdateEphemeralContainers(ctx, pod.Name, pod, metav1.UpdateOptions{}); err != nil {
		return err
	}
	_, err = await(ctx, 30*time.Second, func(ctx context.Context) error {
		if err := s.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Status.ContainerStatuses[0].RestartCount == restarts && pod.Status.ContainerStatuses[0].State.Terminated == nil {
			return errors.New("the operator is still running")
		}
		return nil
	})
	return err
}

// pauseLeader stops the process of the leader until another operator leads and a policy is edited. When the process continues, it has the old
// policy and has not noticed that it does not lead any more. It must not publish that policy.
func (s disruptionSteps) pauseLeader(ctx context.Context, load loadPod) error {
	paused, err := s.leader(ctx)
	if err != nil {
		return err
	}
	status := paused.Status.ContainerStatuses[0]
	_, container, _ := strings.Cut(status.ContainerID, "://")
	pod := s.loadGenerator("pause", "-pause", container)
	pod.Spec.HostPID, pod.Spec.NodeName = true, paused.Spec.NodeName
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	_, err = await(ctx, takeOver, func(ctx context.Context) error {
		leader, err := s.leader(ctx)
		if err == nil && leader.Name == paused.Name {
			err = fmt.Errorf("the paused operator, pod %s, still is the leader", paused.Name)
		}
		return err
	})
	if err == nil {
		err = s.editWithin(load, takeOver)(ctx)
	}
	continued := time.Now()
	if err := errors.Join(err, s.Delete(context.WithoutCancel(ctx), pod)); err != nil {
		return err
	}
	// It ends when it notices that it does not lead.
	_, err = await(ctx, takeOver, sequence(s.deleted(pod), func(ctx context.Context) error {
		err := s.Get(ctx, client.ObjectKeyFromObject(paused), paused)
		if err == nil && paused.Status.ContainerStatuses[0].RestartCount == status.RestartCount {
			err = fmt.Errorf("the paused operator, pod %s, has not restarted", paused.Name)
		}
		return err
	}))
	if err != nil {
		return err
	}
	if err := s.waitForStats(ctx, load, time.Now().Add(2*time.Second)); err != nil {
		return err
	}
	stats, err := s.loadStats(ctx, load)
	if err != nil {
		return err
	}
	old := s.beforeEdit(stats)
	s.expect(old.Last.Before(continued), "the paused operator published the old policy: an answer had the old limit %v after it continued",
		old.Last.Sub(continued))
	return nil
}

// templateApplied checks that the Deployment has the annotations of the Limiter.
func (s disruptionSteps) templateApplied(ctx context.Context) error {
	limiter := limiterNamed(system, "default")
	d, err := s.limiterDeployment(ctx)
	if err != nil {
		return err
	}
	if err := s.hasCondition(limiter, condition{kind: "Programmed", status: "True"})(ctx); err != nil {
		return err
	}
	for key, value := range limiter.Spec.PodTemplate.Annotations {
		if d.Spec.Template.Annotations[key] != value {
			return fmt.Errorf("the template has %s=%q, want %q", key, d.Spec.Template.Annotations[key], value)
		}
	}
	return nil
}
