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
		"all are":                           {2, 2, 2, 2, false, done, "2 of 2 replicas are ready"},
		"none is wanted":                    {0, 0, 0, 0, false, done, "0 of 0 replicas are ready"},
		"too many are, and are yet to go":   {2, 5, 5, 5, false, done, "2 of 2 replicas are ready"},
		"one is not ready":                  {2, 2, 2, 1, false, under, "1 of 2 replicas are ready"},
		"none has come yet":                 {2, 2, 0, 2, false, under, "0 of 2 replicas are ready; 2 replicas of an older template"},
		"the old one is ready, not the new": {1, 2, 1, 1, false, under, "0 of 1 replicas are ready; 1 replicas of an older template"},
		"and the new one will not be":       {1, 2, 1, 1, true, stuck, "0 of 1 replicas are ready; 1 replicas of an older template"},
		"an old one is ready and one new":   {2, 3, 2, 2, false, under, "1 of 2 replicas are ready; 1 replicas of an older template"},
		"an old one is yet to go":           {2, 3, 2, 3, false, under, "2 of 2 replicas are ready; 1 replicas of an older template"},
		"an old one is not ready":           {2, 3, 2, 0, false, under, "0 of 2 replicas are ready; 1 replicas of an older template"},
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
