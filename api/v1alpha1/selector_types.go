package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LabelSelector selects objects by their labels, as Kubernetes' own does: an object that has all that is asked for; with nothing
// asked, every one. Other than that it is bounded, for only so can the API server say what no label can be.
// +structType=atomic
// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="the operator of an expression is In or NotIn, with values, or Exists or DoesNotExist, without"
type LabelSelector struct {
	// matchLabels are labels with their values.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(key, !format.qualifiedName().validate(key).hasValue())",message="the key of a label is a name of at most 63 letters, digits, dots, hyphens and underscores such as team, or a DNS name and a name such as example.com/team"
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`
	// matchExpressions ask for more than a value.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	MatchExpressions []LabelExpression `json:"matchExpressions,omitempty"`
}

// LabelExpression asks for labels of one key.
type LabelExpression struct {
	// key of the label.
	// +required
	Key LabelKey `json:"key"`
	// operator: In or NotIn (values), Exists or DoesNotExist.
	// +required
	Operator LabelOperator `json:"operator"`
	// values to be In or NotIn.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Values []LabelValue `json:"values,omitempty"`
}

// LabelOperator says what is asked of the values of a label.
// +kubebuilder:validation:MaxLength=16
type LabelOperator string

// The operators.
const (
	LabelIn           LabelOperator = "In"
	LabelNotIn        LabelOperator = "NotIn"
	LabelExists       LabelOperator = "Exists"
	LabelDoesNotExist LabelOperator = "DoesNotExist"
)

// LabelKey is the key of a label.
// +kubebuilder:validation:MaxLength=317
// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self).hasValue()",message="the key of a label is a name of at most 63 letters, digits, dots, hyphens and underscores such as team, or a DNS name and a name such as example.com/team"
type LabelKey string

// LabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="!format.labelValue().validate(self).hasValue()",message="the value of a label is letters, digits, dots, hyphens and underscores, with a letter or digit at either end, or empty"
type LabelValue string

// Kubernetes is the same selector in Kubernetes' own type.
func (s *LabelSelector) Kubernetes() *metav1.LabelSelector {
	if s == nil {
		return nil
	}
	same := &metav1.LabelSelector{}
	for key, value := range s.MatchLabels {
		metav1.AddLabelToSelector(same, key, string(value))
	}
	for _, e := range s.MatchExpressions {
		r := metav1.LabelSelectorRequirement{Key: string(e.Key), Operator: metav1.LabelSelectorOperator(e.Operator)}
		for _, value := range e.Values {
			r.Values = append(r.Values, string(value))
		}
		same.MatchExpressions = append(same.MatchExpressions, r)
	}
	return same
}
