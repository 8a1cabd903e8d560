package policy

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/test/fixture/policytest"
)

// storedObjects are the objects of a cache that does not change. If err is set, each List fails.
type storedObjects struct {
	policies []v1alpha1.RateLimitPolicy
	cluster  []v1alpha1.ClusterRateLimitPolicy
	limiters []v1alpha1.Limiter
	err      error
}

func (s storedObjects) cache() Cache {
	c := newFakeCache()
	c.limiters, c.err = s.limiters, s.err
	c.put(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "retail"}}})
	for i := range s.policies {
		c.put(&s.policies[i])
	}
	for i := range s.cluster {
		c.put(&s.cluster[i])
	}
	return c
}

func (s storedObjects) index() *index { return newIndex(s.cache(), compile.DefaultIdentity()) }

func newValidator(s storedObjects) validator[*v1alpha1.RateLimitPolicy] {
	return rateLimitPolicies(s.index())
}

const (
	validSpec   = `{axis: User, limit: 10, window: 1m}`
	invalidSpec = `{axis: User, limit: 10, window: 1m, match: {http: {paths: [{type: RegularExpression, value: "/v1/(?=x)"}, {type: RegularExpression, value: "("}]}}}`
)

func TestValidateCreate_ReportsEveryInvalidField(t *testing.T) {
	policy := policytest.Stored(t, "a", invalidSpec)
	_, err := newValidator(storedObjects{}).ValidateCreate(t.Context(), &policy)
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		t.Fatalf("got error %v, want an error of an invalid object", err)
	}
	var fields []string
	for _, cause := range status.Status().Details.Causes {
		fields = append(fields, cause.Field)
	}
	if diff := cmp.Diff([]string{"spec.match.http.paths[0].value", "spec.match.http.paths[1].value"}, fields); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	const want = `RateLimitPolicy.weir.dev "a" is invalid: [spec.match.http.paths[0].value: Invalid value: "/v1/(?=x)" is not a valid RE2 expression`
	if !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got message %s, want prefix %s", err, want)
	}
}

func TestValidateUpdate_ValidatesOnlyChangesOfTheSpec(t *testing.T) {
	invalid, valid := policytest.Stored(t, "a", invalidSpec), policytest.Stored(t, "a", validSpec)
	labelled, changed, deleting := *invalid.DeepCopy(), *invalid.DeepCopy(), *invalid.DeepCopy()
	labelled.Labels = map[string]string{"team": "a"}
	changed.Spec.Limit = new(int64(11))
	deleting.DeletionTimestamp = &metav1.Time{}
	for _, c := range []struct {
		name          string
		before, after *v1alpha1.RateLimitPolicy
		rejected      bool
	}{
		{"a new label on an invalid policy", &invalid, &labelled, false},
		{"a new limit in a policy that stays invalid", &invalid, &changed, true},
		{"an invalid policy becomes valid", &invalid, &valid, false},
		{"a valid policy becomes invalid", &valid, &invalid, true},
		{"a policy that is being deleted becomes invalid", &valid, &deleting, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := newValidator(storedObjects{}).ValidateUpdate(t.Context(), c.before, c.after); (err != nil) != c.rejected {
				t.Errorf("got error %v, want rejected %v", err, c.rejected)
			}
		})
	}
	if _, err := newValidator(storedObjects{}).ValidateDelete(t.Context(), &invalid); err != nil {
		t.Errorf("deleting an invalid policy: %v", err)
	}
}

func TestValidateUpdate_IgnoresTheStoredVersionOfThePolicy(t *testing.T) {
	before, after := policytest.Stored(t, "a", validSpec), policytest.Stored(t, "a", `{axis: User, limit: 20, window: 1m}`)
	warnings, err := newValidator(storedObjects{policies: []v1alpha1.RateLimitPolicy{before}}).ValidateUpdate(t.Context(), &before, &after)
	if err != nil || len(warnings) > 0 {
		t.Errorf("%v %q", err, warnings)
	}
}

func TestValidateCreate_IgnoresProblemsOfOtherPolicies(t *testing.T) {
	policy := policytest.Stored(t, "a", validSpec)
	if _, err := newValidator(storedObjects{policies: []v1alpha1.RateLimitPolicy{policytest.Stored(t, "b", invalidSpec)}}).ValidateCreate(t.Context(), &policy); err != nil {
		t.Error(err)
	}
}

// The other policy has no effect because of this one. That is a warning for its owner.
func TestValidateCreate_WarnsOnlyOfThePolicyItself(t *testing.T) {
	strict, lax := policytest.Stored(t, "z", `{axis: User, limit: 1, window: 1m}`), policytest.Stored(t, "a", `{axis: User, limit: 10, window: 1m}`)
	warnings, err := newValidator(storedObjects{policies: []v1alpha1.RateLimitPolicy{lax}}).ValidateCreate(t.Context(), &strict)
	if err != nil || len(warnings) > 0 {
		t.Errorf("%v, warnings %q, want none", err, warnings)
	}
	warnings, err = newValidator(storedObjects{policies: []v1alpha1.RateLimitPolicy{strict}}).ValidateCreate(t.Context(), &lax)
	if err != nil || len(warnings) != 1 {
		t.Errorf("%v, warnings %q, want one", err, warnings)
	}
}

func TestValidateCreate_ValidatesAloneIfOtherPoliciesCannotBeRead(t *testing.T) {
	unreadable := newValidator(storedObjects{err: errors.New("the cache has stopped")})
	policy, invalid := policytest.Stored(t, "a", validSpec), policytest.Stored(t, "a", invalidSpec)
	warnings, err := unreadable.ValidateCreate(t.Context(), &policy)
	if err != nil || len(warnings) != 1 || warnings[0] != warnOthersUnavailable {
		t.Errorf("%v %q", err, warnings)
	}
	if _, err := unreadable.ValidateCreate(t.Context(), &invalid); err == nil {
		t.Error("an invalid policy is accepted if the other policies cannot be read")
	}
}

func TestValidateCreate_ValidatesClusterRateLimitPolicies(t *testing.T) {
	clusterWide := func(name, spec string) v1alpha1.ClusterRateLimitPolicy {
		p := v1alpha1.ClusterRateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Spec.RateLimitPolicySpec = policytest.Stored(t, name, spec).Spec
		return p
	}
	v := func(s storedObjects) validator[*v1alpha1.ClusterRateLimitPolicy] {
		return clusterRateLimitPolicies(s.index())
	}
	invalid, valid := clusterWide("a", invalidSpec), clusterWide("a", validSpec)
	if _, err := v(storedObjects{}).ValidateCreate(t.Context(), &invalid); !apierrors.IsInvalid(err) {
		t.Errorf("an invalid ClusterRateLimitPolicy: got error %v, want an error of an invalid object", err)
	}
	sameName := policytest.Stored(t, "a", invalidSpec)
	sameName.Namespace = "cluster"
	all := storedObjects{policies: []v1alpha1.RateLimitPolicy{sameName}, cluster: []v1alpha1.ClusterRateLimitPolicy{valid, clusterWide("b", validSpec)}}
	warnings, err := v(all).ValidateUpdate(t.Context(), &invalid, &valid)
	if want := "spec: has no effect, because policy _cluster/b counts the same requests and is at least as strict"; err != nil || len(warnings) != 1 || warnings[0] != want {
		t.Errorf("an invalid policy becomes valid: error %v, warnings %q, want %q", err, warnings, want)
	}
	namespaced := policytest.Stored(t, "c", validSpec)
	warnings, err = newValidator(all).ValidateCreate(t.Context(), &namespaced)
	if want := "spec: has no effect, because policy _cluster/a counts the same requests and is at least as strict"; err != nil || len(warnings) != 1 || warnings[0] != want {
		t.Errorf("a RateLimitPolicy next to it: error %v, warnings %q, want %q", err, warnings, want)
	}
}

func TestRegister_ServesBothPaths(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	m := paths{}
	Register(m, Config{Scheme: scheme, Cache: storedObjects{}.cache(), Identity: compile.DefaultIdentity()})
	handler, ok := m[PathRateLimitPolicies].(closing)
	if !ok || len(m) != 2 {
		t.Fatalf("registered handlers: %v", m)
	}
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create,
		Object:    runtime.RawExtension{Raw: []byte(`{"metadata":{"namespace":"shop","name":"a"},"spec":{"axis":"User","limit":1,"window":"1 week"}}`)},
	}}
	answer := handler.Handle(t.Context(), request)
	if answer.Allowed || answer.Result.Code != http.StatusUnprocessableEntity || answer.Result.Details.Causes[0].Field != "spec.window" {
		t.Errorf("response to an invalid policy: %+v", answer.Result)
	}
}

func TestServeHTTP_ClosesTheConnection(t *testing.T) {
	m := paths{}
	Register(m, Config{Scheme: runtime.NewScheme(), Cache: storedObjects{}.cache(), Identity: compile.DefaultIdentity()})
	server := httptest.NewServer(m[PathClusterRateLimitPolicies])
	defer server.Close()
	response, err := http.Post(server.URL, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if !response.Close {
		t.Errorf("the connection stays open, headers %v", response.Header)
	}
}

type paths map[string]http.Handler

func (p paths) Register(path string, hook http.Handler) { p[path] = hook }

// Both policies of a rename exist for some time.
func TestValidateCreate_WarnsOfCountersThatAnotherPolicyHas(t *testing.T) {
	renamed := policytest.Stored(t, "b", `{axis: User, limit: 10, window: 1m, counterName: a}`)
	warnings, err := newValidator(storedObjects{policies: []v1alpha1.RateLimitPolicy{policytest.Stored(t, "a", validSpec)}}).ValidateCreate(t.Context(), &renamed)
	if err != nil {
		t.Fatal(err)
	}
	want := admission.Warnings{"not enforced yet: policy shop/a has the counters of shop/a; delete it to hand them over, or use another counterName"}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
