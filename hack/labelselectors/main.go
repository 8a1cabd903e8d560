// Command labelselectors adds bounds and rules to the label selectors in CRDs. Its argument is the directory of the CRDs. make generate runs
// it after controller-gen.
//
// The type of these fields is metav1.LabelSelector, whose strings, lists and map have no bounds. The API server accepts CEL rules only with
// bounds on what they read, and the markers of controller-gen v0.23.0 cannot reach the fields of a type of another module.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

type schema = apiextensions.JSONSchemaProps

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: labelselectors DIRECTORY")
		os.Exit(2)
	}
	if err := boundAll(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "labelselectors:", err)
		os.Exit(1)
	}
}

// boundAll rewrites the CRDs in a directory.
func boundAll(directory string) error {
	files, err := filepath.Glob(filepath.Join(directory, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no CRDs in %s", directory)
	}
	for _, file := range files {
		given, err := os.ReadFile(file) //nolint:gosec // a file of the repository
		if err != nil {
			return err
		}
		bounded, err := bound(given)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(file, bounded, 0o644); err != nil { //nolint:gosec // a file of the repository
			return err
		}
	}
	return nil
}

// bound returns the CRD, in YAML, with bounds on its label selectors.
func bound(crd []byte) ([]byte, error) {
	var parsed apiextensions.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(crd, &parsed); err != nil {
		return nil, err
	}
	for i := range parsed.Spec.Versions {
		if err := boundSelectors(parsed.Spec.Versions[i].Schema.OpenAPIV3Schema); err != nil {
			return nil, err
		}
	}
	return encode(&parsed)
}

// encode returns what controller-gen writes: the CRD without its status.
func encode(crd *apiextensions.CustomResourceDefinition) ([]byte, error) {
	data, err := json.Marshal(crd)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	delete(fields, "status")
	text, err := yaml.Marshal(fields)
	return append([]byte("---\n"), text...), err
}

// boundSelectors bounds each label selector inside the schema that has a CEL rule, which only markers in api/v1alpha1 add. Other label
// selectors, such as those of a NetworkPolicyPeer, are copied to objects of Kubernetes, whose API server validates them.
func boundSelectors(of *schema) error {
	_, hasLabels := of.Properties["matchLabels"]
	_, hasExpressions := of.Properties["matchExpressions"]
	if hasLabels && hasExpressions && len(of.XValidations) > 0 {
		return boundSelector(of)
	}
	for name, field := range of.Properties {
		if err := boundSelectors(&field); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		of.Properties[name] = field
	}
	if of.Items != nil && of.Items.Schema != nil {
		return boundSelectors(of.Items.Schema)
	}
	return nil
}

const (
	maxItems         = 64
	maxKeyBytes      = 253 + 1 + 63 // a DNS name, a slash and a name
	maxValueBytes    = 63
	maxOperatorBytes = 16
)

const (
	keysRule = "self.all(key, !format.qualifiedName().validate(key).hasValue())"
	keyRule  = "!format.qualifiedName().validate(self).hasValue()"
	// valueRule accepts what format.labelValue() accepts. The tiers of a policy can have 65 536 values, for which the API server rejects that
	// function and the regular expression of Kubernetes: its estimate of the cost grows with the length of the regular expression.
	valueRule = `self.matches('^(\\w([-.\\w]*\\w)?)?$') && !self.startsWith('_') && !self.endsWith('_')`

	keyMessage = "a label key must be a name of at most 63 letters, digits, dots, hyphens and underscores such as team, or a DNS name, a slash " +
		"and a name, such as example.com/team"
	valueMessage = "a label value must be empty, or consist of letters, digits, dots, hyphens and underscores and begin and end with a letter or digit"
)

// boundSelector adds the bounds and rules to the schema of a metav1.LabelSelector.
func boundSelector(selector *schema) error {
	labels, expressions := selector.Properties["matchLabels"], selector.Properties["matchExpressions"]
	if labels.AdditionalProperties == nil || labels.AdditionalProperties.Schema == nil || expressions.Items == nil || expressions.Items.Schema == nil {
		return errors.New("matchLabels must be a map, and matchExpressions a list")
	}
	labels.MaxProperties = new(int64(maxItems))
	labels.XValidations = apiextensions.ValidationRules{{Rule: keysRule, Message: keyMessage}}
	boundValue(labels.AdditionalProperties.Schema)
	selector.Properties["matchLabels"] = labels

	expressions.MaxItems = new(int64(maxItems))
	selector.Properties["matchExpressions"] = expressions
	fields := expressions.Items.Schema.Properties
	key, operator, values := fields["key"], fields["operator"], fields["values"]
	if key.Type != "string" || operator.Type != "string" || values.Items == nil || values.Items.Schema == nil {
		return errors.New("matchExpressions must have the fields key, operator and values")
	}
	key.MaxLength = new(int64(maxKeyBytes))
	key.XValidations = apiextensions.ValidationRules{{Rule: keyRule, Message: keyMessage}}
	operator.MaxLength = new(int64(maxOperatorBytes))
	values.MaxItems = new(int64(maxItems))
	boundValue(values.Items.Schema)
	fields["key"], fields["operator"], fields["values"] = key, operator, values
	return nil
}

func boundValue(value *schema) {
	value.Description = "the value of a label"
	value.MaxLength = new(int64(maxValueBytes))
	value.XValidations = apiextensions.ValidationRules{{Rule: valueRule, Message: valueMessage}}
}
