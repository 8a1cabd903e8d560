package expr

import (
	"strconv"
	"testing"
)

func TestValidateExpression_RemembersABoundedNumberOfResults(t *testing.T) {
	v := validations{}
	valid, invalid := Key{HTTP, "true", ResultBool}, Key{HTTP, "1 +", ResultBool}
	for range 2 {
		if err := v.validate(valid); err != nil {
			t.Error(err)
		}
		if err := v.validate(invalid); err == nil {
			t.Error("an invalid expression is valid")
		}
	}
	for i := range maxValidations {
		v.results[Key{Text: strconv.Itoa(i)}] = nil
	}
	if err := v.validate(Key{HTTP, "false", ResultBool}); err != nil || len(v.results) != 1 {
		t.Errorf("%d results, %v", len(v.results), err)
	}
}
