package labelselector_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/labelselector"
	"github.com/weir-dev/weir/limiter/rules"
)

// TestSelector_AgreesWithKubernetes draws selectors and labels, valid and invalid.
func TestSelector_AgreesWithKubernetes(t *testing.T) {
	key := rapid.OneOf(rapid.SampledFrom([]string{"a", "b", "example.com/a"}), rapid.StringMatching(`[a-cA._/-]{0,4}([a]{60,64})?`))
	value := rapid.OneOf(rapid.SampledFrom([]string{"", "x", "y"}), rapid.StringMatching(`[a-cA._/ -]{0,3}([a]{60,64})?`))
	operator := rapid.SampledFrom([]string{"In", "NotIn", "Exists", "DoesNotExist", "In", "Near"})
	valid, selected := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		given := &metav1.LabelSelector{MatchLabels: rapid.MapOfN(key, value, 0, 2).Draw(t, "labels of the selector")}
		own := &policyapi.LabelSelector{MatchLabels: given.MatchLabels}
		for range rapid.IntRange(0, 2).Draw(t, "requirements") {
			key, operator, values := key.Draw(t, "key"), operator.Draw(t, "operator"), rapid.SliceOfN(value, 0, 2).Draw(t, "values")
			given.MatchExpressions = append(given.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOperator(operator), Values: values})
			own.MatchExpressions = append(own.MatchExpressions, policyapi.LabelSelectorRequirement{Key: key, Operator: policyapi.LabelSelectorOperator(operator), Values: values})
		}
		selector, want := metav1.LabelSelectorAsSelector(given)
		if got := labelselector.Validate(own); (got == nil) != (want == nil) {
			t.Fatalf("error %v, and %v of Kubernetes", got, want)
		}
		if want != nil {
			return
		}
		valid++
		of := rapid.MapOfN(key, value, 0, 2).Draw(t, "labels")
		if got, want := labelselector.Lower(own).Selects(&rules.Namespace{Labels: of}), selector.Matches(labels.Set(of)); got != want {
			t.Fatalf("selects %v, and %v in Kubernetes", got, want)
		} else if got {
			selected++
		}
	})
	if valid == 0 || selected == 0 || selected == valid {
		t.Errorf("%d valid selectors select %d times", valid, selected)
	}
}

func TestSelector_NilSelectsEverything(t *testing.T) {
	if err := labelselector.Validate(nil); err != nil {
		t.Error(err)
	}
	if !labelselector.Lower(nil).Selects(nil) {
		t.Error("a nil selector does not select everything")
	}
}
