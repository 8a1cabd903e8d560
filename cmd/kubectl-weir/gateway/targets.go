package gateway

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// targets returns targetRef and targetRefs of a SecurityPolicy.
func targets(policy *unstructured.Unstructured) []map[string]any {
	var list []map[string]any
	if one, found, err := unstructured.NestedMap(policy.Object, "spec", "targetRef"); found && err == nil {
		list = append(list, one)
	}
	return append(list, fieldsOf(policy, "targetRefs")...)
}

// fieldsOf returns the objects in a list of the spec.
func fieldsOf(policy *unstructured.Unstructured, list string) (fields []map[string]any) {
	items, _, _ := unstructured.NestedSlice(policy.Object, "spec", list) // the schema has checked it
	for _, item := range items {
		if one, ok := item.(map[string]any); ok {
			fields = append(fields, one)
		}
	}
	return fields
}

// selects reports whether targetSelectors of a SecurityPolicy select the Gateway by its labels.
func selects(policy, gateway *unstructured.Unstructured) bool {
	for _, fields := range fieldsOf(policy, "targetSelectors") {
		var selector struct {
			Group string `json:"group"`
			Kind  string `json:"kind"`

			metav1.LabelSelector `json:",inline"`
		}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &selector) != nil || selector.Kind != gatewayKind().Kind ||
			selector.Group != "" && selector.Group != gatewayKind().Group {
			continue
		}
		labelSelector, err := metav1.LabelSelectorAsSelector(&selector.LabelSelector)
		if err == nil && labelSelector.Matches(labels.Set(gateway.GetLabels())) {
			return true
		}
	}
	return false
}
