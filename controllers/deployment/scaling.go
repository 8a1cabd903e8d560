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
	"github.com/weir-dev/weir/controllers/ownership"
)

// scaleOwner owns spec.replicas from the time an autoscaler is enabled until the autoscaler first changes it.
const scaleOwner = client.FieldOwner("weir-deployment-scale")

func asDeployment(object client.Object) *appsv1.Deployment {
	d, _ := object.(*appsv1.Deployment)
	return d
}

// optionalObjects are the objects that a Limiter does not always have.
func optionalObjects(limiter *v1alpha1.Limiter) []client.Object {
	with := limiter.DeepCopy()
	if with.Spec.Autoscaling == nil {
		with.Spec.Autoscaling = &v1alpha1.Autoscaling{}
	}
	return []client.Object{networkPolicy(with, Options{}), autoscaler(with)}
}

// readDeployment returns the Deployment of the Limiter. It returns nil if the Deployment does not exist.
func (r *Reconciler) readDeployment(ctx context.Context, limiter *v1alpha1.Limiter) (*appsv1.Deployment, error) {
	live, err := r.readLive(ctx, &appsv1.Deployment{
		TypeMeta: kindOf("apps", "v1", "Deployment"), ObjectMeta: metav1.ObjectMeta{Namespace: limiter.Namespace, Name: Name(limiter.Name)},
	})
	if err != nil || live == nil || !ownership.Belongs(live, limiter) {
		return nil, err
	}
	return asDeployment(live), nil
}

// applyDeployment is apply for the Deployment. With an autoscaler it keeps the current number of replicas, or sets the initial one:
// if no owner set the field, it would default to 1.
func (r *Reconciler) applyDeployment(ctx context.Context, limiter *v1alpha1.Limiter, want *appsv1.Deployment) (*appsv1.Deployment, error) {
	live, err := r.readLive(ctx, want)
	if err != nil {
		return nil, err
	}
	if want.Spec.Replicas == nil {
		if live == nil {
			want.Spec.Replicas = new(initialReplicas(limiter))
		} else if err := r.handOverReplicas(ctx, limiter, want, asDeployment(live)); err != nil {
			return nil, err
		}
	}
	applied, err := r.applyIfChanged(ctx, limiter, want, live)
	if err != nil && live != nil && ownership.Belongs(live, limiter) { // the existing pods still serve the Limiter
		applied = live
	}
	return asDeployment(applied), err
}

// handOverReplicas moves the ownership of spec.replicas to scaleOwner, with its current value, if this controller owned it.
func (r *Reconciler) handOverReplicas(ctx context.Context, limiter *v1alpha1.Limiter, want, live *appsv1.Deployment) error {
	if same, err := r.isApplied(limiter, want, live); same || err != nil || !ownership.Belongs(live, limiter) {
		return err
	}
	var latest appsv1.Deployment // uncached: the cache strips managed fields
	if err := r.Uncached.Get(ctx, client.ObjectKeyFromObject(want), &latest); err != nil {
		return fmt.Errorf("read the owner of the replicas of %s: %w", describe(want), err)
	}
	if ownsReplicas(latest.ManagedFields) && latest.Spec.Replicas != nil {
		scale := appsv1ac.Deployment(want.Name, want.Namespace).WithResourceVersion(latest.ResourceVersion).
			WithSpec(appsv1ac.DeploymentSpec().WithReplicas(*latest.Spec.Replicas))
		if err := r.Client.Apply(ctx, scale, scaleOwner); err != nil {
			return fmt.Errorf("hand over the replicas of %s: %w", describe(want), err)
		}
	}
	return nil
}

// ownsReplicas reports whether this controller applied spec.replicas.
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
