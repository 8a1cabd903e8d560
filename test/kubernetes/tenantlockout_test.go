package kubernetes

import (
	"context"
	"fmt"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// blockEverything is the most harmful policy that an editor of the namespace can write.
func blockEverything(namespace string) *v1alpha1.RateLimitPolicy {
	spec := matchEverything().Spec
	p := &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "everything"}}
	p.Spec.Axis, p.Spec.Limit, p.Spec.Window, p.Spec.Algorithm = spec.Axis, spec.Limit, spec.Window, spec.Algorithm
	p.Spec.OnStoreFailure, p.Spec.Match = spec.OnStoreFailure, spec.Match
	return p
}

// A tenant writes a policy that denies every write to its namespace. Without an opt-in of the administrator it has no effect. With it, a user
// who is cluster-admin by a binding, and in no exempt group, can still give permissions, clean up, drain, and delete the policy with kubectl.
func TestLockout_ATenantCannotBlockAdministrators(t *testing.T) {
	w := newWorld(t)
	namespace := mustGet[string](t)(w.Namespace(t.Context(), "greedy"))
	p := blockEverything(namespace)
	must(t, mustGet[client.Client](t)(w.As(0, Person("editor"))).Create(t.Context(), p))
	awaitReady := func(status metav1.ConditionStatus, reason, message string) {
		t.Helper()
		must(t, waitFor(t.Context(), "the condition Ready to be "+reason, func(ctx context.Context) error {
			is, err := read(ctx, w, namespace, p.Name, &v1alpha1.RateLimitPolicy{})
			if err != nil {
				return err
			}
			c := meta.FindStatusCondition(is.Status.Conditions, v1alpha1.ConditionReady)
			if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) {
				return fmt.Errorf("the conditions are %+v", is.Status.Conditions)
			}
			return nil
		}))
	}
	carol := bothClients(t, w, Person("carol"))
	awaitReady(metav1.ConditionFalse, v1alpha1.ReasonNotAdmitted, "Limiter weir-system/default lets only ClusterRateLimitPolicies limit writes")
	for server, c := range carol {
		for range 2 {
			if err := c.Create(t.Context(), configMap(namespace)); err != nil {
				t.Errorf("a policy that is not admitted, by API server %d: %v", server, err)
			}
		}
	}

	admit := func(policies v1alpha1.NamespacedPolicies, selector *metav1.LabelSelector) {
		must(t, w.EditLimiter(context.Background(), func(l *v1alpha1.LimiterSpec) {
			l.KubernetesThrottle.NamespacedPolicies, l.KubernetesThrottle.NamespacedPolicySelector = policies, selector
			l.KubernetesThrottle.FailurePolicy = v1alpha1.WebhookFailureFail
			if policies == v1alpha1.NamespacedPoliciesNone {
				l.KubernetesThrottle.FailurePolicy = v1alpha1.WebhookFailureIgnore
			}
		}))
	}
	admit(v1alpha1.NamespacedPoliciesSelected, &metav1.LabelSelector{MatchLabels: map[string]string{TenantLabel: "greedy"}})
	defer admit(v1alpha1.NamespacedPoliciesNone, nil)
	awaitReady(metav1.ConditionTrue, v1alpha1.ReasonProgrammed, "")
	must(t, w.AwaitWebhook(t.Context(), Person("another"), configMap(namespace)))
	victims := []client.Object{pod(namespace), pod(namespace)}
	held := configMap(namespace)
	held.Finalizers = []string{"example.com/hold"}
	for _, object := range append(victims, held) {
		must(t, w.Admin.Create(t.Context(), object))
	}
	must(t, w.Admin.Delete(t.Context(), held)) // waits for the finalizer
	must(t, carol[0].Create(t.Context(), configMap(namespace)))
	err := carol[1].Create(t.Context(), configMap(namespace))
	if !IsDenied(err) || !strings.Contains(err.Error(), "over the limit of policy "+namespace+"/everything") {
		t.Fatalf("the policy denies nothing, so the test shows nothing: %v", err)
	}
	t.Logf("a ConfigMap: %v", err)

	elsewhere := mustGet[string](t)(w.Namespace(t.Context(), "neighbour"))
	before := mustGet[int](t)(w.WebhookCalls(t.Context()))
	for name, write := range map[string]func(c client.Client) error{
		"bind a role": func(c client.Client) error {
			return c.Create(t.Context(), &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "some-", Namespace: namespace},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
			})
		},
		"evict a pod": func(c client.Client) error {
			return c.SubResource("eviction").Create(t.Context(), victims[0], &policyv1.Eviction{}, client.DryRunAll)
		},
		"delete a pod": func(c client.Client) error { return c.Delete(t.Context(), victims[1], client.DryRunAll) },
		"remove the finalizer of a deleted object": func(c client.Client) error {
			changed := held.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy of a client.Object
			changed.SetFinalizers(nil)
			return c.Patch(t.Context(), changed, client.MergeFrom(held), client.DryRunAll)
		},
		"write a policy":             func(c client.Client) error { return c.Create(t.Context(), blockNothing(namespace)) },
		"write to another namespace": func(c client.Client) error { return c.Create(t.Context(), configMap(elsewhere)) },
	} {
		for server, c := range carol {
			if err := write(c); err != nil {
				t.Errorf("%s, by API server %d: %v", name, server, err)
			}
		}
	}
	if after := mustGet[int](t)(w.WebhookCalls(t.Context())); after != before {
		t.Errorf("API servers called the webhook %d times for these writes, want 0", after-before)
	}

	// The documented commands. The user of the kubeconfig is a cluster-admin by a ClusterRoleBinding only.
	kubeconfig := mustGet[string](t)(w.Kube.WriteKubeconfig("carol", w.ConfigAs(0, Person("carol"))))
	for _, args := range [][]string{
		{"-n", operatorNamespace, "patch", "limiter", limiterName, "--type=merge", "--dry-run=server", "-p", `{"spec":{"kubernetesThrottle":{"mode":"Disabled"}}}`},
		{"delete", "validatingwebhookconfiguration", "weir-throttle", "--dry-run=server"},
		{"-n", namespace, "delete", "ratelimitpolicy", p.Name},
	} {
		out, err := w.Kube.Kubectl(t.Context(), append([]string{"--kubeconfig", kubeconfig}, args...)...)
		t.Logf("kubectl %s: %s", strings.Join(args, " "), strings.TrimSpace(out))
		must(t, err)
	}
	must(t, waitFor(t.Context(), "carol to be able to write", func(ctx context.Context) error { return carol[1].Create(ctx, configMap(namespace)) }))
}

// blockNothing returns a policy for requests.
func blockNothing(namespace string) *v1alpha1.RateLimitPolicy {
	p := &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{GenerateName: "some-", Namespace: namespace}}
	p.Spec.Axis, p.Spec.Limit, p.Spec.Window = v1alpha1.AxisIP, new(int64(1)), "1m"
	return p
}
