// Command policystructure prints the structure of policies and Limiters as JSON: types, required fields and bounds, without descriptions and CEL
// rules. Its argument is the directory of the CRDs. make generate writes it to internal/policyfile/structure/structure.json.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 2 || strings.HasPrefix(os.Args[1], "-") {
		fmt.Fprintln(os.Stderr, "usage: policystructure DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "policystructure:", err)
		os.Exit(1)
	}
}

func write(directory string) error {
	structures := map[string]any{}
	for kind, file := range map[string]string{
		"RateLimitPolicy": "weir.dev_ratelimitpolicies.yaml", "ClusterRateLimitPolicy": "weir.dev_clusterratelimitpolicies.yaml",
		"Limiter": "weir.dev_limiters.yaml",
	} {
		spec, err := specOf(filepath.Join(directory, file))
		if err == nil {
			err = reduce("spec", spec)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		structures[kind] = spec
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	return out.Encode(structures)
}

// specOf returns the schema of the spec in the only version of a CRD.
func specOf(file string) (map[string]any, error) {
	text, err := os.ReadFile(file) //nolint:gosec // a file of the repository
	if err != nil {
		return nil, err
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema struct {
						Properties map[string]map[string]any
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return nil, err
	}
	if len(crd.Spec.Versions) != 1 {
		return nil, fmt.Errorf("the CRD has %d versions", len(crd.Spec.Versions))
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"], nil
}

// reduce removes what package structure does not read from a schema. A keyword that it neither knows nor leaves out is an error, so that no
// constraint is lost.
func reduce(path string, of map[string]any) error {
	rejectsEmpty, err := rejectsEmptyText(of)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if rejectsEmpty { // Go types do not show the compiler whether such a text is absent or empty
		of["minLength"] = 1
	}
	setUnit(of)
	for keyword, value := range of {
		var err error
		switch keyword {
		case "description", "x-kubernetes-validations", "x-kubernetes-map-type": // the compiler has the rules
			delete(of, keyword)
		case "default": // of Limiters, which package structure only validates
			if !strings.HasPrefix(path, "spec.replicas") {
				err = fmt.Errorf("%s: package structure sets no defaults, and a field that is required may have one", path)
			}
			delete(of, keyword)
		case "anyOf":
			if of["x-kubernetes-int-or-string"] == nil {
				err = fmt.Errorf("%s: package structure does not know the keyword %s", path, keyword)
			}
			delete(of, keyword)
		case "format":
			switch {
			case value == "int32" && of["maximum"] == nil && of["enum"] == nil:
				of["maximum"] = math.MaxInt32
				if of["minimum"] == nil {
					of["minimum"] = math.MinInt32
				}
			case value != "int64" && of["maximum"] == nil && of["enum"] == nil:
				err = fmt.Errorf("%s: format %s without a maximum or an enum", path, value)
			}
			delete(of, keyword)
		case "type", "required", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
			"x-kubernetes-list-type", "x-kubernetes-list-map-keys", "pattern", "x-kubernetes-int-or-string", "unit":
		case "properties":
			for name, field := range value.(map[string]any) { //nolint:forcetypeassert // a CRD
				if err = reduce(path+"."+name, field.(map[string]any)); err != nil { //nolint:forcetypeassert // a CRD
					break
				}
			}
		case "items", "additionalProperties":
			err = reduce(path+"[]", value.(map[string]any)) //nolint:forcetypeassert // a CRD
		default:
			err = fmt.Errorf("%s: package structure does not know the keyword %s", path, keyword)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setUnit adds the keyword unit to a text that measures something, as its CEL rules show: "duration" or "percentage".
func setUnit(given map[string]any) {
	validations, _ := given["x-kubernetes-validations"].([]any)
	for _, validation := range validations {
		rule, _ := validation.(map[string]any)["rule"].(string)
		switch {
		case strings.Contains(rule, "duration(self)"):
			given["unit"] = "duration"
		case strings.Contains(rule, "%$'"):
			given["unit"] = "percentage"
		}
	}
}

// rejectsEmptyText reports whether the CEL rules of a text reject an empty one.
func rejectsEmptyText(given map[string]any) (bool, error) {
	if given["type"] != "string" || given["x-kubernetes-validations"] == nil || given["minLength"] != nil {
		return false, nil
	}
	encoded, err := json.Marshal(given)
	if err != nil {
		return false, err
	}
	var props apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(encoded, &props); err != nil {
		return false, err
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&props, &internal, nil); err != nil {
		return false, err
	}
	structural, err := schema.NewStructural(&internal)
	if err != nil {
		return false, err
	}
	broken, _ := cel.NewValidator(structural, false, celconfig.PerCallLimit).
		Validate(context.Background(), nil, structural, "", nil, celconfig.RuntimeCELCostBudget)
	return len(broken) > 0, nil
}
