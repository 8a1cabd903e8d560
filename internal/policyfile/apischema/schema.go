// Package apischema validates objects of the Weir API with the code of the API server and the CRDs.
package apischema

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

// policySchema validates objects against a CRD, with the code of the API server and in the same order. It is immutable and safe for concurrent
// use.
type policySchema struct {
	namespaced bool
	structural *schema.Structural
	openAPI    validation.SchemaValidator
	rules      *cel.Validator
}

// fieldError is a problem of one field of an object.
type fieldError struct{ field, message string }

// newSchema parses a CRD in YAML and returns the schema of the version.
func newSchema(definition, version string) (*policySchema, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := k8syaml.UnmarshalStrict([]byte(definition), &crd); err != nil {
		return nil, fmt.Errorf("parse the CRD: %w", err)
	}
	for _, v := range crd.Spec.Versions {
		if v.Name == version {
			return newSchemaFromProps(v.Schema.OpenAPIV3Schema, crd.Spec.Scope == apiextensionsv1.NamespaceScoped)
		}
	}
	return nil, fmt.Errorf("CRD %s has no version %s", crd.Name, version)
}

func newSchemaFromProps(props *apiextensionsv1.JSONSchemaProps, namespaced bool) (*policySchema, error) {
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, &internal, nil); err != nil {
		return nil, fmt.Errorf("convert the schema: %w", err)
	}
	structural, err := schema.NewStructural(&internal)
	if err != nil {
		return nil, fmt.Errorf("parse the schema: %w", err)
	}
	structural = structural.DeepCopy()
	if err := defaulting.PruneDefaults(structural); err != nil {
		return nil, fmt.Errorf("parse the defaults of the schema: %w", err)
	}
	openAPI, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		return nil, fmt.Errorf("parse the schema: %w", err)
	}
	return &policySchema{namespaced, structural, openAPI, cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// admit processes content as an API server does when a client creates the object with strict field validation. It reports unknown fields, sets
// defaults and removes the status. Content is valid only if admit returns no errors.
func (s *policySchema) admit(content map[string]any) []fieldError {
	if content["metadata"] == nil {
		content["metadata"] = map[string]any{}
	}
	fieldErrors, err := s.decode(content)
	if err != nil {
		return append(fieldErrors, fieldError{"metadata", err.Error()})
	}
	delete(content, "status")
	for _, err := range s.validate(content) {
		name := err.Field
		if name == "<nil>" {
			name = ""
		}
		fieldErrors = append(fieldErrors, fieldError{name, err.ErrorBody()})
	}
	return fieldErrors
}

// decode removes unknown fields and sets defaults.
func (s *policySchema) decode(content map[string]any) ([]fieldError, error) {
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
	fieldErrors := make([]fieldError, len(unknown))
	for i, name := range unknown {
		fieldErrors[i] = fieldError{name, "unknown field"}
	}
	return fieldErrors, nil
}

// validate evaluates the CEL rules only if the types and the sizes in the object are valid.
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
	path := field.NewPath("metadata")
	metadata, _, err := objectmeta.GetObjectMeta(content, false)
	if err != nil {
		return field.ErrorList{field.Invalid(path, content["metadata"], err.Error())}
	}
	return metavalidation.ValidateObjectMetaDeclaratively(ctx, operation.Create, metadata, nil, s.namespaced,
		metavalidation.NameIsDNSSubdomain, path, true)
}
