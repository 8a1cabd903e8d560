package deployment

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weir-dev/weir/api/v1alpha1"
	v1alpha1ac "github.com/weir-dev/weir/api/v1alpha1/applyconfiguration/api/v1alpha1"
)

func TestReconcile_TakesALimiterFromCreationToReady(t *testing.T) {
	h := newHarness(t)
	h.create("default", nil)
	h.reconcile("default")
	want := []string{
		"*v1.ServiceAccount", "*v1.ConfigMap", "*v1.Service", "*v1.PodDisruptionBudget", "*v1.Deployment", "*v1.NetworkPolicy",
	}
	if diff := cmp.Diff(want, h.existingKinds()); diff != "" {
		t.Errorf("existing objects (-want +got):\n%s", diff)
	}
	h.expectCondition(v1alpha1.ConditionAccepted, yes, v1alpha1.ReasonAccepted)
	h.expectCondition(v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonDeployed)
	h.expectCondition(v1alpha1.ConditionReady, no, v1alpha1.ReasonReplicasMissing)
	h.expectCondition(v1alpha1.ConditionReconciling, yes, v1alpha1.ReasonReplicasMissing)
	h.expectNoCondition(v1alpha1.ConditionStalled, v1alpha1.ConditionDegraded)
	if got := h.nextEvent(); !strings.HasPrefix(got, "Normal Deployed ") {
		t.Errorf("event %q", got)
	}

	h.setReadyReplicas(1)
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionReady, no, v1alpha1.ReasonReplicasMissing)
	if got := h.message(v1alpha1.ConditionReady); got != "1 of 2 replicas are ready" {
		t.Errorf("the message of Ready is %q", got)
	}
	h.setReadyReplicas(2)
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionReady, yes, v1alpha1.ReasonDeployed)
	h.expectNoCondition(v1alpha1.ConditionReconciling)
	status := h.limiter().Status
	selected, err := metav1.ParseToLabelSelector(status.Selector)
	h.must(err)
	if status.Replicas != 2 || status.ReadyReplicas != 2 || !cmp.Equal(selected.MatchLabels, h.deployment("default").Spec.Selector.MatchLabels) {
		t.Errorf("status %+v", status)
	}
}

func TestReconcile_WritesNothingWhenNothingChanged(t *testing.T) {
	h := newHarness(t)
	h.create("default", nil)
	h.reconcile("default")
	h.setReadyReplicas(2)
	h.reconcile("default")
	h.writes = nil
	for range 3 {
		if again := h.reconcile("default").RequeueAfter; again != resyncInterval {
			t.Errorf("nothing to do: reconciled again in %v, want resyncInterval", again)
		}
	}
	if len(h.writes) > 0 {
		t.Errorf("nothing has changed, but the controller wrote %q", h.writes)
	}

	before := h.deployment("default").ResourceVersion
	h.restart()
	h.reconcile("default")
	if len(h.writes) != 7 { // the new Reconciler does not know what was applied, and applies it again
		t.Errorf("after a restart the controller wrote %q, want seven writes", h.writes)
	}
	if h.deployment("default").ResourceVersion != before {
		t.Error("after a restart the Deployment has changed")
	}
	h.writes = nil
	h.reconcile("default")
	if len(h.writes) > 0 {
		t.Errorf("nothing has changed, but the controller wrote %q", h.writes)
	}
}

func TestReconcile_AppliesAnEditToTheDeployment(t *testing.T) {
	h := newHarness(t)
	h.create("default", nil)
	h.reconcile("default")
	h.setReadyReplicas(2)
	h.reconcile("default")
	before := h.deployment("default")

	h.writes = nil
	h.edit(func(s *v1alpha1.LimiterSpec) { s.ResponseHeaders = v1alpha1.ResponseHeadersGitHub })
	h.reconcile("default")
	if diff := cmp.Diff([]string{"apply Deployment weir-limiter-default", "apply status Limiter default"}, h.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	after := h.deployment("default")
	if cmp.Equal(before.Spec.Template, after.Spec.Template) {
		t.Error("the pods are not replaced")
	}
	h.expectCondition(v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonDeployed)
	h.expectCondition(v1alpha1.ConditionReady, no, v1alpha1.ReasonReplicasMissing)
	h.expectCondition(v1alpha1.ConditionReconciling, yes, v1alpha1.ReasonReplicasMissing)

	h.edit(func(s *v1alpha1.LimiterSpec) { s.Replicas = new(int32(5)) })
	h.reconcile("default")
	scaled := h.deployment("default")
	if *scaled.Spec.Replicas != 5 {
		t.Errorf("the Deployment has %d replicas, want 5", *scaled.Spec.Replicas)
	}
	if diff := cmp.Diff(after.Spec.Template, scaled.Spec.Template); diff != "" {
		t.Errorf("scaling changes the pod template:\n%s", diff)
	}
	if got := owned[corev1.ConfigMap](h, "default").Data[replicasKey]; got != "5" {
		t.Errorf("the start values have %s replicas, want 5", got)
	}
}

func TestReconcile_RevertsForeignChangesAndKeepsForeignAdditions(t *testing.T) {
	h := newHarness(t)
	h.create("default", nil)
	h.reconcile("default")
	edits := map[string]func(){
		"the number of pods": func() {
			d := h.deployment("default")
			d.Spec.Replicas = new(int32(9))
			h.must(h.kube.Update(t.Context(), d))
		},
		"the image": func() {
			d := h.deployment("default")
			d.Spec.Template.Spec.Containers[0].Image = "other"
			h.must(h.kube.Update(t.Context(), d))
		},
		"a label": func() {
			s := owned[corev1.Service](h, "default")
			s.Labels["app.kubernetes.io/part-of"] = "other"
			h.must(h.kube.Update(t.Context(), s))
		},
		"the selector": func() {
			s := owned[corev1.Service](h, "default")
			s.Spec.Selector["app"] = "other"
			h.must(h.kube.Update(t.Context(), s))
		},
		"a deleted object": func() { h.must(h.kube.Delete(t.Context(), owned[policyv1.PodDisruptionBudget](h, "default"))) },
		"the start values": func() {
			c := owned[corev1.ConfigMap](h, "default")
			c.Data[replicasKey] = "77"
			h.must(h.kube.Update(t.Context(), c))
		},
	}
	shape := func() string {
		return strings.Join([]string{
			h.deployment("default").Spec.Template.Spec.Containers[0].Image,
			owned[corev1.Service](h, "default").Labels["app.kubernetes.io/part-of"],
			owned[corev1.Service](h, "default").Spec.Selector["app.kubernetes.io/instance"],
			owned[corev1.Service](h, "default").Spec.Selector["app"],
			owned[policyv1.PodDisruptionBudget](h, "default").Name,
			owned[corev1.ConfigMap](h, "default").Data[replicasKey],
			strconv.Itoa(int(*h.deployment("default").Spec.Replicas)),
		}, " ")
	}
	before := shape()
	for name, edit := range edits {
		edit()
		h.reconcile("default")
		h.reconcile("default")
		if got := shape(); got != before {
			t.Errorf("%s: %s, want %s", name, got, before)
		}
	}

	d := h.deployment("default")
	d.Annotations = map[string]string{"kubectl.kubernetes.io/last": "x"}
	d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] = "now"
	d.Labels["theirs"] = "x"
	h.must(h.kube.Update(t.Context(), d))
	h.writes = nil
	h.reconcile("default")
	if len(h.writes) > 0 {
		t.Errorf("other owners added fields, but the controller wrote %q", h.writes)
	}
	h.edit(func(s *v1alpha1.LimiterSpec) { s.Image = "weir:next" })
	h.reconcile("default")
	d = h.deployment("default")
	if d.Spec.Template.Spec.Containers[0].Image != "weir:next" {
		t.Error("the edit is not applied")
	}
	if d.Annotations["kubectl.kubernetes.io/last"] != "x" || d.Labels["theirs"] != "x" || d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] != "now" {
		t.Errorf("what other owners added was removed: %v %v %v", d.Annotations, d.Labels, d.Spec.Template.Annotations)
	}
}

// The status fields and the condition are those of the rule set controller.
func TestReport_KeepsStatusFieldsOfOtherControllers(t *testing.T) {
	h := newHarness(t)
	h.create("default", nil)
	h.reconcile("default")
	theirs := v1alpha1ac.Limiter("default", h.namespace).WithStatus(v1alpha1ac.LimiterStatus().
		WithRevision("sha256:1").
		WithConditions(metav1ac.Condition().WithType(v1alpha1.ConditionDegraded).WithStatus(yes).WithReason(v1alpha1.ReasonLocalMode).
			WithMessage("").WithLastTransitionTime(metav1.NewTime(h.now).Rfc3339Copy())))
	h.must(h.kube.Status().Apply(t.Context(), theirs, client.FieldOwner("weir-operator")))
	h.setReadyReplicas(2)
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionReady, yes, v1alpha1.ReasonDeployed)
	status := h.limiter().Status
	if status.Revision != "sha256:1" || len(status.Conditions) != 4 {
		t.Errorf("the status fields of the other controller are missing: %+v", status)
	}
}

func TestReplicas_AreHandedOverToTheAutoscalerAndBack(t *testing.T) {
	h := newHarness(t)
	h.create("default", func(s *v1alpha1.LimiterSpec) { s.Replicas = new(int32(4)) })
	h.reconcile("default")
	replicas := func() int32 { return *h.deployment("default").Spec.Replicas }

	h.edit(func(s *v1alpha1.LimiterSpec) { s.Autoscaling = &v1alpha1.Autoscaling{MaxReplicas: 9} })
	h.reconcile("default")
	h.reconcile("default")
	if replicas() != 4 {
		t.Errorf("with an autoscaler there are %d replicas at first, want 4 as before", replicas())
	}
	scale := func(to int32) {
		h.must(h.kube.SubResource("scale").Update(t.Context(), h.deployment("default"), client.WithSubResourceBody(&autoscalingv1.Scale{
			ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: Name("default")}, Spec: autoscalingv1.ScaleSpec{Replicas: to},
		})))
	}
	scale(7)
	h.writes = nil
	h.reconcile("default")
	if replicas() != 7 || strings.Contains(strings.Join(h.writes, " "), "Deployment") {
		t.Errorf("the autoscaler set 7 replicas, there are %d; writes %q", replicas(), h.writes)
	}
	h.edit(func(s *v1alpha1.LimiterSpec) { s.Image = "weir:next" })
	h.reconcile("default")
	if replicas() != 7 {
		t.Errorf("an edit changed 7 replicas to %d", replicas())
	}
	h.edit(func(s *v1alpha1.LimiterSpec) { s.Autoscaling = nil })
	h.reconcile("default")
	if replicas() != 4 {
		t.Errorf("without an autoscaler there are %d replicas, want 4", replicas())
	}
	if kinds := strings.Join(h.existingKinds(), " "); strings.Contains(kinds, "Autoscaler") {
		t.Errorf("the autoscaler still exists: %s", kinds)
	}

	h.create("new", func(s *v1alpha1.LimiterSpec) {
		s.Replicas, s.Autoscaling = new(int32(5)), &v1alpha1.Autoscaling{MaxReplicas: 9}
	})
	for range 3 {
		h.reconcile("new")
		if got := *h.deployment("new").Spec.Replicas; got != 5 {
			t.Errorf("a new Limiter with an autoscaler has %d replicas, want 5 at first", got)
		}
	}
	h.writes = nil
	h.reconcile("new")
	if len(h.writes) > 0 {
		t.Errorf("nothing has changed, but the controller wrote %q", h.writes)
	}
}

func TestReconcile_KeepsLimitersApart(t *testing.T) {
	one, other := newHarness(t), newHarness(t)
	other.reconciler = one.reconciler // one operator
	for _, h := range []*harness{one, other} {
		h.create("default", nil)
		h.reconcile("default")
	}
	one.create("second", nil)
	one.reconcile("second")
	other.edit(func(s *v1alpha1.LimiterSpec) { s.Image = "weir:other" })
	other.reconcile("default")
	one.writes = nil
	one.reconcile("default")
	one.reconcile("second")
	if len(one.writes) > 0 {
		t.Errorf("an edit of one Limiter causes the writes %q for others", one.writes)
	}
	image := func(h *harness, name string) string { return h.deployment(name).Spec.Template.Spec.Containers[0].Image }
	if image(one, "default") != "weir:test" || image(one, "second") != "weir:test" || image(other, "default") != "weir:other" {
		t.Error("an edit of one Limiter changes another Limiter")
	}
	if cmp.Equal(one.deployment("default").Spec.Selector, one.deployment("second").Spec.Selector) {
		t.Error("two Limiters select the same pods")
	}
}

func TestSecrets_AreReportedAndAwaitedWhenMissing(t *testing.T) {
	h := newHarness(t)
	h.create("default", func(s *v1alpha1.LimiterSpec) {
		s.Redis.CredentialsSecretRef = &v1alpha1.SecretReference{Name: "login"}
		s.Redis.TLS = &v1alpha1.RedisTLS{SecretRef: &v1alpha1.SecretReference{Name: "tls"}}
	})
	missing := func(part string) {
		t.Helper()
		if again := h.reconcile("default").RequeueAfter; again != blockedRetry {
			t.Errorf("the next reconciliation is in %v, want blockedRetry", again)
		}
		h.expectCondition(v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonSecretNotFound)
		h.expectCondition(v1alpha1.ConditionReady, no, v1alpha1.ReasonSecretNotFound)
		h.expectCondition(v1alpha1.ConditionReconciling, yes, v1alpha1.ReasonSecretNotFound)
		h.expectNoCondition(v1alpha1.ConditionStalled)
		if got := h.message(v1alpha1.ConditionReady); !strings.Contains(got, part) {
			t.Errorf("the message of Ready is %q, want %q in it", got, part)
		}
	}
	secret := func(name string, keys ...string) {
		t.Helper()
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name}, StringData: map[string]string{}}
		for _, key := range keys {
			s.StringData[key] = "x"
		}
		h.must(client.IgnoreNotFound(h.kube.Delete(t.Context(), s)))
		s.ResourceVersion = ""
		h.must(h.kube.Create(t.Context(), s))
	}
	missing("Secret login does not exist in namespace " + h.namespace)
	if got := h.nextEvent(); !strings.HasPrefix(got, "Warning SecretNotFound ") {
		t.Errorf("event %q", got)
	}
	secret("login", "username")
	missing("Secret login has no key password")
	secret("login", "password")
	missing("Secret tls does not exist in namespace")
	secret("tls", "tls.crt")
	missing("add the other one")
	secret("tls", "tls.crt", "tls.key")
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonDeployed)
	args := func() string { return strings.Join(h.deployment("default").Spec.Template.Spec.Containers[0].Args, " ") }
	if strings.Contains(args(), "--redis-ca") || !strings.Contains(args(), "--redis-cert=/etc/weir/redis-tls/tls.crt") {
		t.Errorf("arguments %s", args())
	}
	secret("tls", "ca.crt", "tls.crt", "tls.key")
	h.reconcile("default")
	if !strings.Contains(args(), "--redis-ca=/etc/weir/redis-tls/ca.crt") {
		t.Errorf("arguments %s", args())
	}

	before := h.deployment("default").ResourceVersion
	h.must(h.kube.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "tls"}}))
	missing("Secret tls does not exist in namespace")
	if h.deployment("default").ResourceVersion != before {
		t.Error("the Deployment was changed while a Secret is missing")
	}
}

func TestApply_LeavesForeignObjectsAlone(t *testing.T) {
	h := newHarness(t)
	theirs := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: Name("default"), Labels: map[string]string{"app": "theirs"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}, Selector: map[string]string{"app": "theirs"}},
	}
	h.must(h.kube.Create(t.Context(), theirs))
	h.create("default", nil)
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionAccepted, no, v1alpha1.ReasonRefused)
	h.expectCondition(v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonRefused)
	h.expectCondition(v1alpha1.ConditionReady, no, v1alpha1.ReasonRefused)
	h.expectCondition(v1alpha1.ConditionStalled, yes, v1alpha1.ReasonRefused)
	h.expectNoCondition(v1alpha1.ConditionReconciling)
	if got := h.message(v1alpha1.ConditionReady); !strings.HasPrefix(got, "Service weir-limiter-default already exists") {
		t.Errorf("the message of Ready is %q", got)
	}
	if got := owned[corev1.Service](h, "default"); got.ResourceVersion != theirs.ResourceVersion {
		t.Error("a foreign Service was changed")
	}
	h.must(h.kube.Delete(t.Context(), theirs))
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionAccepted, yes, v1alpha1.ReasonAccepted)
	h.expectCondition(v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonDeployed)
	h.expectNoCondition(v1alpha1.ConditionStalled)
}

// The cache does not have the ConfigMap that another user has just created.
func TestApply_DoesNotTakeOverWhatAStaleCacheMisses(t *testing.T) {
	h := newHarness(t)
	h.create("default", nil)
	theirs := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: Name("default")}, Data: map[string]string{replicasKey: "theirs"},
	}
	h.must(h.kube.Create(t.Context(), theirs))
	_, err := h.reconciler.applyIfChanged(t.Context(), h.limiter(), startValues(h.limiter()), nil)
	if met := (conditionError{}); !errors.As(err, &met) || met.reason != v1alpha1.ReasonRefused {
		t.Errorf("error %v", err)
	}
	if got := owned[corev1.ConfigMap](h, "default"); got.ResourceVersion != theirs.ResourceVersion {
		t.Error("a foreign ConfigMap was changed")
	}
}

// The cache holds only objects with the operator's label, as in the operator.
func TestApply_DoesNotTakeOverWhatTheCacheFiltersOut(t *testing.T) {
	h := newHarness(t)
	theirs := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: h.namespace, Name: Name("default"), Annotations: map[string]string{"role": "theirs"},
	}}
	h.must(h.kube.Create(t.Context(), theirs))
	h.create("default", nil)
	h.reconciler.Client = interceptor.NewClient(h.kube, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, object, options...)
			if _, is := object.(*v1alpha1.Limiter); !is && err == nil && object.GetLabels()[managedByLabel] != managedBy {
				return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
			}
			return err
		},
	})
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionAccepted, no, v1alpha1.ReasonRefused)
	h.expectCondition(v1alpha1.ConditionStalled, yes, v1alpha1.ReasonRefused)
	if got := h.message(v1alpha1.ConditionReady); !strings.HasPrefix(got, "ServiceAccount weir-limiter-default already exists") {
		t.Errorf("the message of Ready is %q", got)
	}
	if got := owned[corev1.ServiceAccount](h, "default"); got.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("a foreign ServiceAccount was changed: %+v", got.ObjectMeta)
	}
	h.must(h.kube.Delete(t.Context(), theirs))
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonDeployed)

	service := owned[corev1.Service](h, "default")
	delete(service.Labels, managedByLabel) // without it the cache misses the object
	h.must(h.kube.Update(t.Context(), service))
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonDeployed)
	if got := owned[corev1.Service](h, "default").Labels[managedByLabel]; got != managedBy {
		t.Error("the label of the Limiter's own object was not restored")
	}
}

func TestApply_ReportsAnImmutableSelector(t *testing.T) {
	h := newHarness(t)
	h.create("default", nil)
	h.reconcile("default")
	d := h.deployment("default")
	h.must(h.kube.Delete(t.Context(), d))
	d.ResourceVersion, d.UID, d.ManagedFields = "", "", nil
	d.Spec.Selector.MatchLabels["app.kubernetes.io/instance"] = "other"
	d.Spec.Template.Labels["app.kubernetes.io/instance"] = "other"
	h.must(h.kube.Create(t.Context(), d)) // still owned by the Limiter
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionAccepted, no, v1alpha1.ReasonRefused)
	if got := h.message(v1alpha1.ConditionStalled); !strings.Contains(got, "immutable") {
		t.Errorf("the message of Stalled is %q", got)
	}
	h.must(h.kube.Delete(t.Context(), d))
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonDeployed)
}

func TestApply_ReportsATemplateThatTheAPIServerRejects(t *testing.T) {
	h := newHarness(t)
	h.create("default", func(s *v1alpha1.LimiterSpec) { s.PodTemplate.Labels = map[string]string{"team": "not a label!"} })
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionAccepted, no, v1alpha1.ReasonRefused)
	if got := h.message(v1alpha1.ConditionAccepted); !strings.Contains(got, "not a label!") {
		t.Errorf("the message of Accepted is %q", got)
	}
	if kinds := strings.Join(h.existingKinds(), " "); !strings.Contains(kinds, "Service ") {
		t.Errorf("the other objects are not applied: %s", kinds)
	}
	h.edit(func(s *v1alpha1.LimiterSpec) { s.PodTemplate.Labels = nil })
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonDeployed)
}

func TestCheckTemplate_RejectsPodsThatCouldNotStart(t *testing.T) {
	h := newHarness(t)
	h.create("default", nil)
	h.reconcile("default")
	before := h.deployment("default").ResourceVersion
	h.edit(func(s *v1alpha1.LimiterSpec) { s.PodTemplate.Resources = resourcesWithMemory("64Mi") })
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionAccepted, no, v1alpha1.ReasonRefused)
	h.expectCondition(v1alpha1.ConditionReady, no, v1alpha1.ReasonRefused)
	h.expectCondition(v1alpha1.ConditionStalled, yes, v1alpha1.ReasonRefused)
	if got := h.message(v1alpha1.ConditionStalled); !strings.Contains(got, "spec.podTemplate.resources.limits.memory: 64Mi") {
		t.Errorf("the message of Stalled is %q", got)
	}
	if h.deployment("default").ResourceVersion != before {
		t.Error("the Deployment was changed")
	}
	h.edit(func(s *v1alpha1.LimiterSpec) { s.PodTemplate.Resources = resourcesWithMemory("128Mi") })
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonDeployed)
}

// One pod of the old template is ready. The pod of the new template cannot pull its image.
func TestReady_ReportsAStuckRollout(t *testing.T) {
	h := newHarness(t)
	h.create("default", func(s *v1alpha1.LimiterSpec) { s.Replicas = new(int32(1)) })
	h.reconcile("default")
	h.setReadyReplicas(1)
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionReady, yes, v1alpha1.ReasonDeployed)

	h.edit(func(s *v1alpha1.LimiterSpec) { s.Image = "weir:none" })
	h.reconcile("default")
	roll := func(status appsv1.DeploymentStatus) {
		t.Helper()
		d := h.deployment("default")
		status.ObservedGeneration = d.Generation
		d.Status = status
		h.must(h.kube.Status().Update(t.Context(), d))
		h.reconcile("default")
	}
	roll(appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 1, ReadyReplicas: 1})
	h.expectCondition(v1alpha1.ConditionReady, no, v1alpha1.ReasonReplicasMissing)
	h.expectCondition(v1alpha1.ConditionReconciling, yes, v1alpha1.ReasonReplicasMissing)
	h.expectNoCondition(v1alpha1.ConditionStalled)
	roll(appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 1, ReadyReplicas: 1, Conditions: []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded", Message: "timed out",
	}}})
	h.expectCondition(v1alpha1.ConditionReady, no, v1alpha1.ReasonProgressDeadlineExceeded)
	h.expectCondition(v1alpha1.ConditionStalled, yes, v1alpha1.ReasonProgressDeadlineExceeded)
	h.expectNoCondition(v1alpha1.ConditionReconciling)
	roll(appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 1, ReadyReplicas: 2}) // the image has become available
	h.expectCondition(v1alpha1.ConditionReady, no, v1alpha1.ReasonReplicasMissing)
	roll(appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1})
	h.expectCondition(v1alpha1.ConditionReady, yes, v1alpha1.ReasonDeployed)
	h.expectNoCondition(v1alpha1.ConditionStalled, v1alpha1.ConditionReconciling)
}

// A Limiter must end without an operator: it has no finalizers, and those of older versions are removed.
func TestReconcile_LeavesNoFinalizer(t *testing.T) {
	h := newHarness(t)
	h.create("default", nil)
	l := h.limiter()
	l.Finalizers = []string{"weir.dev/redis", "example.com/hold", "weir.dev/throttle"}
	h.must(h.kube.Update(t.Context(), l))
	h.reconcile("default")
	if got := h.limiter().Finalizers; !slices.Equal(got, []string{"example.com/hold"}) {
		t.Errorf("finalizers %q", got)
	}
	l = h.limiter()
	l.Finalizers = []string{"weir.dev/redis", "weir.dev/throttle"}
	h.must(h.kube.Update(t.Context(), l))
	h.must(h.kube.Delete(t.Context(), l)) // while no operator of this version runs
	h.limiter()
	h.reconcile("default")
	h.expectDeleted("default")
	h.writes = nil
	h.reconcile("default")
	if len(h.writes) > 0 {
		t.Errorf("writes %q for a deleted Limiter", h.writes)
	}
}

func (h *harness) expectDeleted(name string) {
	h.Helper()
	err := h.kube.Get(h.Context(), types.NamespacedName{Namespace: h.namespace, Name: name}, &v1alpha1.Limiter{})
	if !apierrors.IsNotFound(err) {
		h.Errorf("Limiter %s still exists: %v", name, err)
	}
}

// The API server validates the pods of every golden file.
func TestRender_PodsMeetTheRestrictedPodSecurityStandard(t *testing.T) {
	h := newHarness(t)
	var namespace corev1.Namespace
	h.must(h.kube.Get(t.Context(), types.NamespacedName{Name: h.namespace}, &namespace))
	namespace.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	h.must(h.kube.Update(t.Context(), &namespace))
	for _, name := range []string{"minimal", "full", "sentinel", "cluster-tls"} {
		limiter := goldenLimiter(t, name)
		account := serviceAccount(limiter)
		account.Namespace, account.OwnerReferences = h.namespace, nil
		h.must(client.IgnoreAlreadyExists(h.kube.Create(t.Context(), account)))
		var rendered *appsv1.Deployment
		for _, object := range Render(limiter, Secrets{}, testOptions) {
			if d := asDeployment(object); d != nil {
				rendered = d
			}
		}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name}, Spec: rendered.Spec.Template.Spec}
		if err := h.kube.Create(t.Context(), p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		p = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name + "-root"}, Spec: rendered.Spec.Template.Spec}
		p.Spec.SecurityContext = nil
		if err := h.kube.Create(t.Context(), p); !apierrors.IsForbidden(err) {
			t.Errorf("%s: a pod that may run as root is accepted: %v", name, err)
		}
	}
}
