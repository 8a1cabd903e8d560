package policy_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/webhook/certificate"
)

const (
	validSpec   = `{axis: User, limit: 10, window: 1m}`
	invalidSpec = `{axis: User, limit: 10, window: 1m, match: {http: {paths: [{type: RegularExpression, value: "/v1/(?=x)"}]}}}` // valid in the schema of the CRD
)

func tlsOptions(serving *certificate.Serving) []func(*tls.Config) {
	return []func(*tls.Config){serving.Configure}
}

func TestValidateCreate_RejectsAPolicyOverBudgetInTheAPIServer(t *testing.T) {
	w := newTestCluster(t)
	w.operator(rotation())
	w.waitForWebhook()
	limiter := &v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "small"}}
	limiter.Spec.Redis.Addresses = []v1alpha1.RedisAddress{"redis:6379"}
	limiter.Spec.PolicySelector = &metav1.LabelSelector{MatchLabels: map[string]string{"of": w.namespace}}
	limiter.Spec.PolicyBudget.PerNamespace.Rules = new(int64(1))
	w.must(w.Create(t.Context(), limiter))
	t.Cleanup(func() { w.must(w.Delete(context.Background(), limiter)) }) // the next test reports for all Limiters
	first, second := w.policy("first", validSpec), w.policy("second", validSpec)
	for _, p := range []*v1alpha1.RateLimitPolicy{first, second} {
		p.Labels = map[string]string{"of": w.namespace}
	}
	w.must(w.Create(t.Context(), first))
	want := "with this policy, namespace " + w.namespace + " needs 2 rules, and the policy budget of Limiter " + w.namespace + "/small is 1 (this policy: 1)"
	fixture.Await(t, "a policy over budget is rejected", func() bool { // when the cache of the webhook has the Limiter and the first policy
		err := w.Create(t.Context(), second.DeepCopy(), client.DryRunAll)
		return apierrors.IsInvalid(err) && strings.Contains(err.Error(), want)
	})
}

func TestValidateCreate_RejectsAnInvalidPolicyInTheAPIServer(t *testing.T) {
	w := newTestCluster(t)
	w.operator(rotation())
	w.waitForWebhook()
	for _, c := range []struct{ name, spec, field, message string }{
		{"a regular expression with a look-ahead", invalidSpec, "spec.match.http.paths[0].value", "is not a valid RE2 expression"},
		{
			"a CEL expression with an unknown field", `{axis: User, limit: 10, window: 1m, match: {http: {expression: "request.nowhere == 1"}}}`,
			"spec.match.http.expression", "nowhere",
		},
		{
			"a CEL expression of the wrong type", `{axis: User, limit: 10, window: 1m, tiers: [{name: a, when: {expression: "1 + 1"}, limit: 1}]}`,
			"spec.tiers[0].when.expression", "bool",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := w.Create(t.Context(), w.policy("wrong", c.spec))
			var status apierrors.APIStatus
			if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
				t.Fatalf("got error %v, want an error of an invalid object", err)
			}
			causes := status.Status().Details.Causes
			if len(causes) != 1 || causes[0].Field != c.field || !strings.Contains(causes[0].Message, c.message) {
				t.Errorf("got causes %+v, want one for %s that contains %q", causes, c.field, c.message)
			}
		})
	}
	if err := w.Create(t.Context(), w.policy("right", validSpec)); err != nil {
		t.Errorf("a valid policy: %v", err)
	}
	clusterWide := &v1alpha1.ClusterRateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Name: "wrong"}}
	clusterWide.Spec.RateLimitPolicySpec = w.policy("any", invalidSpec).Spec
	if err := w.Create(t.Context(), clusterWide, client.DryRunAll); !apierrors.IsInvalid(err) {
		t.Errorf("an invalid ClusterRateLimitPolicy: %v", err)
	}
	generated := w.policy("", `{axis: Tenant, limit: 10, window: 1m}`)
	generated.GenerateName = "any-"
	if err := w.Create(t.Context(), generated); err != nil {
		t.Errorf("a policy with a generated name: %v", err)
	}
}

func TestWebhook_ShowsProblemsAndWarningsInKubectl(t *testing.T) {
	w := newTestCluster(t)
	w.operator(rotation())
	w.waitForWebhook()
	apply := func(name, spec string) string {
		file := w.file(name+".yaml", "apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: "+name+"}\nspec: "+spec+"\n")
		var stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), w.kube.KubectlPath(), "--kubeconfig", w.kube.Kubeconfig(), "-n", w.namespace, "apply", "-f", file)
		cmd.Stderr = &stderr
		_ = cmd.Run() // the test checks the output
		return stderr.String()
	}
	if output := apply("wrong", invalidSpec); !strings.Contains(output, "spec.match.http.paths[0].value") || !strings.Contains(output, "RE2") {
		t.Errorf("output for an invalid policy: %q", output)
	}
	output := apply("heavy", `{axis: Tenant, limit: 100000, window: 24h, algorithm: SlidingWindowLog}`)
	if want := "Warning: spec.limit: a log of 100000 units takes 800 kB of Redis memory per identifier; SlidingWindowCounter takes 16 bytes\n"; output != want {
		t.Errorf("output for an expensive policy: %q, want %q", output, want)
	}
}

func TestWebhook_SendsWarningsToTheClient(t *testing.T) {
	w := newTestCluster(t)
	w.operator(rotation())
	w.waitForWebhook()
	w.must(w.Create(t.Context(), w.policy("strict", `{axis: User, limit: 10, window: 1m}`)))
	w.warnings.take()
	want := []string{"spec: has no effect, because policy strict counts the same requests and is at least as strict"}
	w.eventually("the cache of the webhook has the other policy", func() bool {
		w.must(w.Create(t.Context(), w.policy("lax", `{axis: User, limit: 20, window: 1m, match: {http: {methods: [GET]}}}`), client.DryRunAll))
		return cmp.Equal(want, w.warnings.take())
	})
	lax := w.policy("lax", `{axis: User, limit: 5, window: 1m}`)
	w.must(w.Create(t.Context(), lax))
	if received := w.warnings.take(); len(received) > 0 {
		t.Errorf("warnings for a stricter policy: %q", received)
	}
	lax.Spec.Limit = new(int64(30))
	w.must(w.Update(t.Context(), lax))
	if diff := cmp.Diff(want, w.warnings.take()); diff != "" {
		t.Errorf("warnings for an update (-want +got):\n%s", diff)
	}
}

func TestWebhook_IsOptionalAndStatusReportsProblems(t *testing.T) {
	w := newTestCluster(t)
	invalid := w.policy("invalid", invalidSpec)
	invalid.Finalizers = []string{"weir.dev/test"}
	w.must(w.Create(t.Context(), invalid))
	w.report()
	w.must(w.Get(t.Context(), client.ObjectKeyFromObject(invalid), invalid))
	accepted := meta.FindStatusCondition(invalid.Status.Conditions, v1alpha1.ConditionAccepted)
	if accepted == nil || accepted.Status != metav1.ConditionFalse || accepted.Reason != v1alpha1.ReasonInvalid {
		t.Errorf("Accepted is %+v", accepted)
	}

	stop := w.operator(rotation())
	w.waitForWebhook()
	invalid.Labels = map[string]string{"team": "a"}
	if err := w.Update(t.Context(), invalid); err != nil {
		t.Errorf("adding a label to an invalid policy: %v", err)
	}
	invalid.Spec.Limit = new(int64(11))
	if err := w.Update(t.Context(), invalid); !apierrors.IsInvalid(err) {
		t.Errorf("changing the spec of a policy that stays invalid: %v", err)
	}
	w.must(w.Get(t.Context(), client.ObjectKeyFromObject(invalid), invalid))
	w.report() // writes status, which no webhook validates
	if err := w.Delete(t.Context(), invalid); err != nil {
		t.Errorf("deleting an invalid policy: %v", err)
	}
	w.must(w.Get(t.Context(), client.ObjectKeyFromObject(invalid), invalid))
	invalid.Finalizers = nil
	if err := w.Update(t.Context(), invalid); err != nil {
		t.Errorf("removing the last finalizer of an invalid policy: %v", err)
	}

	stop()
	if err := w.Create(t.Context(), w.policy("invalid-again", invalidSpec)); err != nil {
		t.Errorf("creating an invalid policy after the webhook has stopped: %v", err)
	}
	w.must(w.DeleteAllOf(t.Context(), &v1alpha1.RateLimitPolicy{}, client.InNamespace(w.namespace)))
}

func TestWebhook_RestoresItsConfiguration(t *testing.T) {
	w := newTestCluster(t)
	w.operator(rotation())
	w.waitForWebhook()
	noBundle := func(c *admissionv1.ValidatingWebhookConfiguration) { c.Webhooks[1].ClientConfig.CABundle = nil }
	stored := func() *corev1.Secret {
		var s corev1.Secret
		w.must(client.IgnoreNotFound(w.Get(t.Context(), secret(), &s)))
		return &s
	}
	t.Run("after the CA bundle is removed", func(*testing.T) {
		w.edit(noBundle)
		w.eventually("the CA bundle is restored", func() bool { return len(w.bundle()) > 0 })
		w.waitForWebhook()
	})
	for name, damage := range map[string]func() error{
		"after the Secret is deleted": func() error { return w.Delete(t.Context(), stored()) },
		"after the Secret gets invalid content": func() error {
			s := stored()
			s.ResourceVersion = "" // the operator may write at the same time
			s.Data = map[string][]byte{"tls.crt": []byte("garbage"), "authorities.json": []byte("[{}]")}
			return w.Update(t.Context(), s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := w.bundle()
			serving := stored().Data["tls.crt"]
			w.must(damage())
			w.eventually("the Secret has a key again", func() bool { return len(stored().Data["tls.key"]) > 0 })
			w.eventually("the bundle has a new CA in addition to the old one", func() bool {
				return bytes.Contains(w.bundle(), bytes.TrimSpace(before)) && len(w.bundle()) > len(before)
			})
			if !bytes.Equal(serving, stored().Data["tls.crt"]) {
				t.Error("the webhook uses a certificate of the new CA before the API server has had time to trust it")
			}
			w.waitForWebhook()
		})
	}
}

func (w *testCluster) bundle() []byte {
	w.Helper()
	var c admissionv1.ValidatingWebhookConfiguration
	w.must(w.Get(w.Context(), types.NamespacedName{Name: configuration}, &c))
	if !bytes.Equal(c.Webhooks[0].ClientConfig.CABundle, c.Webhooks[1].ClientConfig.CABundle) {
		return nil // the update of both webhooks has not finished
	}
	return c.Webhooks[0].ClientConfig.CABundle
}

// TestWebhook_ValidatesEveryPolicyWhileCertificatesRotate sets failurePolicy: Fail, so that each failed call fails the request. The clock of
// the rotation jumps to the time of each step, until the first CA is no longer trusted. After each step, the API server has a second to load
// the configuration.
func TestWebhook_ValidatesEveryPolicyWhileCertificatesRotate(t *testing.T) {
	w := newTestCluster(t)
	var ahead atomic.Int64
	short := rotation()
	short.SettleTime, short.CertificateLifetime, short.CALifetime = time.Minute, 10*time.Minute, 30*time.Minute // certificates are back-dated by an hour
	w.operatorAt(short, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	w.waitForWebhook()
	w.edit(func(c *admissionv1.ValidatingWebhookConfiguration) {
		fail := admissionv1.Fail
		for i := range c.Webhooks {
			c.Webhooks[i].FailurePolicy = &fail
		}
	})
	first, serving, calls := bytes.TrimSpace(w.bundle()), w.serving(), 0
	callUntil := func(description string, condition func() bool) {
		t.Helper()
		var end time.Time
		for ; end.IsZero() || time.Now().Before(end); calls++ {
			if err := w.Create(t.Context(), w.policy("good", validSpec), client.DryRunAll); err != nil {
				t.Fatalf("%s: call %d with a valid policy: %v", description, calls, err)
			}
			if err := w.Create(t.Context(), w.policy("bad", invalidSpec), client.DryRunAll); !apierrors.IsInvalid(err) {
				t.Fatalf("%s: call %d with an invalid policy: got error %v, want an error of an invalid object", description, calls, err)
			}
			if end.IsZero() && condition() {
				end = time.Now().Add(time.Second)
			}
		}
	}
	begin := time.Now()
	for _, step := range []struct {
		description string
		after       time.Duration
		done        func() bool
	}{
		{"the certificate is replaced after two thirds of its lifetime", 7 * time.Minute, func() bool { return !bytes.Equal(w.serving(), serving) }},
		{"a second CA is trusted after two thirds of the lifetime of the first", 20*time.Minute + time.Second, func() bool {
			serving = w.serving()
			return bytes.Count(w.bundle(), []byte("BEGIN CERTIFICATE")) == 2
		}},
		{"the second CA signs after the settle time", 21*time.Minute + 10*time.Second, func() bool { return !bytes.Equal(w.serving(), serving) }},
		{"the first CA is no longer trusted when its last certificate has expired", 31*time.Minute + 10*time.Second, func() bool {
			bundle := w.bundle()
			return len(bundle) > 0 && !bytes.Contains(bundle, first)
		}},
	} {
		ahead.Store(int64(step.after - time.Since(begin)))
		deadline := time.Now().Add(patience)
		callUntil(step.description, func() bool {
			if time.Now().After(deadline) {
				t.Fatalf("timeout after %v and %d calls: %s", patience, calls, step.description)
			}
			return step.done()
		})
	}
	if calls < 20 {
		t.Errorf("only %d calls during the rotation, want at least 20", calls)
	}
	t.Logf("%d calls with each policy", calls)
}

// serving returns the stored certificate.
func (w *testCluster) serving() []byte {
	w.Helper()
	var s corev1.Secret
	w.must(w.Get(w.Context(), secret(), &s))
	return s.Data[corev1.TLSCertKey]
}

// report runs the reporter once, which writes problems into the status of policies. It does so without a Limiter that selects them.
func (w *testCluster) report() {
	w.Helper()
	r, err := ruleset.New(ruleset.Config{
		Client: w, Uncached: w, KeyPrefix: "weir:",
		Resync: time.Second, Clock: time.Now, Metrics: prometheus.NewRegistry(),
	})
	w.must(err)
	_, err = r.Reporter.Reconcile(w.Context(), ctrl.Request{})
	w.must(err)
}
