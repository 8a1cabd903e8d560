package engine

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// maxWary is for how long, after an outage, the store's word is not enough, see decideWarily: longer than the replicas
	// find out apart from one another that it is over.
	maxWary = 500 * time.Millisecond
	// repayMost counters are told of in a round, repayAtOnce at a time.
	repayMost, repayAtOnce = 20_000, 128
)

// Recovering tells the store what was spent locally while it, or a part of it, was away, for so long. An error says that it
// has failed again.
func (e *Engine) Recovering(ctx context.Context, away time.Duration) error {
	if err := e.repayRound(ctx); err != nil {
		return err
	}
	e.mode.waryUntil.Store(e.clock().Add(min(2*away, maxWary)).UnixNano())
	if e.local.Owes() {
		go e.repayRest(ctx)
	}
	return nil
}

// repayRest goes on until nothing is owed that can be told. What is asked for meanwhile is told at once, see repay.
func (e *Engine) repayRest(ctx context.Context) {
	for before := 0; e.local.Owes(); {
		owing := e.local.Stats().Owing
		if owing == before || e.repayRound(ctx) != nil { // the rest is another part's, or the next outage has come
			return
		}
		before = owing
	}
}

func (e *Engine) repayRound(ctx context.Context) error {
	if !e.local.Owes() {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(repayAtOnce)
	for _, key := range e.local.Debts(repayMost) {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return e.settle(ctx, key)
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("tell the store what was spent locally: %w", err)
	}
	return nil
}

// repay tells the store, before it is asked about subjects, what was spent on them while it was away.
func (e *Engine) repay(ctx context.Context, subjects []subject) {
	if e.local == nil || !e.local.Owes() {
		return
	}
	for i := range subjects {
		_ = e.settle(ctx, subjects[i].charge.Key) // what cannot be told is owed on, or counted as lost
	}
}

// settle tells the store what is owed on the counter at key.
func (e *Engine) settle(ctx context.Context, key string) error {
	charge, owes := e.local.Settle(key)
	if !owes {
		return nil
	}
	uncounted, err := e.remote.ReportUsage(ctx, charge)
	if uncounted {
		e.local.Owe(charge)
	}
	if !uncounted || err != nil {
		e.metrics.repaid(charge.Cost, uncounted, err)
	}
	return err
}
