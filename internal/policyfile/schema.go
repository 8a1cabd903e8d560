package policyfile

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/operation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	k8syaml "sigs.k8s.io/yaml"
)

// policySchema is a CustomResourceDefinition made ready for judging objects, with the API server's own code and in its
// order. It is immutable and safe for concurrent use.
type policySchema struct {
	namespaced bool
	structural *schema.Structural
	openAPI    validation.SchemaValidator
	rules      *cel.Validator
}

// fault is what is wrong with one field of an object.
type fault struct{ field, message string }

// newSchema reads a definition in YAML, which must have the version.
func newSchema(definition, version string) (*policySchema, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := k8syaml.UnmarshalStrict([]byte(definition), &crd); err != nil {
		return nil, fmt.Errorf("read definition: %w", err)
	}
	for _, v := range crd.Spec.Versions {
		if v.Name == version {
			return newSchemaOf(v.Schema.OpenAPIV3Schema, crd.Spec.Scope == apiextensionsv1.NamespaceScoped)
		}
	}
	return nil, fmt.Errorf("definition %s has no version %s", crd.Name, version)
}

func newSchemaOf(props *apiextensionsv1.JSONSchemaProps, namespaced bool) (*policySchema, error) {
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, &internal, nil); err != nil {
		return nil, fmt.Errorf("convert schema: %w", err)
	}
	structural, err := schema.NewStructural(&internal)
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	structural = structural.DeepCopy()
	if err := defaulting.PruneDefaults(structural); err != nil {
		return nil, fmt.Errorf("read defaults of schema: %w", err)
	}
	openAPI, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	return &policySchema{namespaced, structural, openAPI, cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// admit does to content what an API server does to an object that is created with strict field validation: unknown
// fields are faults, defaults are filled in, the status is dropped. Content is usable only where there are no faults.
func (s *policySchema) admit(content map[string]any) []fault {
	if content["metadata"] == nil {
		content["metadata"] = map[string]any{}
	}
	faults, err := s.decode(content)
	if err != nil {
		return append(faults, fault{"metadata", err.Error()})
	}
	delete(content, "status")
	for _, err := range s.validate(content) {
		name := err.Field
		if name == "<nil>" {
			name = ""
		}
		faults = append(faults, fault{name, err.ErrorBody()})
	}
	return faults
}

// decode prunes what the schema does not know and fills in what it defaults.
func (s *policySchema) decode(content map[string]any) ([]fault, error) {
	metadata, _, unknown, err := objectmeta.GetObjectMetaWithOptions(content, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, err
	}
	track := schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	unknown = append(unknown, pruning.PruneWithOptions(content, s.structural, true, track)...)
	defaulting.PruneNonNullableNullsWithoutDefaults(content, s.structural)
	if err := objectmeta.SetObjectMeta(content, metadata); err != nil {
		return nil, err
	}
	defaulting.Default(content, s.structural)
	faults := make([]fault, len(unknown))
	for i, name := range unknown {
		faults[i] = fault{name, "unknown field"}
	}
	return faults, nil
}

// validate runs the CEL rules only on an object whose shape they can trust.
func (s *policySchema) validate(content map[string]any) field.ErrorList {
	ctx := context.Background() // only cancels the evaluation of rules, which their cost limit bounds
	errs := s.validateMetadata(ctx, content)
	errs = append(errs, validation.ValidateCustomResource(nil, content, s.openAPI)...)
	errs = append(errs, objectmeta.Validate(ctx, nil, content, s.structural, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, content)...)
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return errs
		}
	}
	broken, _ := s.rules.Validate(ctx, nil, s.structural, content, nil, celconfig.RuntimeCELCostBudget)
	return append(errs, broken...)
}

func (s *policySchema) validateMetadata(ctx context.Context, content map[string]any) field.ErrorList {
	at := field.NewPath("metadata")
	metadata, _, err := objectmeta.GetObjectMeta(content, false)
	if err != nil {
		return field.ErrorList{field.Invalid(at, content["metadata"], err.Error())}
	}
	return metavalidation.ValidateObjectMetaDeclaratively(ctx, operation.Create, metadata, nil, s.namespaced,
		metavalidation.NameIsDNSSubdomain, at, true)
}
