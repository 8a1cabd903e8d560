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

// Kinds of a promise, named like the schema's own keywords.
const (
	kindRule = "rule" // of CEL; what it says is its message
	kindSet  = "listType=set"
)

// promise is one thing that the schema refuses.
type promise struct {
	at   string // "spec.match.http.hosts[]"
	kind string // "maxLength"
	says string // the message of a rule; empty for the others
}

func (p promise) String() string { return strings.TrimSpace(p.at + " " + p.kind + " " + p.says) }

func readSchema(t *testing.T, d definition) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	data, err := os.ReadFile(repositoryPath(t, "config", "crd", "bases", d.file))
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &crd); err != nil {
		t.Fatal(err)
	}
	if len(crd.Spec.Versions) != 1 {
		t.Fatalf("%d versions in the CRD, these tests know of one", len(crd.Spec.Versions))
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// walk calls visit for the schema and everything below it, fields in the order of their names.
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

// promises is what the schema refuses in what a user writes.
func promises(d definition, root *apiextensionsv1.JSONSchemaProps) []promise {
	var all []promise
	var note func(at string, s *apiextensionsv1.JSONSchemaProps)
	note = func(at string, s *apiextensionsv1.JSONSchemaProps) {
		if at == "status" || strings.HasPrefix(at, "status.") || d.isKubernetes(at) {
			return
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			note(at+"{}", s.AdditionalProperties.Schema) // the values of a map
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
				all = append(all, promise{at: at, kind: kind})
			}
		}
		for _, name := range s.Required {
			all = append(all, promise{at: strings.TrimPrefix(at+"."+name, "."), kind: "required"})
		}
		for _, rule := range s.XValidations {
			all = append(all, promise{at: at, kind: kindRule, says: rule.Message})
		}
	}
	walk("", root, note)
	return all
}

func TestSchema_HasACaseForEveryRule(t *testing.T) {
	for _, d := range definitions() {
		made, kept := map[string]bool{}, map[string]bool{}
		for _, p := range promises(d, readSchema(t, d)) {
			made[p.String()] = true
		}
		for _, c := range d.cases() {
			p := promise{at: c.at, kind: c.kind}
			if c.kind == kindRule {
				p.says = c.says
			}
			kept[p.String()] = true
		}
		for name := range made {
			if !kept[name] {
				t.Errorf("%s: no case for: %s", d.kind, name)
			}
		}
		for name := range kept {
			if !made[name] {
				t.Errorf("%s: a case for what the schema does not say: %s", d.kind, name)
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
		if !slices.ContainsFunc(definitions(), func(d definition) bool { return d.file == e.Name() }) {
			t.Errorf("no test knows of %s", e.Name())
		}
	}
}

func TestSchema_BoundsEveryField(t *testing.T) {
	standard := map[string]bool{ // fields whose bounds are Kubernetes' own
		"apiVersion": true, "kind": true, "metadata": true,
		"status.observedGeneration": true, "status.conditions[].observedGeneration": true,
	}
	for _, d := range definitions() {
		walk("", readSchema(t, d), func(at string, s *apiextensionsv1.JSONSchemaProps) {
			if standard[at] || d.isKubernetes(at) {
				return
			}
			bounded := true
			switch s.Type {
			case "string":
				bounded = s.MaxLength != nil || s.Enum != nil || s.Format == "date-time"
			case "integer":
				bounded = s.Minimum != nil && s.Maximum != nil
			case "array":
				bounded = s.MaxItems != nil
			case "object":
				bounded = s.AdditionalProperties == nil || s.MaxProperties != nil
			case "boolean":
			default:
				bounded = false
			}
			if !bounded {
				t.Errorf("%s: %s: %s without bounds", d.kind, at, s.Type)
			}
		})
	}
}

func TestSchema_DescribesEveryField(t *testing.T) {
	for _, d := range definitions() {
		walk("", readSchema(t, d), func(at string, s *apiextensionsv1.JSONSchemaProps) {
			if s.Description == "" && at != "metadata" && !d.isKubernetes(at) {
				t.Errorf("%s: %s has no description for kubectl explain", d.kind, at)
			}
		})
	}
}
