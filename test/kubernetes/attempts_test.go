package kubernetes

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/fixture"
)

// verdict is the decision of the other webhook about a write that is not a dry run. nil allows the write.
type verdict func() *metav1.Status

// otherWebhook registers another webhook for the ConfigMaps of a namespace. It decides with the current value of decide. API servers call it
// and Weir in parallel.
func otherWebhook(t *testing.T, w *World, namespace string) (decide *atomic.Pointer[verdict]) {
	t.Helper()
	decide = &atomic.Pointer[verdict]{}
	files := mustGet[*fixture.TLSFiles](t)(fixture.WriteTLSFiles(t.TempDir()))
	pair := mustGet[tls.Certificate](t)(tls.LoadX509KeyPair(files.ServerCert, files.ServerKey))
	bundle := mustGet[[]byte](t)(os.ReadFile(files.CA))
	var calls atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		calls.Add(1)
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(in.Body).Decode(&review); err != nil {
			t.Error(err)
			return
		}
		var status *metav1.Status
		if now := decide.Load(); now != nil {
			status = (*now)()
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: status == nil, Result: status}
		review.Request = nil
		if err := json.NewEncoder(out).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(server.Close)
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "other-" + namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:         "other.example.org",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new(server.URL), CABundle: bundle},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			FailurePolicy:     new(admissionregistrationv1.Fail), SideEffects: new(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
	must(t, w.Admin.Create(t.Context(), configuration))
	t.Cleanup(func() { must(t, w.Admin.Delete(context.Background(), configuration)) })
	must(t, waitFor(t.Context(), "the first call of the other webhook", func(ctx context.Context) error {
		if err := w.Admin.Create(ctx, configMap(namespace), client.DryRunAll); err != nil {
			return err
		}
		if calls.Load() == 0 {
			return errors.New("it has not been called")
		}
		return nil
	}))
	return decide
}

// measureCharge returns how many units fn costs under the policy, and how often API servers call the webhook meanwhile.
func measureCharge(t *testing.T, w *World, policy string, fn func()) (units, calls int) {
	t.Helper()
	unitsBefore, callsBefore := mustGet[int](t)(w.Decisions(t.Context(), policy, "allowed")), mustGet[int](t)(w.WebhookCalls(t.Context()))
	fn()
	return mustGet[int](t)(w.Decisions(t.Context(), policy, "allowed")) - unitsBefore, mustGet[int](t)(w.WebhookCalls(t.Context())) - callsBefore
}

// The other webhook denies writes as if the generated name existed. Only one in 14 million generated names exists, but the API server reacts
// in the same way.
func TestGenerateName_CountsEachAttempt(t *testing.T) {
	w := newWorld(t)
	namespace := mustGet[string](t)(w.Namespace(t.Context(), "acme"))
	p := policy("generated", v1alpha1.AxisNamespace, 1000, "1h", nil)
	must(t, w.Enforce(t.Context(), Person("alice"), configMap(namespace), p))
	decide := otherWebhook(t, w, namespace)
	alice := bothClients(t, w, Person("alice"))[0]
	for _, step := range []struct{ taken, units int }{{0, 1}, {3, 4}, {7, 8}, {100, 8}} {
		left := step.taken
		taken := verdict(func() *metav1.Status {
			if left--; left < 0 {
				return nil
			}
			return &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonAlreadyExists}
		})
		decide.Store(&taken)
		var err error
		units, calls := measureCharge(t, w, p.Name, func() { err = alice.Create(t.Context(), configMap(namespace)) })
		t.Logf("%d names are taken: %d units, %v", step.taken, units, err)
		if units != step.units || calls != step.units {
			t.Errorf("%d names are taken: %d units, %d calls of the webhook, want %d", step.taken, units, calls, step.units)
		}
		if all := step.taken > step.units; all != apierrors.IsAlreadyExists(err) || !all && err != nil {
			t.Errorf("%d names are taken: %v", step.taken, err)
		}
	}
}

// An admin changes the object while the other webhook delays the write of another user, so that the write must be repeated.
func TestPatch_CountsEachAttemptAfterAConflict(t *testing.T) {
	w := newWorld(t)
	namespace := mustGet[string](t)(w.Namespace(t.Context(), "acme"))
	p := policy("collisions", v1alpha1.AxisNamespace, 1000, "1h", nil)
	must(t, w.Enforce(t.Context(), Person("alice"), configMap(namespace), p))
	object := configMap(namespace)
	must(t, w.Admin.Create(t.Context(), object))
	decide := otherWebhook(t, w, namespace)
	alice := bothClients(t, w, Person("alice"))[0]
	admins := bothClients(t, w, Person("admin", "system:masters"))
	patch := func(c client.Client, key string) error {
		return c.Patch(t.Context(), object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"data":{"`+key+`":"1"}}`)))
	}
	for _, collisions := range []int{0, 1, 3} {
		left := collisions
		var colliding verdict
		colliding = func() *metav1.Status {
			if left--; left < 0 {
				return nil
			}
			decide.Store(nil) // the other webhook is also called for the patch below
			defer decide.Store(&colliding)
			if err := patch(admins[left%2], fmt.Sprintf("admin-%d-%d", collisions, left)); err != nil {
				t.Error(err)
			}
			return nil
		}
		decide.Store(&colliding)
		units, calls := measureCharge(t, w, p.Name, func() { must(t, patch(alice, fmt.Sprintf("alice-%d", collisions))) })
		t.Logf("%d collisions: %d units", collisions, units)
		if units != 1+collisions || calls != 1+collisions {
			t.Errorf("%d collisions: %d units, %d calls of the webhook, want %d", collisions, units, calls, 1+collisions)
		}
	}
	decide.Store(nil)
	old := object.DeepCopy() // an old version
	var err error
	units, calls := measureCharge(t, w, p.Name, func() { err = alice.Update(t.Context(), old) })
	if !apierrors.IsConflict(err) || units != 0 || calls != 0 {
		t.Errorf("an update of an old version: %v, %d units, %d calls of the webhook", err, units, calls)
	}
}
