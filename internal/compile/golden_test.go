package compile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

var update = flag.Bool("update", false, "update the golden files")

// outcome is the content of a golden file.
type outcome struct {
	Rules      []rules.Rule          `json:"rules,omitempty"`
	Namespaces []rules.Namespace     `json:"namespaces,omitempty"`
	Problems   []compile.Problem     `json:"problems,omitempty"`
	Overrides  []redundancy.Override `json:"overrides,omitempty"`
}

func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, input := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(input), ".in.yaml"), func(t *testing.T) {
			result := readPolicies(t, input).Compile(testIdentity())
			if _, err := matching.NewIndex(result.Set, "sha256:test", "weir:", matching.WithHashKey(testHashKey())); err != nil {
				t.Errorf("a limiter rejects the Set: %v", err)
			}
			got, err := yaml.Marshal(outcome{result.Set.Rules, result.Set.Namespaces, result.Problems, result.Overrides})
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(input, ".in.yaml") + ".out.yaml"
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s (-want +got); run go test -update to update it:\n%s", golden, diff)
			}
		})
	}
}

// readPolicies reads policies from a file without validating the schema: golden inputs contain policies that the API server rejects.
func readPolicies(t *testing.T, file string) compile.Policies {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var policies compile.Policies
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		var document json.RawMessage
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return policies
		}
		if err == nil {
			err = addObject(&policies, document)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

// addObject adds the object in document. A document without a kind is a RateLimitPolicy.
func addObject(policies *compile.Policies, document []byte) error {
	var kind metav1.PartialObjectMetadata
	if err := json.Unmarshal(document, &kind); err != nil {
		return err
	}
	if kind.Kind == "Namespace" {
		policies.Namespaces = append(policies.Namespaces, compile.Namespace{Name: kind.Name, Labels: kind.Labels, Annotations: kind.Annotations})
		return nil
	}
	strict := json.NewDecoder(bytes.NewReader(document))
	strict.DisallowUnknownFields()
	if kind.Kind == "Gateways" { // the form of gateway.Objects
		policies.Gateways = new(gateway.Objects)
		return json.Unmarshal(document, policies.Gateways)
	}
	if kind.Kind == "ClusterRateLimitPolicy" {
		var object struct {
			APIVersion, Kind string
			policyapi.ClusterRateLimitPolicy
		}
		err := strict.Decode(&object)
		policies.Cluster = append(policies.Cluster, object.ClusterRateLimitPolicy)
		return err
	}
	var object struct {
		APIVersion, Kind string
		policyapi.RateLimitPolicy
	}
	err := strict.Decode(&object)
	policies.Namespaced = append(policies.Namespaced, object.RateLimitPolicy)
	return err
}
