package expr

import (
	"errors"
	"strconv"
	"testing"
)

func TestValidateExpression_RemembersABoundedNumberOfResults(t *testing.T) {
	calls := 0
	Register(func(_ Language, text string, _ ResultType) (*Expression, error) {
		if calls++; text == "1 +" {
			return nil, errors.New("syntax error")
		}
		return &Expression{}, nil
	})
	t.Cleanup(func() { compiler.Store(nil) })
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
	if calls != 2 {
		t.Errorf("2 expressions are compiled %d times", calls)
	}
	for i := range maxValidations {
		v.results[Key{Text: strconv.Itoa(i)}] = nil
	}
	if err := v.validate(Key{HTTP, "false", ResultBool}); err != nil || len(v.results) != 1 {
		t.Errorf("%d results, %v", len(v.results), err)
	}
}

func TestCompile_WithoutCELIsAnErrorThatNamesTheImport(t *testing.T) {
	for _, err := range []error{
		Validate(`request.path == "/"`, ResultBool), ValidateKubernetes("request.dryRun", ResultBool),
		func() error { _, err := Compile(HTTP, "true", ResultBool); return err }(),
	} {
		if !errors.Is(err, ErrNoCompiler) {
			t.Errorf("error %v, want %v", err, ErrNoCompiler)
		}
	}
}
