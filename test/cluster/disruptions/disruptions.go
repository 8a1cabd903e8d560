// Package disruptions has the steps that restart, delete, pause and upgrade parts of Weir while clients depend on it.
package disruptions

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
	"github.com/weir-dev/weir/test/cluster/scenario"
)

// Steps are the steps of a scenario.
type Steps struct{ *scenario.Scenario }

// disruption is an event during which no request may fail, and after which Weir must be in the same state as before.
type disruption struct {
	what string
	do   scenario.Action
}

// DisruptUnderLoad restarts, deletes and scales all pods of Weir under load. The hot policy shows whether units were counted twice or lost:
// its tenant must be admitted exactly as often as the limit allows.
func (s Steps) DisruptUnderLoad(ctx context.Context) error {
	if err := s.ResetCounters(ctx); err != nil {
		return err
	}
	load, err := s.ResumeLoad(ctx)
	if err != nil {
		return err
	}
	for _, d := range s.disruptions(load) {
		if _, err := s.UnderLoad(ctx, load, d.what, d.do); err != nil {
			return err
		}
	}
	j, err := s.LoadStats(ctx, load)
	if err != nil {
		return err
	}
	hot := scenario.Traffic + "/" + scenario.HotPolicy
	counted, local := j.Total().Admitted[hot+" redis"], j.Total().Admitted[hot+" local"]
	s.Logf("in total, the hot tenant was admitted %d times with Redis and %d times in local mode; its limit is %d", counted, local, scenario.HotLimit)
	s.Expect(counted <= scenario.HotLimit && counted+local >= scenario.HotLimit,
		"the number of admissions differs from the limit: counters were lost, or units were counted twice")
	return s.StopLoad(ctx, load)
}

func (s Steps) disruptions(load scenario.Load) []disruption {
	limiters := scenario.WaitUntil(s.RolledOut(scenario.System, scenario.LimiterPods))
	operators := scenario.WaitUntil(s.RolledOut(scenario.System, scenario.OperatorPods))
	edit := s.EditWithin(load, scenario.TakeOver)
	return []disruption{
		{"nothing, for comparison", func(ctx context.Context) error { return s.WaitForStats(ctx, load, time.Now().Add(5*time.Second)) }},
		{"the limiters are restarted", s.Restart(scenario.LimiterPods)},
		{"the pod of a limiter is deleted", scenario.Sequence(s.deletePod(scenario.LimiterPods), limiters)},
		{"the Limiter is scaled to 3 and back", scenario.Sequence(s.ScaleTo(3), s.ScaleTo(2))},
		{"the pod template of the Limiter is changed", scenario.Sequence(s.changeTemplate, scenario.WaitUntil(s.templateApplied), limiters)},
		{"the operators are restarted, and a policy is edited immediately", scenario.Sequence(
			s.Command("kubectl", "-n", scenario.System, "rollout", "restart", "deployment/"+scenario.OperatorPods), edit, operators)},
		{"the leader of the operators is deleted, and a policy is edited immediately", scenario.Sequence(s.deleteLeader, edit, operators)},
		{"the leader of the operators crashes, and a policy is edited immediately", scenario.Sequence(s.crashLeader, edit, operators)},
		{"the leader of the operators is paused until another one leads, and a policy is edited meanwhile", scenario.Sequence(
			func(ctx context.Context) error { return s.pauseLeader(ctx, load) }, operators)},
		{"Weir is upgraded to " + s.Options.Next, scenario.Sequence(
			func(ctx context.Context) error { return s.ApplyManifest(ctx, s.Options.Next) },
			operators, scenario.WaitUntil(s.RunsImage(s.Options.Next)), limiters, edit)},
	}
}

func (s Steps) changeTemplate(ctx context.Context) error {
	return scenario.Change(ctx, s.Scenario, scenario.LimiterNamed(scenario.System, "default"), func(l *v1alpha1.Limiter) {
		l.Spec.PodTemplate.Annotations = map[string]string{"e2e": time.Now().Format(time.RFC3339)}
	})
}

// deletePod deletes one pod and waits until it does not exist.
func (s Steps) deletePod(deployment string, how ...string) scenario.Action {
	return func(ctx context.Context) error {
		pod, err := s.AnyPod(ctx, scenario.System, deployment)
		if err != nil {
			return err
		}
		return s.Run(ctx, append([]string{"kubectl", "-n", scenario.System, "delete", "pod", pod}, how...)...)
	}
}

// leader waits until an operator is the leader, and returns its pod. After a leader releases its lease, the other operator acquires it within
// two seconds.
func (s Steps) leader(ctx context.Context) (*corev1.Pod, error) {
	var pod corev1.Pod
	_, err := scenario.Await(ctx, scenario.TakeOver, func(ctx context.Context) error {
		var lease coordinationv1.Lease
		if err := s.Get(ctx, types.NamespacedName{Namespace: scenario.System, Name: "weir-operator"}, &lease); err != nil {
			return err
		}
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			return errors.New("no operator is the leader")
		}
		name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
		if err := s.Get(ctx, types.NamespacedName{Namespace: scenario.System, Name: name}, &pod); err != nil {
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
func (s Steps) deleteLeader(ctx context.Context) error {
	pod, err := s.leader(ctx)
	if err != nil {
		return err
	}
	return s.Run(ctx, "kubectl", "-n", scenario.System, "delete", "pod", pod.Name, "--wait=false")
}

// crashLeader ends the process of the leader without a release of the lease, which must expire: an ephemeral container sends SIGQUIT. A
// deleted pod always gets SIGTERM, even with --force, and SIGKILL from within the pod does not affect its first process.
func (s Steps) crashLeader(ctx context.Context) error {
	pod, err := s.leader(ctx)
	if err != nil {
		return err
	}
	s.Logf("operator pod %s crashes", pod.Name)
	restarts := pod.Status.ContainerStatuses[0].RestartCount
	pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{
		TargetContainerName: "operator",
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: "quit", Image: s.Options.Load, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"-quit", "1"},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		},
	})
	if _, err := s.Sets.CoreV1().Pods(scenario.System).UpdateEphemeralContainers(ctx, pod.Name, pod, metav1.UpdateOptions{}); err != nil {
		return err
	}
	_, err = scenario.Await(ctx, 30*time.Second, func(ctx context.Context) error {
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
func (s Steps) pauseLeader(ctx context.Context, load scenario.Load) error {
	paused, err := s.leader(ctx)
	if err != nil {
		return err
	}
	status := paused.Status.ContainerStatuses[0]
	_, container, _ := strings.Cut(status.ContainerID, "://")
	pod := s.LoadGenerator("pause", "-pause", container)
	pod.Spec.HostPID, pod.Spec.NodeName = true, paused.Spec.NodeName
	if err := s.CreateAll(ctx, pod); err != nil {
		return err
	}
	_, err = scenario.Await(ctx, scenario.TakeOver, func(ctx context.Context) error {
		leader, err := s.leader(ctx)
		if err == nil && leader.Name == paused.Name {
			err = fmt.Errorf("the paused operator, pod %s, still is the leader", paused.Name)
		}
		return err
	})
	if err == nil {
		err = s.EditWithin(load, scenario.TakeOver)(ctx)
	}
	continued := time.Now()
	if err := errors.Join(err, s.Delete(context.WithoutCancel(ctx), pod)); err != nil {
		return err
	}
	// It ends when it notices that it does not lead.
	_, err = scenario.Await(ctx, scenario.TakeOver, scenario.Sequence(s.Deleted(pod), func(ctx context.Context) error {
		err := s.Get(ctx, client.ObjectKeyFromObject(paused), paused)
		if err == nil && paused.Status.ContainerStatuses[0].RestartCount == status.RestartCount {
			err = fmt.Errorf("the paused operator, pod %s, has not restarted", paused.Name)
		}
		return err
	}))
	if err != nil {
		return err
	}
	if err := s.WaitForStats(ctx, load, time.Now().Add(2*time.Second)); err != nil {
		return err
	}
	stats, err := s.LoadStats(ctx, load)
	if err != nil {
		return err
	}
	old := s.BeforeEdit(stats)
	s.Expect(old.Last.Before(continued), "the paused operator published the old policy: an answer had the old limit %v after it continued",
		old.Last.Sub(continued))
	return nil
}

// templateApplied checks that the Deployment has the annotations of the Limiter.
func (s Steps) templateApplied(ctx context.Context) error {
	limiter := scenario.LimiterNamed(scenario.System, "default")
	d, err := s.LimiterDeployment(ctx)
	if err != nil {
		return err
	}
	if err := s.HasCondition(limiter, scenario.Condition{Kind: "Programmed", Status: "True"})(ctx); err != nil {
		return err
	}
	for key, value := range limiter.Spec.PodTemplate.Annotations {
		if d.Spec.Template.Annotations[key] != value {
			return fmt.Errorf("the template has %s=%q, want %q", key, d.Spec.Template.Annotations[key], value)
		}
	}
	return nil
}
