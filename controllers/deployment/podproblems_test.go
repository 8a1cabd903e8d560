package deployment

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
)

func waiting(reason, message string) corev1.PodStatus {
	return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
	}}}}
}

func podWith(name string, age time.Duration, status corev1.PodStatus) corev1.Pod {
	created := metav1.NewTime(time.Unix(1_800_000_000, 0).Add(-age))
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: created}, Status: status}
}

func TestDescribeProblems_GivesThePodsOwnReasons(t *testing.T) {
	crashed := waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container=limiter pod=weir-limiter-default-abc")
	crashed.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}
	unschedulable := corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available: 3 Insufficient memory.",
	}}}
	ending := podWith("ending", 0, waiting("ImagePullBackOff", "x"))
	ending.DeletionTimestamp = new(metav1.Now())
	for name, test := range map[string]struct {
		pods []corev1.Pod
		want []string
	}{
		"no image": {
			[]corev1.Pod{
				podWith("b", 0, waiting("ImagePullBackOff", "of the newer pod")),
				podWith("a", time.Minute, waiting("ImagePullBackOff", "Back-off pulling image \"weir:none\":\n not found")),
			},
			[]string{`2 pods: ImagePullBackOff: Back-off pulling image "weir:none": not found`},
		},
		"a failed pull, and the back-off after it": {
			[]corev1.Pod{
				podWith("a", time.Minute, waiting("ImagePullBackOff", `Back-off pulling image "weir:none": ErrImagePull: failed to do request: connection refused`)),
				podWith("b", 0, waiting("ErrImagePull", "failed to do request: connection refused")),
			},
			[]string{"2 pods: ErrImagePull: failed to do request: connection refused"},
		},
		"a long message": {
			[]corev1.Pod{podWith("a", 0, waiting("ErrImagePull", "failed to pull: "+strings.Repeat("x", 1000)+": connection refused"))},
			[]string{"1 pod: ErrImagePull: failed to pull: " + strings.Repeat("x", 112) + "…" + strings.Repeat("x", 108) + ": connection refused"},
		},
		"out of memory":       {[]corev1.Pod{podWith("a", 0, crashed)}, []string{"1 pod: CrashLoopBackOff: OOMKilled with exit code 137"}},
		"no node":             {[]corev1.Pod{podWith("a", 0, unschedulable)}, []string{"1 pod: Unschedulable: 0/3 nodes are available: 3 Insufficient memory."}},
		"a missing Secret":    {[]corev1.Pod{podWith("a", 0, waiting("CreateContainerConfigError", `secret "x" not found`))}, []string{`1 pod: CreateContainerConfigError: secret "x" not found`}},
		"an evicted pod":      {[]corev1.Pod{podWith("a", 0, corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory"})}, []string{"1 pod: Evicted: low on memory"}},
		"pods that start":     {[]corev1.Pod{podWith("a", 0, waiting("ContainerCreating", "")), podWith("b", 0, corev1.PodStatus{})}, nil},
		"a pod that ends":     {[]corev1.Pod{ending}, nil},
		"the most pods first": {[]corev1.Pod{podWith("a", time.Hour, unschedulable), podWith("b", 0, waiting("ErrImagePull", "")), podWith("c", 0, waiting("ErrImagePull", ""))}, []string{"2 pods: ErrImagePull", "1 pod: Unschedulable: 0/3 nodes are available: 3 Insufficient memory."}},
	} {
		if diff := cmp.Diff(test.want, describeProblems(test.pods)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDescribeProblems_IsBounded(t *testing.T) {
	var pods []corev1.Pod
	for i := range 100 {
		pods = append(pods, podWith("p", 0, waiting("Reason"+strings.Repeat("x", i), strings.Repeat("ü", 10_000))))
	}
	lines := describeProblems(pods)
	if text := strings.Join(lines, "; "); len(lines) != maxProblems || len(text) > 2000 {
		t.Errorf("%d lines, %d bytes", len(lines), len(text))
	}
}

// An event about the Deployment does not follow when a pod begins to wait.
func TestReady_ReportsWhyPodsAreNotReady(t *testing.T) {
	h := newHarness(t)
	h.create("default", nil)
	h.reconcile("default")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "one", Labels: PodLabels(h.limiter())}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "limiter", Image: "weir:none"}},
	}}
	h.must(h.kube.Create(t.Context(), pod))
	pod.Status = waiting("ImagePullBackOff", "not found")
	h.must(h.kube.Status().Update(t.Context(), pod))
	if again := h.reconcile("default").RequeueAfter; again != podsRetry {
		t.Errorf("read again after %v, want podsRetry", again)
	}
	h.expectCondition(v1alpha1.ConditionReady, no, v1alpha1.ReasonReplicasMissing)
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling} {
		if got := meta.FindStatusCondition(h.limiter().Status.Conditions, kind).Message; !strings.HasSuffix(got, "; 1 pod: ImagePullBackOff: not found") {
			t.Errorf("%s: %q", kind, got)
		}
	}
}
