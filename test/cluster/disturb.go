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

const (
	limiterPods  = "weir-limiter-default" // Deployments
	operatorPods = "weir-operator"
	redisPods    = "redis"
	// takeOver is how long an edit may wait for an operator that was not elected.
	takeOver = 30 * time.Second
)

// disturbance is something after which Weir is to be as before, with no request failed meanwhile.
type disturbance struct {
	what string
	do   step
}

// disturbUnderLoad rolls, deletes and scales whatever has pods. The hot policy says whether anything was counted twice or
// forgotten: its tenant is admitted as often as the limit says, whoever decides.
func disturbUnderLoad(ctx context.Context, s *story) error {
	if err := s.forgetCounters(ctx); err != nil {
		return err
	}
	load, err := s.resumeLoad(ctx)
	if err != nil {
		return err
	}
	for _, d := range s.disturbances(load) {
		if _, err := s.meanwhile(ctx, load, d.what, d.do); err != nil {
			return err
		}
	}
	j, err := s.journalOf(ctx, load)
	if err != nil {
		return err
	}
	hot := traffic + "/" + hotPolicy
	counted, apart := j.All().Admitted[hot+" redis"], j.All().Admitted[hot+" local"]
	s.say("through all of that the hot tenant was admitted %d times by Redis, and %d times without; its limit is %d", counted, apart, hotLimit)
	s.expect(counted <= hotLimit && counted+apart >= hotLimit, "want the limit: counters were forgotten, or counted twice")
	return s.stopLoad(ctx, load)
}

func (s *story) disturbances(load loadPod) []disturbance {
	limiters, operators := until(s.rolled(system, limiterPods)), until(s.rolled(system, operatorPods))
	edit := s.edits(load, takeOver)
	return []disturbance{
		{"nothing, for comparison", func(ctx context.Context) error { return s.journalUntil(ctx, load, time.Now().Add(5*time.Second)) }},
		{"the limiters are rolled", s.restarts(limiterPods)},
		{"a limiter's pod is deleted", inOrder(s.deletesPod(limiterPods), limiters)},
		{"the Limiter is scaled to 3 and back", inOrder(s.scales(3), s.scales(2))},
		{"the template of the Limiter is changed", inOrder(s.changeTemplate, until(s.templateArrived), limiters)},
		{"the operators are rolled, and a policy is edited at once", inOrder(
			s.types("kubectl", "-n", system, "rollout", "restart", "deployment/"+operatorPods), edit, operators)},
		{"the operators' leader is deleted, and a policy is edited at once", inOrder(s.deleteLeader, edit, operators)},
		{"the operators' leader crashes, and a policy is edited at once", inOrder(s.crashLeader, edit, operators)},
		{"Weir is upgraded to " + s.plan.next, inOrder(
			func(ctx context.Context) error { return s.applyManifest(ctx, s.plan.next) },
			operators, until(s.runs(s.plan.next)), limiters, edit)},
	}
}

func (s *story) changeTemplate(ctx context.Context) error {
	return change(ctx, s, limiterNamed(system, "default"), func(l *v1alpha1.Limiter) {
		l.Spec.PodTemplate.Annotations = map[string]string{"e2e": time.Now().Format(time.RFC3339)}
	})
}

func (s *story) restarts(deployment string) step {
	return inOrder(
		s.types("kubectl", "-n", system, "rollout", "restart", "deployment/"+deployment),
		until(s.rolled(system, deployment)))
}

// deletesPod waits until the pod is gone.
func (s *story) deletesPod(deployment string, how ...string) step {
	return func(ctx context.Context) error {
		pod, err := s.anyPod(ctx, system, deployment)
		if err != nil {
			return err
		}
		return s.run(ctx, append([]string{"kubectl", "-n", system, "delete", "pod", pod}, how...)...)
	}
}

// leader is the pod of the operator that is elected, as soon as one is: another looks every two seconds for a lease that was
// given back.
func (s *story) leader(ctx context.Context) (*corev1.Pod, error) {
	var pod corev1.Pod
	_, err := await(ctx, takeOver, func(ctx context.Context) error {
		var lease coordinationv1.Lease
		if err := s.Get(ctx, types.NamespacedName{Namespace: system, Name: "weir-operator"}, &lease); err != nil {
			return err
		}
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			return errors.New("no operator is elected")
		}
		name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
		if err := s.Get(ctx, types.NamespacedName{Namespace: system, Name: name}, &pod); err != nil {
			return err
		}
		if pod.DeletionTimestamp != nil {
			return fmt.Errorf("the operator that is elected, pod %s, is about to go", name)
		}
		return nil
	})
	return &pod, err
}

// deleteLeader deletes the pod of the operator that is elected, which gives the lease back.
func (s *story) deleteLeader(ctx context.Context) error {
	pod, err := s.leader(ctx)
	if err != nil {
		return err
	}
	return s.run(ctx, "kubectl", "-n", system, "delete", "pod", pod.Name, "--wait=false")
}

// crashLeader ends the process of the operator that is elected, so that its lease has to expire: a container beside it
// sends SIGQUIT. (A pod that is deleted is always asked to end, even by force, and SIGKILL does not reach the first process.)
func (s *story) crashLeader(ctx context.Context) error {
	pod, err := s.leader(ctx)
	if err != nil {
		return err
	}
	s.say("pod %s of the operator crashes", pod.Name)
	restarts := pod.Status.ContainerStatuses[0].RestartCount
	pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{
		TargetContainerName: "operator",
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: "quit", Image: s.plan.load, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"-quit", "1"},
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
			return errors.New("the operator runs on")
		}
		return nil
	})
	return err
}
