package policy

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/internal/compile"
)

// invalidError returns an error in the form of a failed CRD validation, with a cause for each problem, or nil if there are no problems.
func invalidError(kind schema.GroupKind, name string, problems []compile.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	causes := make(field.ErrorList, len(problems))
	for i, p := range problems {
		// The value is only in the message, and only if it cannot be a secret.
		causes[i] = &field.Error{Type: field.ErrorTypeInvalid, Field: p.Field, BadValue: field.OmitValueType{}, Detail: p.Message}
	}
	return apierrors.NewInvalid(kind, name, causes)
}
