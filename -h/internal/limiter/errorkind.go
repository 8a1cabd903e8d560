package limiter

import (
	"context"
	"errors"
)

// Kinds of errors of a [Store] that does not describe them itself.
const (
	KindTimeout  = "timeout"
	KindCanceled = "canceled"
	KindOther    = "other"
)

// ErrorKind returns the kind of a Store's error, for metrics: what the error itself reports in a method Kind, otherwise one
// of the Kind constants.
func ErrorKind(err error) string {
	var kinded interface{ Kind() string }
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &kinded):
		return kinded.Kind()
	case errors.Is(err, context.Canceled):
		return KindCanceled
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return KindTimeout
	default:
		return KindOther
	}
}
