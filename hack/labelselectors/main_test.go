package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/go-cmp/cmp"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestBound_KeepsBoundedCRDs(t *testing.T) {
	files, err := filepath.Glob("../../config/crd/bases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d CRDs, error %v", len(files), err)
	}
	for _, file := range files {
		given, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		bounded, err := bound(given)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(given), string(bounded)); diff != "" {
			t.Errorf("%s (-given +bounded):\n%s", file, diff)
		}
	}
}

// labelSelector returns the schema of a metav1.LabelSelector.
func labelSelector() schema {
	text := schema{Type: "string"}
	list := func(of schema) schema {
		return schema{Type: "array", Items: &apiextensions.JSONSchemaPropsOrArray{Schema: &of}}
	}
	return schema{Properties: map[string]schema{
		"matchLabels":      {Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Schema: &text}},
		"matchExpressions": list(schema{Properties: map[string]schema{"key": text, "operator": text, "values": list(text)}}),
	}}
}

func TestBoundSelectors_BoundsSelectorsWithARule(t *testing.T) {
	for name, c := range map[string]struct {
		rules apiextensions.ValidationRules
		want  bool
	}{
		"a selector with a rule":    {apiextensions.ValidationRules{{Rule: "true"}}, true},
		"a selector without a rule": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			selector := labelSelector()
			selector.XValidations = c.rules
			tier := schema{Properties: map[string]schema{"namespaceSelector": selector}}
			root := schema{Properties: map[string]schema{"tiers": {Items: &apiextensions.JSONSchemaPropsOrArray{Schema: &tier}}}}
			if err := boundSelectors(&root); err != nil {
				t.Fatal(err)
			}
			got := root.Properties["tiers"].Items.Schema.Properties["namespaceSelector"]
			values := got.Properties["matchExpressions"].Items.Schema.Properties["values"]
			for part, isBounded := range map[string]bool{
				"matchLabels": got.Properties["matchLabels"].MaxProperties != nil, "matchExpressions": got.Properties["matchExpressions"].MaxItems != nil,
				"values": values.MaxItems != nil, "a value": values.Items.Schema.MaxLength != nil,
			} {
				if isBounded != c.want {
					t.Errorf("%s has a bound: %v, want %v", part, isBounded, c.want)
				}
			}
		})
	}
}

func TestBoundSelectors_RejectsAnotherShape(t *testing.T) {
	selector := labelSelector()
	selector.XValidations = apiextensions.ValidationRules{{Rule: "true"}}
	selector.Properties["matchExpressions"] = schema{Type: "string"}
	if err := boundSelectors(&selector); err == nil {
		t.Error("no error for a selector whose matchExpressions is a string")
	}
}

func TestValueRule_AcceptsTheLabelValuesOfKubernetes(t *testing.T) {
	env, err := cel.NewEnv(cel.Variable("self", cel.StringType))
	if err != nil {
		t.Fatal(err)
	}
	ast, issues := env.Compile(valueRule)
	if err := issues.Err(); err != nil {
		t.Fatal(err)
	}
	program, err := env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	values := []string{""}
	for _, character := range []string{"a", "Z", "0", "9", "_", "-", ".", " ", "/", "\n", "é", "\u0660"} {
		for _, before := range []string{"", "a", "_", ".", "a-"} {
			for _, after := range []string{"", "a", "_", ".", "-a", "\n"} {
				values = append(values, before+character+after)
			}
		}
	}
	values = append(values, strings.Repeat("a", maxValueBytes))
	for _, value := range values {
		result, _, err := program.Eval(map[string]any{"self": value})
		if err != nil {
			t.Fatal(err)
		}
		if want := len(validation.IsValidLabelValue(value)) == 0; result.Value() != want {
			t.Errorf("%q: accepted %v, want %v", value, result.Value(), want)
		}
	}
}
