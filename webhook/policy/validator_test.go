package policy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/test/fixture"
)

// stored is what is stored, or that it cannot be read.
type stored struct {
	policies []v1alpha1.RateLimitPolicy
	cluster  []v1alpha1.ClusterRateLimitPolicy
	err      error
}

func (s stored) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *v1alpha1.RateLimitPolicyList:
		list.Items = s.policies
	case *v1alpha1.ClusterRateLimitPolicyList:
		list.Items = s.cluster
	default:
		return fmt.Errorf("nobody should list a %T", list)
	}
	return s.err
}

func on(s stored) validator[*v1alpha1.RateLimitPolicy] {
	return rateLimitPolicies(Config{Stored: s, Identity: compile.DefaultIdentity()})
}

const (
	good = `{axis: User, limit: 10, window: 1m}`
	bad  = `{axis: User, limit: 10, window: 1m, match: {http: {paths: [{type: RegularExpression, value: "/v1/(?=x)"}, {type: RegularExpression, value: "("}]}}}`
)

func TestValidateCreate_ReportsEveryInvalidField(t *testing.T) {
	policy := fixture.Policy(t, "a", bad)
	_, err := on(stored{}).ValidateCreate(t.Context(), &policy)
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		t.Fatalf("%v is not what an API server says of an invalid object", err)
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
		t.Errorf("it reads %s", err)
	}
}

func TestValidateUpdate_ValidatesOnlyChangesOfTheSpec(t *testing.T) {
	broken, sound := fixture.Policy(t, "a", bad), fixture.Policy(t, "a", good)
	labelled, other, leaving := *broken.DeepCopy(), *broken.DeepCopy(), *broken.DeepCopy()
	labelled.Labels = map[string]string{"team": "a"}
	other.Spec.Limit = 11
	leaving.DeletionTimestamp = &metav1.Time{}
	for _, c := range []struct {
		name          string
		before, after *v1alpha1.RateLimitPolicy
		refused       bool
	}{
		{"a label on what is stored and broken", &broken, &labelled, false},
		{"another limit of what stays broken", &broken, &other, true},
		{"a repair", &broken, &sound, false},
		{"damage", &sound, &broken, true},
		{"whatever of what is being deleted", &sound, &leaving, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := on(stored{}).ValidateUpdate(t.Context(), c.before, c.after); (err != nil) != c.refused {
				t.Errorf("the answer is %v", err)
			}
		})
	}
	if _, err := on(stored{}).ValidateDelete(t.Context(), &broken); err != nil {
		t.Errorf("it must stay: %v", err)
	}
}

func TestValidateUpdate_IgnoresTheStoredVersionOfThePolicy(t *testing.T) {
	before, after := fixture.Policy(t, "a", good), fixture.Policy(t, "a", `{axis: User, limit: 20, window: 1m}`)
	warnings, err := on(stored{policies: []v1alpha1.RateLimitPolicy{before}}).ValidateUpdate(t.Context(), &before, &after)
	if err != nil || len(warnings) > 0 {
		t.Errorf("%v %q", err, warnings)
	}
}

func TestValidateCreate_IgnoresProblemsOfOtherPolicies(t *testing.T) {
	policy := fixture.Policy(t, "a", good)
	if _, err := on(stored{policies: []v1alpha1.RateLimitPolicy{fixture.Policy(t, "b", bad)}}).ValidateCreate(t.Context(), &policy); err != nil {
		t.Error(err)
	}
}

func TestValidateCreate_ValidatesAloneIfOtherPoliciesCannotBeRead(t *testing.T) {
	unreadable := on(stored{err: errors.New("the cache has stopped")})
	policy, broken := fixture.Policy(t, "a", good), fixture.Policy(t, "a", bad)
	warnings, err := unreadable.ValidateCreate(t.Context(), &policy)
	if err != nil || len(warnings) != 1 || warnings[0] != warnOthersUnavailable {
		t.Errorf("%v %q", err, warnings)
	}
	if _, err := unreadable.ValidateCreate(t.Context(), &broken); err == nil {
		t.Error("what cannot be enforced passes")
	}
}

func TestValidateCreate_ValidatesClusterRateLimitPolicies(t *testing.T) {
	clusterWide := func(name, spec string) v1alpha1.ClusterRateLimitPolicy {
		p := v1alpha1.ClusterRateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Spec.RateLimitPolicySpec = fixture.Policy(t, name, spec).Spec
		return p
	}
	v := func(s stored) validator[*v1alpha1.ClusterRateLimitPolicy] {
		return clusterRateLimitPolicies(Config{Stored: s, Identity: compile.DefaultIdentity()})
	}
	broken, sound := clusterWide("a", bad), clusterWide("a", good)
	if _, err := v(stored{}).ValidateCreate(t.Context(), &broken); !apierrors.IsInvalid(err) {
		t.Errorf("a broken one: %v", err)
	}
	twin := fixture.Policy(t, "a", bad) // of a namespace that is called cluster
	twin.Namespace = "cluster"
	all := stored{policies: []v1alpha1.RateLimitPolicy{twin}, cluster: []v1alpha1.ClusterRateLimitPolicy{sound, clusterWide("b", good)}}
	warnings, err := v(all).ValidateUpdate(t.Context(), &broken, &sound)
	if want := "spec: has no effect, because policy cluster/b counts the same requests and is at least as strict"; err != nil || len(warnings) != 1 || warnings[0] != want {
		t.Errorf("a repair: %v %q", err, warnings)
	}
	namespaced := fixture.Policy(t, "c", good)
	warnings, err = on(all).ValidateCreate(t.Context(), &namespaced)
	if want := "spec: has no effect, because policy cluster/a counts the same requests and is at least as strict"; err != nil || len(warnings) != 1 || warnings[0] != want {
		t.Errorf("one of a namespace beside it: %v %q", err, warnings)
	}
}

func TestRegister_ServesBothPaths(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	m := paths{}
	Register(m, Config{Scheme: scheme, Stored: stored{}, Identity: compile.DefaultIdentity()})
	handler, ok := m[PathRateLimitPolicies].(closing)
	if !ok || len(m) != 2 {
		t.Fatalf("%v", m)
	}
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create,
		Object:    runtime.RawExtension{Raw: []byte(`{"metadata":{"namespace":"shop","name":"a"},"spec":{"axis":"User","limit":1,"window":"1 week"}}`)},
	}}
	answer := handler.Handle(t.Context(), request)
	if answer.Allowed || answer.Result.Code != http.StatusUnprocessableEntity || answer.Result.Details.Causes[0].Field != "spec.window" {
		t.Errorf("%+v", answer.Result)
	}
}

func TestServeHTTP_ClosesTheConnection(t *testing.T) {
	m := paths{}
	Register(m, Config{Scheme: runtime.NewScheme(), Stored: stored{}, Identity: compile.DefaultIdentity()})
	server := httptest.NewServer(m[PathClusterRateLimitPolicies])
	defer server.Close()
	response, err := http.Post(server.URL, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if !response.Close {
		t.Errorf("the connection is kept: %v", response.Header)
	}
}

type paths map[string]http.Handler

func (p paths) Register(path string, hook http.Handler) { p[path] = hook }
