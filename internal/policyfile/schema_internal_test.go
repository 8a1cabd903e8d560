package policyfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// TestLoad_AgreesWithTheAPIServer sends every policy of the test files and of the samples to a real API server, which must
// reject the same policies with the same field errors.
func TestLoad_AgreesWithTheAPIServer(t *testing.T) {
	kube := kubetest.Kube(t)
	server := &apiServer{config: kube.Config()}
	schemas, err := apischema.New()
	if err != nil {
		t.Fatal(err)
	}
	files, err := Read(nil, "testdata", "../../config/samples")
	if err != nil {
		t.Fatal(err)
	}
	validated := 0
	for _, file := range files {
		objects, _, _ := parse(file, newBounds())
		for _, o := range objects {
			if o.text("apiVersion") != v1alpha1.GroupVersion.String() || !slices.Contains(kinds(), o.text("kind")) || o.metadata("generateName") != "" {
				continue // the server generates a name, the loader does not
			}
			validated++
			if metadata, ok := o.content["metadata"].(map[string]any); ok {
				delete(metadata, "namespace") // only the namespace default exists on the server
			}
			if o.text("kind") != clusterPolicyKind {
				o.setNamespace(DefaultNamespace)
			}
			t.Run(fmt.Sprintf("%s:%d", filepath.Base(file.Name), o.line("")), func(t *testing.T) {
				want := server.rejection(t, o.content)
				var got []string
				schemas.Admit(o.text("kind"), o.content, func(field, message string) { got = append(got, field+": "+message) })
				slices.Sort(got)
				if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("(-server +schema):\n%s", diff)
				}
			})
		}
	}
	if validated < 20 {
		t.Errorf("only %d objects were validated, want at least 20", validated)
	}
}

type apiServer struct{ config *rest.Config }

// rejection sends an object to the server in a dry run and returns the field errors, sorted.
func (a *apiServer) rejection(t *testing.T, content map[string]any) []string {
	t.Helper()
	client, err := rest.HTTPClientFor(a.config)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	path := map[any]string{
		policyKind:        "namespaces/" + DefaultNamespace + "/ratelimitpolicies",
		clusterPolicyKind: "clusterratelimitpolicies",
		limiterKind:       "namespaces/" + DefaultNamespace + "/limiters",
	}[content["kind"]]
	url := a.config.Host + "/apis/weir.dev/v1alpha1/" + path + "?dryRun=All&fieldValidation=Strict"
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, strings.Replace(url, "//apis", "/apis", 1), bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusCreated {
		return nil
	}
	var status metav1.Status
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		t.Fatal(err)
	}
	return fieldErrorsOf(t, status)
}

// fieldErrorsOf returns the field errors of a response in the format of admit. The server does not validate the values of an object
// with unknown fields, and it reports decoding errors in another format.
func fieldErrorsOf(t *testing.T, status metav1.Status) (fieldErrors []string) {
	t.Helper()
	switch {
	case status.Reason == metav1.StatusReasonInvalid:
		for _, cause := range status.Details.Causes {
			if !strings.Contains(cause.Message, "some validation rules were not checked") {
				fieldErrors = append(fieldErrors, strings.TrimPrefix(cause.Field, "<nil>")+": "+cause.Message)
			}
		}
	case strings.Contains(status.Message, "strict decoding error: "):
		_, list, _ := strings.Cut(status.Message, "strict decoding error: ")
		for item := range strings.SplitSeq(list, ", ") {
			name := strings.Trim(strings.TrimPrefix(item, "unknown field "), `"`)
			fieldErrors = append(fieldErrors, name+": unknown field")
		}
	default:
		_, message, _ := strings.Cut(status.Message, "json: ")
		fieldErrors = append(fieldErrors, "metadata: json: "+message)
	}
	slices.Sort(fieldErrors)
	return fieldErrors
}

func TestNearest_FindsTheLineOfTheFieldOrItsParent(t *testing.T) {
	objects, _, problems := parse(File{Name: "a.yaml", Content: []byte(`# 1
---
metadata:
  labels: {a.b/c: d}
  annotations:
    x.y/z: text
base: &base
  inner: {deep: 1}
spec:
  <<: *base
  other: *base
  paths:
  - value: /v1
  -
    value: /v2
`)}, newBounds())
	if len(problems) > 0 || len(objects) != 1 {
		t.Fatal(objects, problems)
	}
	for field, want := range map[string]int{
		"":                            3,
		"metadata":                    3,
		"metadata.labels[a.b/c]":      4,
		"metadata.annotations[x.y/z]": 6,
		"metadata.annotations[none]":  5,
		"spec":                        9,
		"spec.inner.deep":             8, // merged
		"spec.other.inner":            8, // by alias
		"spec.paths":                  12,
		"spec.paths[0].value":         13,
		"spec.paths[1]":               15,
		"spec.paths[1].type":          15,
		"spec.paths[2].value":         12, // the first that does not exist
		"spec.paths[7].value":         12,
		"metadata.none.labels":        3,
		"spec.paths[x]":               12,
		"absent":                      3,
		"spec.paths[0":                13,
		"..":                          3,
	} {
		if got := objects[0].line(field); got != want {
			t.Errorf("line of %q is %d, want %d", field, got, want)
		}
	}
}

func TestLoad_IsDeterministic(t *testing.T) {
	content, err := os.ReadFile("testdata/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	schema, err := apischema.New()
	if err != nil {
		t.Fatal(err)
	}
	loader := NewLoader(compile.DefaultIdentity(), schema)
	files := []File{{Name: "rules.yaml", Content: content}}
	once, again := loader.Compile(files), loader.Compile(files)
	if diff := cmp.Diff(once, again, cmpopts.IgnoreUnexported(Result{})) + cmp.Diff(once.Warnings(), again.Warnings()); diff != "" {
		t.Errorf("the second result differs: %s", diff)
	}
}
