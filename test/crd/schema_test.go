package crd

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// Kinds of constraints that are not keywords of the schema. All other kinds have the name of their keyword.
const (
	kindRule = "rule" // a CEL rule
	kindSet  = "listType=set"
)

// constraint is one constraint of the schema.
type constraint struct {
	at      string // for example "spec.match.http.hosts[]"
	kind    string // for example "maxLength"
	message string // the message of a CEL rule; empty for other kinds
}

func (p constraint) String() string { return strings.TrimSpace(p.at + " " + p.kind + " " + p.message) }

func readSchema(t *testing.T, k testedKind) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	data, err := os.ReadFile(repositoryPath(t, "config", "crd", "bases", k.file))
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &crd); err != nil {
		t.Fatal(err)
	}
	if len(crd.Spec.Versions) != 1 {
		t.Fatalf("the CRD has %d versions, these tests support one", len(crd.Spec.Versions))
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// walk calls visit for the schema and for each schema inside it. It visits fields in alphabetical order.
func walk(at string, schema *apiextensionsv1.JSONSchemaProps, visit func(at string, schema *apiextensionsv1.JSONSchemaProps)) {
	visit(at, schema)
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field := schema.Properties[name]
		walk(strings.TrimPrefix(at+"."+name, "."), &field, visit)
	}
	if schema.Items != nil {
		walk(at+"[]", schema.Items.Schema, visit)
	}
}

// constraints returns the constraints of all fields that users write, without those inside types from the Kubernetes API.
func constraints(k testedKind, root *apiextensionsv1.JSONSchemaProps) []constraint {
	var all []constraint
	var collect func(at string, s *apiextensionsv1.JSONSchemaProps)
	collect = func(at string, s *apiextensionsv1.JSONSchemaProps) {
		if at == "status" || strings.HasPrefix(at, "status.") || k.isKubernetesField(at) {
			return
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			collect(at+"{}", s.AdditionalProperties.Schema) // the values of a map
		}
		for kind, present := range map[string]bool{
			"enum": s.Enum != nil, "pattern": s.Pattern != "", "format": s.Format != "" && s.Format != "int32" && s.Format != "int64",
			"minimum": s.Minimum != nil, "maximum": s.Maximum != nil, "multipleOf": s.MultipleOf != nil,
			"minLength": s.MinLength != nil, "maxLength": s.MaxLength != nil,
			"minItems": s.MinItems != nil, "maxItems": s.MaxItems != nil,
			"minProperties": s.MinProperties != nil, "maxProperties": s.MaxProperties != nil,
			kindSet: s.XListType != nil && *s.XListType == "set",
		} {
			if present {
				all = append(all, constraint{at: at, kind: kind})
			}
		}
		for _, name := range s.Required {
			all = append(all, constraint{at: strings.TrimPrefix(at+"."+name, "."), kind: "required"})
		}
		for _, rule := range s.XValidations {
			all = append(all, constraint{at: at, kind: kindRule, message: rule.Message})
		}
	}
	walk("", root, collect)
	return all
}

func TestSchema_HasACaseForEveryRule(t *testing.T) {
	for _, k := range testedKinds() {
		declared, tested := map[string]bool{}, map[string]bool{}
		for _, p := range constraints(k, readSchema(t, k)) {
			declared[p.String()] = true
		}
		for _, c := range k.cases() {
			p := constraint{at: c.at, kind: c.kind}
			if c.kind == kindRule {
				p.message = c.message
			}
			tested[p.String()] = true
		}
		for name := range declared {
			if !tested[name] {
				t.Errorf("%s: no case tests the constraint: %s", k.kind, name)
			}
		}
		for name := range tested {
			if !declared[name] {
				t.Errorf("%s: a case tests a constraint that the schema does not have: %s", k.kind, name)
			}
		}
	}
}

func TestSchema_TestsEveryCRD(t *testing.T) {
	entries, err := os.ReadDir(repositoryPath(t, "config", "crd", "bases"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.ContainsFunc(testedKinds(), func(k testedKind) bool { return k.file == e.Name() }) {
			t.Errorf("no test covers %s", e.Name())
		}
	}
}

func TestSchema_BoundsEveryField(t *testing.T) {
	standard := map[string]bool{ // fields whose bounds Kubernetes checks
		"apiVersion": true, "kind": true, "metadata": true,
		"status.observedGeneration": true, "status.conditions[].observedGeneration": true,
		"status.limiters[].conditions[].observedGeneration": true, "status.ancestors[].conditions[].observedGeneration": true,
	}
	for _, k := range testedKinds() {
		walk("", readSchema(t, k), func(at string, s *apiextensionsv1.JSONSchemaProps) {
			if standard[at] || k.isKubernetesField(at) {
				return
			}
			bounded := true
			switch s.Type {
			case "string":
				bounded = s.MaxLength != nil || s.Enum != nil || s.Format == "date-time"
			case "integer":
				bounded = s.Minimum != nil && s.Maximum != nil || s.Enum != nil
			case "array":
				bounded = s.MaxItems != nil
			case "object":
				bounded = s.AdditionalProperties == nil || s.MaxProperties != nil
			case "boolean":
			default:
				bounded = false
			}
			if !bounded {
				t.Errorf("%s: %s has type %s and no bounds", k.kind, at, s.Type)
			}
		})
	}
}

func TestSchema_DescribesEveryField(t *testing.T) {
	for _, k := range testedKinds() {
		walk("", readSchema(t, k), func(at string, s *apiextensionsv1.JSONSchemaProps) {
			if s.Description == "" && at != "metadata" && !k.isKubernetesField(at) {
				t.Errorf("%s: %s has no description for kubectl explain", k.kind, at)
			}
		})
	}
}
