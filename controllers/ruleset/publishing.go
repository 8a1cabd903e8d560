package ruleset

import (
	"context"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
)

// publishWait is how long a reconciliation waits for Redis. A Redis that responds needs milliseconds. Without the bound, one that
// does not respond would delay the selection of the Limiter, and with it the statuses of policies in other Limiters.
const publishWait = 250 * time.Millisecond

// publishing runs the calls of a Publisher one after the other. A call that takes longer than wait continues in the background.
type publishing struct {
	wait   time.Duration
	latest publish.Delivery
	call   *publishCall // nil while no call is in progress
}

// publishCall is one call of Publish.
type publishCall struct {
	set    *selection.RuleSet
	done   chan publish.Delivery
	cancel context.CancelFunc
}

// publish publishes the rule set, and reports whether latest is its delivery. If an earlier call is in progress, it starts no
// other one.
func (p *publishing) publish(ctx context.Context, publisher *publish.Publisher, limiter *v1alpha1.Limiter, set *selection.RuleSet) bool {
	if p.call != nil {
		published := p.call.set
		if !p.collect(0) {
			return false
		}
		if published == set {
			return true
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	call := &publishCall{set: set, done: make(chan publish.Delivery, 1), cancel: cancel}
	p.call = call
	go func() { call.done <- publisher.Publish(ctx, limiter, set) }()
	return p.collect(p.wait)
}

// collect waits for the call in progress, and reports whether it has finished.
func (p *publishing) collect(wait time.Duration) bool {
	expired := time.NewTimer(wait)
	defer expired.Stop()
	select {
	case p.latest = <-p.call.done:
	case <-expired.C:
		select {
		case p.latest = <-p.call.done: // both are ready
		default:
			return false
		}
	}
	p.call.cancel()
	p.call = nil
	return true
}

// finish waits until no call is in progress.
func (p *publishing) finish() {
	if p.call != nil {
		p.latest = <-p.call.done
		p.call.cancel()
		p.call = nil
	}
}

// cancel cancels the call in progress and waits for its end.
func (p *publishing) cancel() {
	if p.call != nil {
		p.call.cancel()
		p.finish()
	}
}
