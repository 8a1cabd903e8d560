package rules_test

import (
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
)

func TestSelector_SelectsUnlabeled(t *testing.T) {
	for want, operators := range map[bool][]rules.SelectorOperator{
		false: {rules.SelectorIn, rules.SelectorExists}, true: {rules.SelectorNotIn, rules.SelectorDoesNotExist},
	} {
		for _, operator := range operators {
			selector := rules.Selector{{Key: "a", Operator: rules.SelectorExists}, {Key: "b", Operator: operator}}
			if got := selector.SelectsUnlabeled(); got != want {
				t.Errorf("%s: %t, want %t", operator, got, want)
			}
		}
	}
}
