package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LabelSelector selects objects by their labels, with the semantics of the label selector of Kubernetes: an object is selected if it meets
// every requirement, and an empty selector selects all objects. Unlike that type, the lists are bounded, so that the API server can reject
// invalid labels.
// +structType=atomic
// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="operator must be In or NotIn with values, or Exists or DoesNotExist without values"
type LabelSelector struct {
	// matchLabels is a map of label keys to values. An object must have every label with the given value.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(key, !format.qualifiedName().validate(key).hasValue())",message="a label key must be a name of at most 63 letters, digits, dots, hyphens and underscores such as team, or a DNS name, a slash and a name, such as example.com/team"
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`
	// matchExpressions lists requirements on labels. An object must meet all of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	MatchExpressions []LabelExpression `json:"matchExpressions,omitempty"`
}

// LabelExpression is a requirement on the label with the given key.
type LabelExpression struct {
	// key is the key of the label.
	// +required
	Key LabelKey `json:"key"`
	// operator is the relation of the label to the values: In, NotIn, Exists or DoesNotExist.
	// +required
	Operator LabelOperator `json:"operator"`
	// values lists label values. At least one value is required with In and NotIn. It must be empty with Exists and DoesNotExist.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Values []LabelValue `json:"values,omitempty"`
}

// LabelOperator is the relation of a label to a list of values: In, NotIn, Exists or DoesNotExist.
// +kubebuilder:validation:MaxLength=16
type LabelOperator string

const (
	// LabelIn selects objects whose label has one of the values.
	LabelIn LabelOperator = "In"
	// LabelNotIn selects objects that do not have the label, or whose label has a different value.
	LabelNotIn LabelOperator = "NotIn"
	// LabelExists selects objects that have the label.
	LabelExists LabelOperator = "Exists"
	// LabelDoesNotExist selects objects that do not have the label.
	LabelDoesNotExist LabelOperator = "DoesNotExist"
)

// LabelKey is the key of a label.
// +kubebuilder:validation:MaxLength=317
// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self).hasValue()",message="a label key must be a name of at most 63 letters, digits, dots, hyphens and underscores such as team, or a DNS name, a slash and a name, such as example.com/team"
type LabelKey string

// LabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="!format.labelValue().validate(self).hasValue()",message="a label value must be empty, or consist of letters, digits, dots, hyphens and underscores and begin and end with a letter or digit"
type LabelValue string

// Kubernetes converts the selector to the Kubernetes type.
func (s *LabelSelector) Kubernetes() *metav1.LabelSelector {
	if s == nil {
		return nil
	}
	converted := &metav1.LabelSelector{}
	for key, value := range s.MatchLabels {
		metav1.AddLabelToSelector(converted, key, string(value))
	}
	for _, e := range s.MatchExpressions {
		r := metav1.LabelSelectorRequirement{Key: string(e.Key), Operator: metav1.LabelSelectorOperator(e.Operator)}
		for _, value := range e.Values {
			r.Values = append(r.Values, string(value))
		}
		converted.MatchExpressions = append(converted.MatchExpressions, r)
	}
	return converted
}
