package policy_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"os/exec"
	"strings"
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
	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/webhook/certificate"
)

const (
	good = `{axis: User, limit: 10, window: 1m}`
	bad  = `{axis: User, limit: 10, window: 1m, match: {http: {paths: [{type: RegularExpression, value: "/v1/(?=x)"}]}}}` // which the schema lets pass
)

func tlsOptions(serving *certificate.Serving) []func(*tls.Config) {
	return []func(*tls.Config){serving.Configure}
}

func TestValidateCreate_RejectsAnInvalidPolicyInTheAPIServer(t *testing.T) {
	w := newWorld(t)
	w.operator(terms())
	w.untilItJudges()
	for _, c := range []struct{ name, spec, field, message string }{
		{"a look-ahead", bad, "spec.match.http.paths[0].value", "is not a valid RE2 expression"},
		{
			"CEL that does not compile", `{axis: User, limit: 10, window: 1m, match: {http: {expression: "request.nowhere == 1"}}}`,
			"spec.match.http.expression", "nowhere",
		},
		{
			"CEL of another type", `{axis: User, limit: 10, window: 1m, tiers: [{name: a, when: {expression: "1 + 1"}, limit: 1}]}`,
			"spec.tiers[0].when.expression", "bool",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := w.Create(t.Context(), w.policy("wrong", c.spec))
			var status apierrors.APIStatus
			if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
				t.Fatalf("the answer is %v", err)
			}
			causes := status.Status().Details.Causes
			if len(causes) != 1 || causes[0].Field != c.field || !strings.Contains(causes[0].Message, c.message) {
				t.Errorf("causes %+v", causes)
			}
		})
	}
	if err := w.Create(t.Context(), w.policy("right", good)); err != nil {
		t.Errorf("a good one: %v", err)
	}
	clusterWide := &v1alpha1.ClusterRateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Name: "wrong"}}
	clusterWide.Spec.RateLimitPolicySpec = w.policy("any", bad).Spec
	if err := w.Create(t.Context(), clusterWide, client.DryRunAll); !apierrors.IsInvalid(err) {
		t.Errorf("one of the cluster: %v", err)
	}
	generated := w.policy("", `{axis: Tenant, limit: 10, window: 1m}`)
	generated.GenerateName = "any-"
	if err := w.Create(t.Context(), generated); err != nil {
		t.Errorf("one whose name the API server makes: %v", err)
	}
}

func TestWebhook_ShowsProblemsAndWarningsInKubectl(t *testing.T) {
	w := newWorld(t)
	w.operator(terms())
	w.untilItJudges()
	apply := func(name, spec string) string {
		file := w.file(name+".yaml", "apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: "+name+"}\nspec: "+spec+"\n")
		var stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), w.kube.KubectlPath(), "--kubeconfig", w.kube.Kubeconfig(), "-n", w.namespace, "apply", "-f", file)
		cmd.Stderr = &stderr
		_ = cmd.Run() // what it says is what counts
		return stderr.String()
	}
	if said := apply("wrong", bad); !strings.Contains(said, "spec.match.http.paths[0].value") || !strings.Contains(said, "RE2") {
		t.Errorf("of a refusal it says %q", said)
	}
	said := apply("heavy", `{axis: Tenant, limit: 100000, window: 24h, algorithm: SlidingWindowLog}`)
	if want := "Warning: spec.limit: a log of 100000 units takes 700 kB of Redis memory per identifier; SlidingWindowCounter takes 16 bytes\n"; said != want {
		t.Errorf("of a costly policy it says %q", said)
	}
}

func TestWebhook_SendsWarningsToTheClient(t *testing.T) {
	w := newWorld(t)
	w.operator(terms())
	w.untilItJudges()
	w.must(w.Create(t.Context(), w.policy("strict", `{axis: User, limit: 10, window: 1m}`)))
	w.warnings.taken()
	want := []string{"spec: has no effect, because policy strict counts the same requests and is at least as strict"}
	w.eventually("the cache knows the policy beside it", func() bool {
		w.must(w.Create(t.Context(), w.policy("lax", `{axis: User, limit: 20, window: 1m, match: {http: {methods: [GET]}}}`), client.DryRunAll))
		return cmp.Equal(want, w.warnings.taken())
	})
	lax := w.policy("lax", `{axis: User, limit: 5, window: 1m}`)
	w.must(w.Create(t.Context(), lax))
	if said := w.warnings.taken(); len(said) > 0 {
		t.Errorf("of one that is stricter: %q", said)
	}
	lax.Spec.Limit = 30
	w.must(w.Update(t.Context(), lax))
	if diff := cmp.Diff(want, w.warnings.taken()); diff != "" {
		t.Errorf("of an edit (-want +got):\n%s", diff)
	}
}

func TestWebhook_IsOptionalAndStatusReportsProblems(t *testing.T) {
	w := newWorld(t)
	broken := w.policy("broken", bad)
	broken.Finalizers = []string{"weir.dev/test"}
	w.must(w.Create(t.Context(), broken))
	w.report()
	w.must(w.Get(t.Context(), client.ObjectKeyFromObject(broken), broken))
	accepted := meta.FindStatusCondition(broken.Status.Conditions, v1alpha1.ConditionAccepted)
	if accepted == nil || accepted.Status != metav1.ConditionFalse || accepted.Reason != v1alpha1.ReasonInvalid {
		t.Errorf("Accepted is %+v", accepted)
	}

	stop := w.operator(terms())
	w.untilItJudges()
	broken.Labels = map[string]string{"team": "a"}
	if err := w.Update(t.Context(), broken); err != nil {
		t.Errorf("a label: %v", err)
	}
	broken.Spec.Limit = 11
	if err := w.Update(t.Context(), broken); !apierrors.IsInvalid(err) {
		t.Errorf("another limit, and still broken: %v", err)
	}
	w.must(w.Get(t.Context(), client.ObjectKeyFromObject(broken), broken))
	w.report() // writes status, which no webhook validates
	if err := w.Delete(t.Context(), broken); err != nil {
		t.Errorf("deleting: %v", err)
	}
	w.must(w.Get(t.Context(), client.ObjectKeyFromObject(broken), broken))
	broken.Finalizers = nil
	if err := w.Update(t.Context(), broken); err != nil {
		t.Errorf("the last finalizer: %v", err)
	}

	stop()
	if err := w.Create(t.Context(), w.policy("broken-again", bad)); err != nil {
		t.Errorf("after the webhook has ended: %v", err)
	}
	w.must(w.DeleteAllOf(t.Context(), &v1alpha1.RateLimitPolicy{}, client.InNamespace(w.namespace)))
}

func TestWebhook_RestoresItsConfiguration(t *testing.T) {
	w := newWorld(t)
	w.operator(terms())
	w.untilItJudges()
	noBundle := func(c *admissionv1.ValidatingWebhookConfiguration) { c.Webhooks[1].ClientConfig.CABundle = nil }
	stored := func() *corev1.Secret {
		var s corev1.Secret
		w.must(client.IgnoreNotFound(w.Get(t.Context(), secret(), &s)))
		return &s
	}
	t.Run("of a bundle that is taken away", func(*testing.T) {
		w.edit(noBundle)
		w.eventually("the bundle is back", func() bool { return len(w.bundle()) > 0 })
		w.untilItJudges()
	})
	for what, damage := range map[string]func() error{
		"of a Secret that is deleted": func() error { return w.Delete(t.Context(), stored()) },
		"of garbage in the Secret": func() error {
			s := stored()
			s.Data = map[string][]byte{"tls.crt": []byte("garbage"), "authorities.json": []byte("[{}]")}
			return w.Update(t.Context(), s)
		},
	} {
		t.Run(what, func(t *testing.T) {
			before := w.bundle()
			serving := stored().Data["tls.crt"]
			w.must(damage())
			w.eventually("the Secret is whole again", func() bool { return len(stored().Data["tls.key"]) > 0 })
			w.eventually("another authority is trusted beside the old", func() bool {
				return bytes.Contains(w.bundle(), bytes.TrimSpace(before)) && len(w.bundle()) > len(before)
			})
			if !bytes.Equal(serving, stored().Data["tls.crt"]) {
				t.Error("another certificate serves before its authority has been trusted for a while")
			}
			w.untilItJudges()
		})
	}
}

func (w *world) bundle() []byte {
	w.Helper()
	var c admissionv1.ValidatingWebhookConfiguration
	w.must(w.Get(w.Context(), types.NamespacedName{Name: configuration}, &c))
	if !bytes.Equal(c.Webhooks[0].ClientConfig.CABundle, c.Webhooks[1].ClientConfig.CABundle) {
		return nil // not everywhere yet
	}
	return c.Webhooks[0].ClientConfig.CABundle
}

// TestWebhook_ValidatesEveryPolicyWhileCertificatesRotate makes every call that fails a failure of the request, and waits for two
// authorities to come.
func TestWebhook_ValidatesEveryPolicyWhileCertificatesRotate(t *testing.T) {
	w := newWorld(t)
	hurry := terms()
	hurry.SettleTime, hurry.CertificateLifetime, hurry.CALifetime = time.Second, 6*time.Second, 18*time.Second
	w.operator(hurry)
	w.untilItJudges()
	w.edit(func(c *admissionv1.ValidatingWebhookConfiguration) {
		fail := admissionv1.Fail
		for i := range c.Webhooks {
			c.Webhooks[i].FailurePolicy = &fail
		}
	})
	first := w.bundle()
	calls := 0
	for deadline := time.Now().Add(patience); bytes.Contains(w.bundle(), bytes.TrimSpace(first)); calls++ {
		if time.Now().After(deadline) {
			t.Fatalf("after %v and %d calls the first authority is still trusted", patience, calls)
		}
		if err := w.Create(t.Context(), w.policy("good", good), client.DryRunAll); err != nil {
			t.Fatalf("call %d: %v", calls, err)
		}
		if err := w.Create(t.Context(), w.policy("bad", bad), client.DryRunAll); !apierrors.IsInvalid(err) {
			t.Fatalf("call %d, of a bad policy: %v", calls, err)
		}
	}
	if calls < 100 {
		t.Errorf("%d calls prove nothing", calls)
	}
	t.Logf("%d calls of each", calls)
}

// report tells policies what is wrong with them: no Limiter need select them.
func (w *world) report() {
	w.Helper()
	r, err := ruleset.New(ruleset.Config{
		Client: w, Uncached: w, KeyPrefix: "weir:", Decider: publish.Script{Name: "spend", SHA: strings.Repeat("0", 40)},
		Resync: time.Second, Clock: time.Now, Metrics: prometheus.NewRegistry(),
	})
	w.must(err)
	_, err = r.Reporter.Reconcile(w.Context(), ctrl.Request{})
	w.must(err)
}
