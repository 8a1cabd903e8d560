package compile_test

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/limiter/rules"
)

var update = flag.Bool("update", false, "write the golden files anew")

// outcome is the form of a golden file.
type outcome struct {
	Rules    []rules.Rule      `json:"rules,omitempty"`
	Problems []compile.Problem `json:"problems,omitempty"`
}

func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, input := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(input), ".in.yaml"), func(t *testing.T) {
			set, problems := compile.Compile(readPolicies(t, input), compile.DefaultIdentity())
			got, err := yaml.Marshal(outcome{set.Rules, problems})
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
				t.Errorf("%s (-want +got), go test -update writes it anew:\n%s", golden, diff)
			}
		})
	}
}

// TestGoldenRulesServe holds what Compile makes against what NewIndex takes.
func TestGoldenRulesServe(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, input := range inputs {
		set, _ := compile.Compile(readPolicies(t, input), compile.DefaultIdentity())
		if _, err := rules.NewIndex(set, "sha256:test", "weir:"); err != nil {
			t.Errorf("%s: %v", input, err)
		}
	}
}

// readPolicies reads a file of policies without the schema: golden inputs hold what no API server would let pass.
func readPolicies(t *testing.T, file string) []v1alpha1.RateLimitPolicy {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var policies []v1alpha1.RateLimitPolicy
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		var policy v1alpha1.RateLimitPolicy
		err := decoder.Decode(&policy)
		if errors.Is(err, io.EOF) {
			return policies
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		policies = append(policies, policy)
	}
}
