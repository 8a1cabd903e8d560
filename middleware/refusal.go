package middleware

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
)

// RefusalError is why a request is not served.
type RefusalError struct {
	// Problem is what the client is told. Its status is 429 for a denial, else 431 (more than a Remote may be asked about),
	// 500 (the limiter did not understand the check) or 503.
	Problem *reply.Problem
	// Answer that denied; it has no results if there is none.
	Answer engine.Answer
	cause  error
}

func (r *RefusalError) Error() string {
	if r.cause == nil {
		return "request refused: " + r.Problem.Detail
	}
	return fmt.Sprintf("request refused: no decision: %v", r.cause)
}

// Unwrap returns the error of the Decider, nil for a denial.
func (r *RefusalError) Unwrap() error { return r.cause }

// UnreachableError is the error of a Decider that could not be asked, or did not answer in time. Whether the request was
// counted is not known.
type UnreachableError struct{ Cause error }

func (e *UnreachableError) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Cause }

// ProblemError is the error of a [Remote] whose limiter gives no decision: it will not (503), it cannot read the check
// (400), or it takes none of that size (431).
type ProblemError struct{ Problem *reply.Problem }

func (e *ProblemError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.Problem.Status, e.Problem.Title, e.Problem.Detail)
}

// problemOf is what a client is told of err. That its limiter does not understand a server is no business of clients'.
func problemOf(err error) *reply.Problem {
	answered, ok := errors.AsType[*ProblemError](err)
	switch {
	case !ok:
		return reply.Unavailable(err)
	case answered.Problem.Status == http.StatusBadRequest:
		return reply.NewProblem(http.StatusInternalServerError, "", "the limits of this request cannot be checked")
	default:
		return answered.Problem
	}
}
