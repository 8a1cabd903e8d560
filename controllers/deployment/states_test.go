package deployment

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// The states in test/gitops, which Flux and Argo CD assess, must be those that newStatus returns.
func TestNewStatus_MatchesTheStatesGivenToGitOpsTools(t *testing.T) {
	d := func(want, pods, ready int32, cs ...appsv1.DeploymentCondition) *appsv1.Deployment {
		return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &want}, Status: appsv1.DeploymentStatus{Replicas: pods, ReadyReplicas: ready, UpdatedReplicas: pods, Conditions: cs}}
	}
	stuck := appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Message: `ReplicaSet "weir-limiter-default-7d9c" has timed out progressing.`}
	rolling := d(2, 3, 3)
	rolling.Status.UpdatedReplicas = 2
	met := func(err error) outcome { var o outcome; _ = o.record(err); return o }
	for name, o := range map[string]outcome{
		"limiter-deploying":      {deployment: d(2, 2, 1)},
		"limiter-rolling":        {deployment: rolling},
		"limiter-ready":          {deployment: d(2, 2, 2)},
		"limiter-scaling":        {deployment: d(5, 5, 2)},
		"limiter-scaled-to-zero": {deployment: d(0, 0, 0)},
		"limiter-stuck":          {deployment: d(2, 2, 0, stuck)},
		"limiter-secret-missing": met(secretMissing("Secret login does not exist in namespace weir-system")),
		"limiter-name-in-use":    met(pending("Deployment weir-limiter-default still belongs to a deleted Limiter with this name, waiting for its garbage collection")),
		"limiter-quota-exceeded": met(classifyAPIError("apply Service weir-limiter-default", apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "weir-limiter-default", errors.New("exceeded quota: team, requested: services=1, used: services=5, limited: services=5")))),
		"limiter-refused":        met(refused("%s", `apply Deployment weir-limiter-default: spec.podTemplate.labels: Invalid value: "not a label!"`)),
	} {
		data, err := os.ReadFile("../../test/gitops/testdata/states/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		docs := bytes.Split(data, []byte("\n---\n"))
		var l v1alpha1.Limiter
		if err := yaml.Unmarshal(docs[len(docs)-1], &l); err != nil {
			t.Fatal(err)
		}
		want := l.Status
		l.Status = v1alpha1.LimiterStatus{}
		got := newStatus(&l, o, time.Now())
		if diff := cmp.Diff(want.Conditions, got.Conditions, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" || got.Replicas != want.Replicas || got.ReadyReplicas != want.ReadyReplicas || got.Selector != want.Selector {
			t.Errorf("%s (-file +newStatus)\n%s %v %v", name, diff, want, got)
		}
	}
}
