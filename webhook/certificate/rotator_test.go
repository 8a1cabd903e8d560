package certificate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

var secretName = types.NamespacedName{Namespace: "weir-system", Name: "weir-webhook"}

// rotating is a Rotator and its cluster. test/kubernetes and controllers/registration run it on a real API server.
type rotating struct {
	*testing.T
	*Rotator
	now     time.Time
	cluster client.WithWatch
	applied []request        // that the Rotator has sent
	failing map[string]error // by "get" or "apply" and the name of the object
	read    func(name string)
}

// request is the part of an apply request that tests check.
type request struct {
	Metadata struct {
		Name string    `json:"name"`
		UID  types.UID `json:"uid"`
	} `json:"metadata"`
}

// configuration is a ValidatingWebhookConfiguration with webhooks that have these bundles.
func configuration(name string, bundles ...[]byte) *admissionv1.ValidatingWebhookConfiguration {
	c := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)}}
	for i, bundle := range bundles {
		c.Webhooks = append(c.Webhooks, admissionv1.ValidatingWebhook{
			Name: string(rune('a'+i)) + ".weir.dev", FailurePolicy: new(admissionv1.Fail), SideEffects: new(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
			ClientConfig:            admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "weir-system", Name: "weir"}, CABundle: bundle},
		})
	}
	return c
}

// newRotating returns a Rotator that publishes to the configurations "first" and "second", and waits for "external".
func newRotating(t *testing.T, objects ...client.Object) *rotating {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), admissionv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	r := &rotating{T: t, now: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC), failing: map[string]error{}, read: func(string) {}}
	r.cluster = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	calls := interceptor.NewClient(r.cluster, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if err := r.failing["get "+key.Name]; err != nil {
				return err
			}
			err := c.Get(ctx, key, o, options...)
			r.read(key.Name)
			return err
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			text, err := json.Marshal(o)
			if err != nil {
				return err
			}
			var sent request
			if err := json.Unmarshal(text, &sent); err != nil {
				return err
			}
			r.applied = append(r.applied, sent)
			if err := r.failing["apply "+sent.Metadata.Name]; err != nil {
				return err
			}
			return c.Apply(ctx, o, options...)
		},
	})
	var err error
	r.Rotator, err = NewRotator(Config{
		Rotation: DefaultRotation(serviceName), Secret: secretName,
		Configurations: []string{"first", "second"}, ExternalConfigurations: []string{"external"},
		Client: calls, Uncached: calls, Interval: time.Minute, Clock: func() time.Time { return r.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// round runs the Rotator once. It must succeed. round returns the stored state and the names of the objects that it wrote.
func (r *rotating) round() (State, string) {
	r.Helper()
	r.applied = nil
	result, err := r.Reconcile(r.Context(), ctrl.Request{})
	if err != nil || result.RequeueAfter != time.Minute {
		r.Fatalf("%+v, %v; want the next round after the interval", result, err)
	}
	state, err := decode(r.secret().Data)
	if err != nil {
		r.Fatal(err)
	}
	return state, r.written()
}

// written returns the names of the objects in the requests of the Rotator.
func (r *rotating) written() string {
	var names []string
	for _, sent := range r.applied {
		names = append(names, sent.Metadata.Name)
	}
	return strings.Join(names, " ")
}

func (r *rotating) secret() *corev1.Secret {
	r.Helper()
	var secret corev1.Secret
	if err := r.cluster.Get(r.Context(), secretName, &secret); err != nil {
		r.Fatal(err)
	}
	return &secret
}

func (r *rotating) webhooks(name string) []admissionv1.ValidatingWebhook {
	r.Helper()
	var c admissionv1.ValidatingWebhookConfiguration
	if err := r.cluster.Get(r.Context(), types.NamespacedName{Name: name}, &c); err != nil {
		r.Fatal(err)
	}
	return c.Webhooks
}

// setBundles replaces the bundles of a configuration, as a user or another controller does.
func (r *rotating) setBundles(name string, bundles ...[]byte) {
	r.Helper()
	var c admissionv1.ValidatingWebhookConfiguration
	err := r.cluster.Get(r.Context(), types.NamespacedName{Name: name}, &c)
	if err != nil {
		r.Fatal(err)
	}
	for i, bundle := range bundles {
		c.Webhooks[i].ClientConfig.CABundle = bundle
	}
	if err := r.cluster.Update(r.Context(), &c); err != nil {
		r.Fatal(err)
	}
}

func TestRotator_StoresCertificatesAndPublishesTheBundle(t *testing.T) {
	r := newRotating(t, configuration("first", nil, []byte("old")), configuration("second", nil), configuration("external", nil))
	state, written := r.round()
	if written != "weir-webhook first second" {
		t.Errorf("wrote %s", written)
	}
	secret := r.secret()
	if secret.Labels["app.kubernetes.io/managed-by"] != "weir-operator" || !bytes.Equal(secret.Data["ca.crt"], state.Bundle()) {
		t.Errorf("labels %v, bundle %s", secret.Labels, secret.Data["ca.crt"])
	}
	for name, n := range map[string]int{"first": 2, "second": 1} {
		webhooks := r.webhooks(name)
		if len(webhooks) != n {
			t.Fatalf("%s has %d webhooks, want %d", name, len(webhooks), n)
		}
		for _, webhook := range webhooks {
			if !bytes.Equal(webhook.ClientConfig.CABundle, state.Bundle()) {
				t.Errorf("%s in %s has the bundle %q", webhook.Name, name, webhook.ClientConfig.CABundle)
			}
			if *webhook.FailurePolicy != admissionv1.Fail || webhook.ClientConfig.Service.Name != "weir" {
				t.Errorf("%s in %s has changed: %+v", webhook.Name, name, webhook)
			}
		}
	}
	if bundle := r.webhooks("external")[0].ClientConfig.CABundle; len(bundle) != 0 {
		t.Errorf("the Rotator wrote to the configuration of another controller: %q", bundle)
	}
}

func TestRotator_WritesOnlyWhatDiffers(t *testing.T) {
	r := newRotating(t, configuration("first", nil, nil), configuration("second", nil))
	state, _ := r.round()
	r.round() // records that the CA is published
	for name, test := range map[string]struct {
		change func()
		want   string
	}{
		"nothing":               {func() {}, ""},
		"the first webhook":     {func() { r.setBundles("first", []byte("x")) }, "first"},
		"the second webhook":    {func() { r.setBundles("first", state.Bundle(), []byte("x")) }, "first"},
		"another configuration": {func() { r.setBundles("second", []byte("x")) }, "second"},
		"all webhooks":          {func() { r.setBundles("first", nil, nil); r.setBundles("second", nil) }, "first second"},
	} {
		test.change()
		_, written := r.round()
		// The Secret has the time since which all webhooks have the bundle.
		if got := strings.TrimSpace(strings.TrimPrefix(written, secretName.Name)); got != test.want {
			t.Errorf("after a change of %s: wrote %q, want %q", name, got, test.want)
		}
		r.round()
		if _, written := r.round(); written != "" {
			t.Errorf("two rounds after a change of %s: wrote %q, want nothing", name, written)
		}
	}
}

// A configuration that is deleted between two calls must not be created again: it would have no rules.
func TestRotator_WritesOnlyTheConfigurationsThatItHasRead(t *testing.T) {
	r := newRotating(t, configuration("second", nil))
	if _, written := r.round(); written != "weir-webhook second" {
		t.Errorf("wrote %q, want nothing to a configuration that does not exist", written)
	}
	if got := r.applied[1].Metadata.UID; got != "uid-of-second" {
		t.Errorf("the request has the UID %v", got)
	}
}

func TestRotator_DoesNotOverwriteASecretThatHasChanged(t *testing.T) {
	r := newRotating(t)
	state, _ := r.round()
	r.now = r.now.Add(70 * day) // the certificate is due
	r.read = func(name string) {
		if name == secretName.Name {
			r.read = func(string) {}
			secret := r.secret()
			secret.Annotations = map[string]string{"edited": "true"}
			if err := r.cluster.Update(t.Context(), secret); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{}); !apierrors.IsConflict(err) {
		t.Errorf("%v, want a conflict", err)
	}
	if stored, err := decode(r.secret().Data); err != nil || !stored.Serving.Certificate.Equal(state.Serving.Certificate) {
		t.Errorf("the Secret was overwritten: %v", err)
	}
	if renewed, _ := r.round(); renewed.Serving.Certificate.Equal(state.Serving.Certificate) {
		t.Error("the next round does not renew the certificate")
	}
}

func TestRotator_StopsAtTheFirstError(t *testing.T) {
	for failing, want := range map[string]struct{ message, applied string }{
		"get first":          {"read ValidatingWebhookConfiguration first", ""},
		"get external":       {"read ValidatingWebhookConfiguration external", ""},
		"get weir-webhook":   {"read Secret weir-system/weir-webhook", ""},
		"apply weir-webhook": {"write Secret weir-system/weir-webhook", "weir-webhook"},
		"apply first":        {"write the CA bundle to ValidatingWebhookConfiguration first", "weir-webhook first"},
	} {
		t.Run(failing, func(t *testing.T) {
			r := newRotating(t, configuration("first", nil), configuration("second", nil))
			refused := errors.New("refused")
			r.failing[failing] = refused
			_, err := r.Reconcile(t.Context(), ctrl.Request{})
			if !errors.Is(err, refused) || !strings.HasPrefix(err.Error(), want.message) {
				t.Errorf("%v, want %s", err, want.message)
			}
			if got := r.written(); got != want.applied {
				t.Errorf("sent requests for %q, want %q", got, want.applied)
			}
			delete(r.failing, failing)
			r.round()
		})
	}
}

// A CA is published when all configurations contain it, also those of other controllers.
func TestRotator_WaitsForExternalConfigurations(t *testing.T) {
	r := newRotating(t, configuration("first", nil), configuration("external", nil))
	for range 2 {
		state, _ := r.round()
		if since := state.CAs[0].PublishedSince; !since.IsZero() {
			t.Fatalf("the CA is published since %v, but another controller has not written it", since)
		}
		r.now = r.now.Add(time.Minute)
	}
	state, _ := r.round()
	r.setBundles("external", state.Bundle())
	if state, _ = r.round(); !state.CAs[0].PublishedSince.Equal(r.now) {
		t.Errorf("the CA is published since %v, want %v", state.CAs[0].PublishedSince, r.now)
	}
}

// The API servers have loaded the old bundle: the certificate that is served must not change when the Secret is lost.
func TestRotator_RestoresALostSecretWithTheServedCertificate(t *testing.T) {
	for name, serving := range map[string]*Serving{"that this process serves": {}, "that other processes serve": nil} {
		t.Run(name, func(t *testing.T) {
			r := newRotating(t, configuration("first", nil))
			r.Serving = serving
			state, _ := r.round()
			if serving != nil {
				if err := serving.Load(r.secret()); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.cluster.Delete(t.Context(), r.secret()); err != nil {
				t.Fatal(err)
			}
			restored, _ := r.round()
			if !restored.Serving.Certificate.Equal(state.Serving.Certificate) || len(restored.CAs) != 2 {
				t.Errorf("another certificate is served, with %d CAs; want the same with the old and a new CA", len(restored.CAs))
			}
		})
	}
}

func TestRotator_LogsThatASecretIsUnreadable(t *testing.T) {
	r := newRotating(t)
	var lines []string
	logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	run := func(want int) {
		t.Helper()
		if _, err := r.Reconcile(log.IntoContext(t.Context(), logger), ctrl.Request{}); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(strings.Join(lines, "\n"), "Cannot read the webhook certificates in the Secret"); n != want {
			t.Errorf("%d log lines, want %d: %q", n, want, lines)
		}
	}
	run(0) // there is no Secret yet
	secret := r.secret()
	secret.Data[keyPrivate] = []byte("x")
	if err := r.cluster.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	run(1)
	run(1)
}
