package httplimit

import (
	"context"
	"errors"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/reply"
)

// ErrNotChargeable is the error of [Charge] and [Peek] with a context that is not that of a request which was decided with the option ChargeLater.
var ErrNotChargeable = errors.New("the context is not that of a request that was decided with the option ChargeLater")

// chargeKey is the key of a charge in the context of a request.
type chargeKey struct{}

// charge is what Charge needs to know of a request.
type charge struct {
	gate  *Gate
	check *Check
}

// Chargeable returns a context with which [Charge] charges the request of c, which g has decided.
func (g *Gate) Chargeable(ctx context.Context, c *Check) context.Context {
	return context.WithValue(ctx, chargeKey{}, charge{g, c})
}

// Peek returns what the policies of the request with this context would answer to another such request now, and counts nothing: what remains, and when
// it is reset. It needs the option ChargeLater of Middleware or of package grpclimit.
func Peek(ctx context.Context) (Answer, error) {
	c, err := chargeOf(ctx)
	if err != nil {
		return Answer{}, err
	}
	peek := *c.check
	peek.Cost, peek.Peek = max(peek.Cost, 1), true
	return c.gate.decide(ctx, &peek)
}

// chargeOf returns the charge of a context.
func chargeOf(ctx context.Context) (charge, error) {
	if ctx == nil {
		return charge{}, errNoContext
	}
	c, ok := ctx.Value(chargeKey{}).(charge)
	if !ok {
		return charge{}, ErrNotChargeable
	}
	return c, nil
}

// Charge charges n units more to the policies of the request with this context, for a cost that is known only after the decision, such as the
// size of the response. It needs the option ChargeLater of Middleware or of package grpclimit.
//
// Charge counts also after the client has disconnected or the deadline has passed: a client must not be able to avoid the cost of a response by leaving
// before its end. The timeout of the Decider bounds it. A charge after the handler has returned counts too.
//
// A policy with overrun: Debt takes all units. If another policy has no room for n units, no policy without debts counts them, and the error is a
// *[RefusalError] with the answer. The answers of a [Remote] do not show which policies take debts: its error can be about a debt that is counted.
func Charge(ctx context.Context, n int64) error {
	c, err := chargeOf(ctx)
	switch {
	case err != nil:
		return err
	case n <= 0:
		return nil
	}
	more := *c.check
	more.Cost, more.NoDelay, more.MaxDelay = min(n, limiter.MaxUnits), false, 0
	answer, err := c.gate.decide(context.WithoutCancel(ctx), &more)
	switch {
	case err != nil:
		return err
	case !answer.Allowed && !isDebt(&answer):
		return &RefusalError{Problem: reply.Denied(&answer), Answer: answer}
	default:
		return nil
	}
}

// isDebt reports whether all enforced policies of a denied request have counted it as a debt.
func isDebt(a *Answer) bool {
	for i := range a.Results {
		if r := a.Results[i].Rule; !r.Shadow && !r.Debt {
			return false
		}
	}
	return len(a.Results) > 0
}
