package deployment

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// conditionError is an error that an immediate retry does not resolve. It becomes the reason and message of conditions.
type conditionError struct {
	reason  string // reason of the condition
	message string
}

func (o conditionError) Error() string { return o.message }

func secretMissing(format string, values ...any) error {
	return conditionError{reason: v1alpha1.ReasonSecretNotFound, message: fmt.Sprintf(format, values...)}
}

func refused(format string, values ...any) error {
	return conditionError{reason: v1alpha1.ReasonRefused, message: fmt.Sprintf(format, values...)}
}

func quotaExceeded(format string, values ...any) error {
	return conditionError{reason: v1alpha1.ReasonQuotaExceeded, message: fmt.Sprintf(format, values...)}
}

func pending(format string, values ...any) error {
	return conditionError{reason: v1alpha1.ReasonPending, message: fmt.Sprintf(format, values...)}
}

// classifyAPIError turns an error of the API server into a conditionError if a retry would fail in the same way.
func classifyAPIError(operation string, err error) error {
	if meta.IsNoMatchError(err) {
		return refused("%s: the API server does not have this kind: install its CRD", operation)
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		switch code, message := status.Status().Code, status.Status().Message; {
		case code == http.StatusForbidden && isQuota(message):
			return quotaExceeded("%s: %s: raise the quota, or delete other objects", operation, message)
		case code == http.StatusConflict: // with another write, of the object or of its quota
			return pending("%s: %s", operation, message)
		}
		switch status.Status().Code {
		case http.StatusBadRequest, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge,
			http.StatusUnprocessableEntity:
			return refused("%s: %s", operation, status.Status().Message)
		}
	}
	return fmt.Errorf("%s: %w", operation, err)
}

// isQuota reports whether the message of a rejection is about a ResourceQuota: it is exceeded, or its use is not counted yet.
func isQuota(message string) bool {
	return strings.Contains(message, "exceeded quota: ") || strings.Contains(message, "status unknown for quota: ")
}

// record keeps err if it is a conditionError. It returns all other errors.
func (o *outcome) record(err error) error {
	if e, ok := errors.AsType[conditionError](err); ok {
		o.blocking = append(o.blocking, e)
		return nil
	}
	return err
}

// blocked returns the condition reason and message of the recorded errors. Refused, which only an edit resolves, takes precedence
// over reasons that may resolve without one.
func (o *outcome) blocked() (reason, message string, ok bool) {
	messages := make([]string, len(o.blocking))
	for i, e := range o.blocking {
		messages[i] = e.message
		if reason == "" || e.reason == v1alpha1.ReasonRefused {
			reason = e.reason
		}
	}
	return reason, strings.Join(messages, "; "), len(messages) > 0
}
