package throttle

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	"github.com/weir-dev/weir/limiter/engine"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// The handler enforces the policies in docs/how-to/throttle-the-kubernetes-api.md.
func TestDocs_PoliciesBehaveAsDocumented(t *testing.T) {
	document, err := os.ReadFile("../../docs/how-to/throttle-the-kubernetes-api.md")
	if err != nil {
		t.Fatal(err)
	}
	var policies []string
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(document, -1) {
		policies = append(policies, string(block[1]))
	}
	file := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(policies, "\n---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	schema, err := apischema.New()
	if err != nil {
		t.Fatal(err)
	}
	loader := policyfile.NewLoader(compile.DefaultIdentity(), schema)
	loaded, err := loader.Load(nil, file)
	if err != nil || len(loaded.Problems) > 0 || len(loaded.Rules.Rules) != 6 {
		t.Fatalf("%d policies, problems %v, %v", len(loaded.Rules.Rules), loaded.Problems, err)
	}
	e := engine.New(atNoon(), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	index, err := matching.NewIndex(loaded.Rules, "sha256:1", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	e.Swap(index)
	handler := newTestHandler(t, e)
	write := func(group, resource, object string) func(*admissionv1.AdmissionRequest) {
		return func(in *admissionv1.AdmissionRequest) {
			in.Resource = metav1.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
			in.Object = runtime.RawExtension{Raw: []byte(object)}
		}
	}
	event := func(pod string) func(*admissionv1.AdmissionRequest) {
		return write("", "events", `{"involvedObject":{"kind":"Pod","namespace":"acme","name":"`+pod+`"},"source":{"component":"kubelet"}}`)
	}
	newEvent := func(pod string) func(*admissionv1.AdmissionRequest) { // by another user than that of event
		inGroup := write("events.k8s.io", "events", `{"regarding":{"name":"`+pod+`"}}`)
		return func(in *admissionv1.AdmissionRequest) {
			inGroup(in)
			in.UserInfo.Username = "bob"
		}
	}
	job := func(spec string) func(*admissionv1.AdmissionRequest) {
		return write("batch", "jobs", `{"spec":`+spec+`}`)
	}
	for i, step := range []struct {
		change  func(*admissionv1.AdmissionRequest)
		policy  string // the strictest policy
		allowed bool
		times   int
	}{
		{write("", "pods", `{}`), "_cluster/pods", true, 1},
		{write("", "configmaps", `{}`), "", true, 1},
		{job(`{}`), "_cluster/jobs", true, 1},
		{job(`{"parallelism":500}`), "_cluster/jobs", false, 1},
		{job(`{"parallelism":499}`), "_cluster/jobs", true, 1},
		{job(`{}`), "_cluster/jobs", false, 1},
		{event("a"), "_cluster/events-namespace", true, 23},
		{event("a"), "_cluster/events-source-and-object", true, 2},
		{event("a"), "_cluster/events-source-and-object", false, 1},
		{event("b"), "_cluster/events-namespace", true, 1},
		{newEvent("a"), "_cluster/events-namespace", true, 24},
		{newEvent("a"), "_cluster/events-source-and-object", true, 1},
		{newEvent("a"), "_cluster/events-source-and-object", false, 1},
	} {
		for range step.times {
			got := reviewResponse(t, handler, reviewBody(t, "create", step.change))
			if got.Allowed != step.allowed || got.AuditAnnotations[auditPolicy] != step.policy {
				t.Errorf("step %d: %+v", i, got)
			}
		}
	}
}
