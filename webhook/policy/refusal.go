package policy

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/internal/compile"
)

// refusal is the error that an API server gives for a broken rule of its own: a cause for every field, nil for none.
func refusal(kind schema.GroupKind, name string, problems []compile.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	causes := make(field.ErrorList, len(problems))
	for i, p := range problems {
		// The value is in the message where it helps, and nowhere if it may be a secret.
		causes[i] = &field.Error{Type: field.ErrorTypeInvalid, Field: p.Field, BadValue: field.OmitValueType{}, Detail: p.Message}
	}
	return apierrors.NewInvalid(kind, name, causes)
}
