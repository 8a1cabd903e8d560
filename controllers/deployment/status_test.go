package deployment

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
)

func TestReadiness_RequiresAllPodsToHaveTheLatestTemplate(t *testing.T) {
	const (
		done  = v1alpha1.ReasonDeployed
		under = v1alpha1.ReasonReplicasMissing
		stuck = v1alpha1.ReasonProgressDeadlineExceeded
	)
	for name, test := range map[string]struct {
		wanted, pods, updated, ready int32
		late                         bool // the progress deadline has passed
		reason, message              string
	}{
		"all replicas are ready":                         {2, 2, 2, 2, false, done, "2 of 2 replicas are ready"},
		"no replicas are wanted":                         {0, 0, 0, 0, false, done, "0 of 0 replicas are ready"},
		"too many replicas are ready":                    {2, 5, 5, 5, false, done, "2 of 2 replicas are ready"},
		"one replica is not ready":                       {2, 2, 2, 1, false, under, "1 of 2 replicas are ready"},
		"no new replica exists yet":                      {2, 2, 0, 2, false, under, "0 of 2 replicas are ready; 2 old replicas are pending termination"},
		"only the old replica is ready":                  {1, 2, 1, 1, false, under, "0 of 1 replicas are ready; 1 old replicas are pending termination"},
		"only the old replica is ready, deadline passed": {1, 2, 1, 1, true, stuck, "0 of 1 replicas are ready; 1 old replicas are pending termination"},
		"one old and one new replica are ready":          {2, 3, 2, 2, false, under, "1 of 2 replicas are ready; 1 old replicas are pending termination"},
		"an old replica is ready":                        {2, 3, 2, 3, false, under, "2 of 2 replicas are ready; 1 old replicas are pending termination"},
		"an old replica is not ready":                    {2, 3, 2, 0, false, under, "0 of 2 replicas are ready; 1 old replicas are pending termination"},
	} {
		d := &appsv1.Deployment{
			Spec:   appsv1.DeploymentSpec{Replicas: &test.wanted},
			Status: appsv1.DeploymentStatus{Replicas: test.pods, UpdatedReplicas: test.updated, ReadyReplicas: test.ready},
		}
		if test.late {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse}}
		}
		reason, message := readiness(d)
		if reason != test.reason || !strings.HasPrefix(message, test.message) {
			t.Errorf("%s: %s, %q; want %s, %q", name, reason, message, test.reason, test.message)
		}
	}
}
