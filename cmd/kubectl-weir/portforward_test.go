package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

// podOfOperator returns a ready pod of the operator, with the ports as name=number.
func podOfOperator(name string, ports ...corev1.ContainerPort) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: name, Labels: map[string]string{
			"app.kubernetes.io/name": "weir", "app.kubernetes.io/component": "operator",
		}},
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "sidecar"}, {Name: "operator", Ports: ports}}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

func TestOperatorPod_IsOneThatServesTheAdminEndpoint(t *testing.T) {
	health, admin := corev1.ContainerPort{Name: "health", ContainerPort: 8081}, corev1.ContainerPort{Name: "admin", ContainerPort: 9444}
	ending, starting, elsewhere := podOfOperator("b", health, admin), podOfOperator("c", health, admin), podOfOperator("d", health, admin)
	ending.DeletionTimestamp, ending.Finalizers = &metav1.Time{Time: time.Now()}, []string{"weir.dev/test"}
	starting.Status.Conditions[0].Status = corev1.ConditionFalse
	elsewhere.Namespace = "other"
	for want, pods := range map[string][]runtime.Object{
		"e 9444": {podOfOperator("a", health), ending, starting, elsewhere, podOfOperator("e", health, admin)},
		`pod a of the operator has no port "admin": the operator runs without --admin-bind-address`:           {podOfOperator("a", health), starting},
		"no operator is ready in namespace weir-system: set --operator-namespace, or see kubectl -n weir-sys": {ending, starting, elsewhere},
	} {
		f := clusterFlags{operatorNamespace: "weir-system"}
		pod, port, err := f.operatorPod(t.Context(), fake.NewClientset(pods...))
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprintf("%s %d", pod.Name, port)
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
