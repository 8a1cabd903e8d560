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
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
)

// TestThePoliciesInTheDocumentDoWhatItSays enforces docs/how-to/throttle-the-kubernetes-api.md.
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
	loader, err := policyfile.NewLoader(compile.DefaultIdentity())
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := loader.Load(nil, file)
	if err != nil || len(loaded.Problems) > 0 || len(loaded.Rules.Rules) != 6 {
		t.Fatalf("%d policies, problems %v, %v", len(loaded.Rules.Rules), loaded.Problems, err)
	}
	e := engine.New(atNoon(), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	index, err := rules.NewIndex(loaded.Rules, "sha256:1", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	e.Swap(index)
	door := newTestHandler(t, e)
	write := func(group, resource, object string) func(*admissionv1.AdmissionRequest) {
		return func(in *admissionv1.AdmissionRequest) {
			in.Resource = metav1.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
			in.Object = runtime.RawExtension{Raw: []byte(object)}
		}
	}
	event := func(pod string) func(*admissionv1.AdmissionRequest) {
		return write("", "events", `{"involvedObject":{"kind":"Pod","namespace":"acme","name":"`+pod+`"},"source":{"component":"kubelet"}}`)
	}
	job := func(spec string) func(*admissionv1.AdmissionRequest) {
		return write("batch", "jobs", `{"spec":`+spec+`}`)
	}
	for i, step := range []struct {
		change  func(*admissionv1.AdmissionRequest)
		policy  string // the strictest
		allowed bool
	}{
		{write("", "pods", `{}`), "cluster/pods", true},
		{write("", "configmaps", `{}`), "", true},
		{job(`{}`), "cluster/jobs", true},
		{job(`{"parallelism":500}`), "cluster/jobs", false},
		{job(`{"parallelism":499}`), "cluster/jobs", true},
		{job(`{}`), "cluster/jobs", false},
		{event("a"), "cluster/events-source-and-object", true},
		{event("a"), "cluster/events-source-and-object", true},
		{event("a"), "cluster/events-source-and-object", false},
		{event("b"), "cluster/events-source-and-object", true},
		{write("events.k8s.io", "events", `{"regarding":{"name":"a"}}`), "cluster/events-source-and-object", true},
		{write("events.k8s.io", "events", `{"regarding":{"name":"a"}}`), "cluster/events-source-and-object", true},
		{write("events.k8s.io", "events", `{"regarding":{"name":"a"}}`), "cluster/events-source-and-object", false},
	} {
		got := reviewResponse(t, door, reviewBody(t, "create", step.change))
		if got.Allowed != step.allowed || got.AuditAnnotations[auditPolicy] != step.policy {
			t.Errorf("step %d: %+v", i, got)
		}
	}
}
