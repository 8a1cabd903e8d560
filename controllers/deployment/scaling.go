package deployment

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// scaleOwner owns the number of pods from when an autoscaler is wanted until it first changes it.
const scaleOwner = client.FieldOwner("weir-deployment-scale")

func asDeployment(object client.Object) *appsv1.Deployment {
	d, _ := object.(*appsv1.Deployment)
	return d
}

// optionalObjects are what a Limiter has at some times and at others not.
func optionalObjects(limiter *v1alpha1.Limiter) []client.Object {
	with := limiter.DeepCopy()
	if with.Spec.Autoscaling == nil {
		with.Spec.Autoscaling = &v1alpha1.Autoscaling{}
	}
	return []client.Object{networkPolicy(with, Options{}), autoscaler(with)}
}

// deployed is the Limiter's Deployment as it is; nil for none.
func (r *Reconciler) deployed(ctx context.Context, limiter *v1alpha1.Limiter) (*appsv1.Deployment, error) {
	live, err := r.live(ctx, &appsv1.Deployment{
		TypeMeta: kindOf("apps", "v1", "Deployment"), ObjectMeta: metav1.ObjectMeta{Namespace: limiter.Namespace, Name: Name(limiter.Name)},
	})
	if err != nil || live == nil || !metav1.IsControlledBy(live, limiter) {
		return nil, err
	}
	return asDeployment(live), nil
}

// applyDeployment is apply, but that an autoscaler begins with the number of pods that there are, or are to be: a
// number that nobody owns would become 1.
func (r *Reconciler) applyDeployment(ctx context.Context, limiter *v1alpha1.Limiter, want *appsv1.Deployment) (*appsv1.Deployment, error) {
	live, err := r.live(ctx, want)
	if err != nil {
		return nil, err
	}
	if want.Spec.Replicas == nil {
		if live == nil {
			want.Spec.Replicas = new(replicasToBegin(limiter))
		} else if err := r.handOver(ctx, limiter, want, asDeployment(live)); err != nil {
			return nil, err
		}
	}
	now, err := r.applyOver(ctx, limiter, want, live)
	if err != nil && live != nil && metav1.IsControlledBy(live, limiter) { // its pods are the Limiter's all the same
		now = live
	}
	return asDeployment(now), err
}

// handOver gives the number of pods, as it is, to another owner, if it has been ours.
func (r *Reconciler) handOver(ctx context.Context, limiter *v1alpha1.Limiter, want, live *appsv1.Deployment) error {
	if same, err := r.same(limiter, want, live); same || err != nil || !metav1.IsControlledBy(live, limiter) {
		return err
	}
	var latest appsv1.Deployment // with its managed fields, which caches leave out
	if err := r.Uncached.Get(ctx, client.ObjectKeyFromObject(want), &latest); err != nil {
		return fmt.Errorf("read who scales %s: %w", described(want), err)
	}
	if ownsReplicas(latest.ManagedFields) && latest.Spec.Replicas != nil {
		scale := appsv1ac.Deployment(want.Name, want.Namespace).WithResourceVersion(latest.ResourceVersion).
			WithSpec(appsv1ac.DeploymentSpec().WithReplicas(*latest.Spec.Replicas))
		if err := r.Client.Apply(ctx, scale, scaleOwner); err != nil {
			return fmt.Errorf("hand the scale of %s over: %w", described(want), err)
		}
	}
	return nil
}

// ownsReplicas says whether the number of pods is among the fields that the controller applied.
func ownsReplicas(managed []metav1.ManagedFieldsEntry) bool {
	for _, entry := range managed {
		if entry.Manager != string(fieldOwner) || entry.Operation != metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil {
			continue
		}
		var owned struct {
			Spec struct {
				Replicas *struct{} `json:"f:replicas"`
			} `json:"f:spec"`
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &owned); err == nil && owned.Spec.Replicas != nil {
			return true
		}
	}
	return false
}
