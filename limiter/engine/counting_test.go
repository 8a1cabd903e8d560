package engine_test

import (
	"context"
	"sync/atomic"

	"github.com/weir-dev/weir/limiter"
)

// countingStore counts its calls.
type countingStore struct {
	limiter.Store

	spends, peeks atomic.Int64
	afterSpend    func() // is called before the answer arrives, unless nil
}

func (s *countingStore) calls() int64 { return s.spends.Load() + s.peeks.Load() }

func (s *countingStore) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	s.spends.Add(1)
	decisions, err := s.Store.Spend(ctx, charges)
	if s.afterSpend != nil {
		s.afterSpend()
	}
	return decisions, err
}

func (s *countingStore) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	s.peeks.Add(1)
	return s.Store.Peek(ctx, charges)
}
