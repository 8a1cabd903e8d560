package httplimit

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/weir-dev/weir/limiter/reply"
)

// RefusalError describes why a request is not served.
type RefusalError struct {
	// Problem is the response to the client. Its status is 429 for a denial. Otherwise it is 431 (the request, or the answer
	// about it, is too large for a Remote), 500 (the limiter rejected the check as invalid) or 503.
	Problem *Problem
	// Answer that denies the request; empty if there is no decision.
	Answer Answer
	cause  error
}

// Denial returns the response that would be written without [OnDenied]: that of the policy which denies the request, or the problem.
func (r *RefusalError) Denial() Denial {
	if r.cause != nil {
		return reply.Denial{Status: r.Problem.Status, Problem: r.Problem}
	}
	return reply.NewDenial(&r.Answer)
}

func (r *RefusalError) Error() string {
	if r.cause == nil {
		return "request refused: " + r.Problem.Detail
	}
	return fmt.Sprintf("request refused: no decision: %v", r.cause)
}

// Unwrap returns the error of the Decider, nil for a denial.
func (r *RefusalError) Unwrap() error { return r.cause }

// UnreachableError is the error of a Decider that could not be reached, or did not answer in time. The request may or may not have been
// counted.
type UnreachableError struct{ Cause error }

func (e *UnreachableError) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Cause }

// ProblemError is the error of a [Remote] whose limiter returns no decision: it is unavailable (503), or the check is invalid (400), or
// the check or its answer is too large (431).
type ProblemError struct{ Problem *Problem }

func (e *ProblemError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.Problem.Status, e.Problem.Title, e.Problem.Detail)
}

// problemOf returns the problem that a client gets for err. It hides from clients why the limiter rejected a check of this program.
func problemOf(err error) *Problem {
	answered, ok := errors.AsType[*ProblemError](err)
	switch {
	case !ok:
		return reply.Unavailable(err)
	case answered.Problem.Status == http.StatusBadRequest:
		return reply.NewProblem(http.StatusInternalServerError, "", "the limits of this request could not be checked")
	default:
		return answered.Problem
	}
}
