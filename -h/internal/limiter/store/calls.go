package store

import (
	"context"
	"errors"
	"time"

	"github.com/weir-dev/weir/go/internal/limiter"
	"github.com/weir-dev/weir/go/internal/limiter/tracing"
)

// The names of the calls of the counters.
const (
	opSpend = "spend"
	opPeek  = "peek"
)

// calls is a layer that traces the calls of the next Store, and measures them with observe, unless that is nil: then the next Store measures them.
type calls struct {
	limiter.Store

	observe func(op string, took time.Duration, err error)
}

// Spend implements limiter.Store.
func (s *calls) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	return s.call(ctx, opSpend, s.Store.Spend, charges)
}

// Peek implements limiter.Store.
func (s *calls) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	return s.call(ctx, opPeek, s.Store.Peek, charges)
}

func (s *calls) call(
	ctx context.Context, op string, decide func(context.Context, []limiter.Charge) ([]limiter.Decision, error), charges []limiter.Charge,
) ([]limiter.Decision, error) {
	ctx, step := tracing.Step(ctx, op)
	if s.observe == nil && step == nil {
		return decide(ctx, charges)
	}
	began := time.Now()
	decisions, err := decide(ctx, charges)
	if s.observe != nil && !errors.Is(err, limiter.ErrOverloaded) { // then no call was made
		s.observe(op, time.Since(began), err)
	}
	if step != nil {
		endStep(step, err)
	}
	return decisions, err
}

// endStep ends the span of a call.
func endStep(step *tracing.Span, err error) {
	if err == nil {
		step.End("")
		return
	}
	step.End(limiter.ErrorKind(err))
}
