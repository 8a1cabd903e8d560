package registration

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/controllers/ruleset/report"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/webhook/certificate"
)

// BenchmarkReconcile measures a reconciliation after an edit of one policy that limits writes, with one registered Limiter. The API server is a fake. The
// policies are in 100 namespaces or in one, and all of them limit writes, or 10 of them.
func BenchmarkReconcile(b *testing.B) {
	for _, bench := range []struct {
		name       string
		namespaces int
		writes     int // 0 for all policies
	}{
		{"10 for writes, in 100 namespaces", 100, 10},
		{"10 for writes, in one namespace", 1, 10},
		{"all for writes, in 100 namespaces", 100, 0},
		{"all for writes, in one namespace", 1, 0},
	} {
		for _, policies := range []int{100, 1000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", bench.name, policies), func(b *testing.B) {
				writes := bench.writes
				if writes == 0 {
					writes = policies
				}
				edit, _, _ := newEdits(b, policies, writes, bench.namespaces)
				edit()
				b.ReportAllocs()
				for b.Loop() {
					edit()
				}
			})
		}
	}
}

// instant is a client of a fake API server. It lists policies as a cache does.
type instant struct {
	client.Client

	policies []*v1alpha1.RateLimitPolicy
}

func (c *instant) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch list := list.(type) {
	case *v1alpha1.RateLimitPolicyList:
		for _, p := range c.policies {
			list.Items = append(list.Items, *p)
		}
		return nil
	case *v1alpha1.ClusterRateLimitPolicyList:
		return nil
	default:
		return c.Client.List(ctx, list, options...)
	}
}

// ListPolicies is that of [selection.PolicyLister].
func (c *instant) ListPolicies(context.Context) (stored.Policies, error) {
	return stored.Policies{Namespaced: append([]*v1alpha1.RateLimitPolicy(nil), c.policies...)}, nil
}

// Apply creates the configuration.
func (c *instant) Apply(ctx context.Context, apply runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	data, err := json.Marshal(apply)
	if err != nil {
		return err
	}
	var configuration admissionv1.ValidatingWebhookConfiguration
	if err := json.Unmarshal(data, &configuration); err != nil {
		return err
	}
	return c.Create(ctx, &configuration)
}

// Status does not store statuses.
func (c *instant) Status() client.SubResourceWriter { return instantStatus{} }

type instantStatus struct{ client.SubResourceWriter }

func (instantStatus) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return nil
}

// newEdits returns a function that edits one policy for writes, and reconciles.
func newEdits(tb testing.TB, policies, writes, namespaces int) (edit func(), r *Reconciler, kube *instant) {
	tb.Helper()
	scheme := runtime.NewScheme()
	must(tb, AddToScheme(scheme))
	must(tb, deployment.AddToScheme(scheme))
	l := &v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: "weir", Name: "default", UID: "limiter", Generation: 1}}
	l.Spec.KubernetesThrottle = &v1alpha1.KubernetesThrottle{
		NamespacedPolicies: v1alpha1.NamespacedPoliciesSelected, NamespacedPolicySelector: &metav1.LabelSelector{},
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "weir", Name: deployment.Name("default"), UID: "deployment"}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: deployment.ThrottlePort}}}}
	d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = 2, 2, 2, 2
	objects := []client.Object{l, d, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "weir", Name: deployedRole}}}
	for i := range namespaces {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("team-%d", i)}})
	}
	kube = &instant{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()}
	for i := range policies {
		p := &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("team-%d", i%namespaces), Name: fmt.Sprintf("p%d", i), UID: types.UID(strconv.Itoa(i)), Generation: 1,
		}}
		p.Spec.Axis, p.Spec.Limit, p.Spec.Window = v1alpha1.AxisUser, new(int64(100)), "1h"
		if i < writes {
			resource := v1alpha1.ResourceName([]string{"pods", "configmaps", "services", "secrets"}[i%4])
			p.Spec.Match = &v1alpha1.Match{Kubernetes: &v1alpha1.KubernetesMatch{Resources: []v1alpha1.KubernetesResources{{
				APIGroups: []v1alpha1.APIGroup{""}, Resources: []v1alpha1.ResourceName{resource},
			}}}}
		}
		kube.policies = append(kube.policies, p)
	}
	rotator, err := certificate.NewRotator(certificate.Config{
		Rotation: certificate.DefaultRotation("*.weir.svc"), Secret: types.NamespacedName{Namespace: "weir", Name: deployment.ThrottleSecret},
		ExternalConfigurations: []string{ConfigurationName}, Client: kube.Client, Uncached: kube.Client, Interval: time.Minute, Clock: time.Now,
	})
	must(tb, err)
	_, err = rotator.Reconcile(tb.Context(), ctrl.Request{})
	must(tb, err)
	var reported map[types.UID]report.Webhook
	r = New(Config{
		Client: kube, Uncached: kube.Client, Namespace: "weir", SecretName: deployment.ThrottleSecret,
		SetWebhooks: func(all map[types.UID]report.Webhook) { reported = all }, Events: &events.FakeRecorder{}, Clock: time.Now,
	})
	return func() {
		tb.Helper()
		edited := kube.policies[7].DeepCopy()
		edited.Generation, edited.Spec.Limit = edited.Generation+1, new(*edited.Spec.Limit+1)
		kube.policies[7] = edited
		_, err := r.Reconcile(tb.Context(), ctrl.Request{})
		must(tb, err)
		covered := reported["limiter"].Covers["7"]
		if !covered.Covered || covered.Generation != edited.Generation {
			tb.Fatalf("the webhook has %+v for the edited policy, problem %q", covered, reported["limiter"].Problem)
		}
	}, r, kube
}
