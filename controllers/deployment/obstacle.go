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

// obstacle is what keeps a Limiter from being deployed, and trying again at once would not move.
type obstacle struct {
	reason string // of the condition
	text   string
}

func (o obstacle) Error() string { return o.text }

func secretMissing(format string, values ...any) error {
	return obstacle{reason: v1alpha1.ReasonSecretNotFound, text: fmt.Sprintf(format, values...)}
}

func refused(format string, values ...any) error {
	return obstacle{reason: v1alpha1.ReasonRefused, text: fmt.Sprintf(format, values...)}
}

func pending(format string, values ...any) error {
	return obstacle{reason: v1alpha1.ReasonPending, text: fmt.Sprintf(format, values...)}
}

// refusal makes an obstacle of the API server's answer to what was asked, if asking again will get the same answer.
func refusal(asked string, err error) error {
	if meta.IsNoMatchError(err) {
		return refused("%s: the API server does not know the kind", asked)
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		switch status.Status().Code {
		case http.StatusBadRequest, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusConflict,
			http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
			return refused("%s: %s", asked, status.Status().Message)
		}
	}
	return fmt.Errorf("%s: %w", asked, err)
}

// meet keeps err if it is an obstacle, and returns it if it is not.
func (o *outcome) meet(err error) error {
	if met, is := errors.AsType[obstacle](err); is {
		o.obstacles = append(o.obstacles, met)
		return nil
	}
	return err
}

// blocked says what stands in the way: the reason that an edit must remove, if there is one, before any that may go by
// itself.
func (o *outcome) blocked() (reason, text string, is bool) {
	texts := make([]string, len(o.obstacles))
	for i, met := range o.obstacles {
		texts[i] = met.text
		if reason == "" || met.reason == v1alpha1.ReasonRefused {
			reason = met.reason
		}
	}
	return reason, strings.Join(texts, "; "), len(texts) > 0
}
