package httplimit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/wait"
)

// Decider decides requests, for example a Limiter of package weir or a [Remote]. A Decider that cannot be reached returns an
// [UnreachableError]. The Gate applies every other result.
type Decider interface {
	Check(ctx context.Context, c *Check) (Answer, error)
}

// Gate lets a Decider decide requests, and applies the decisions. It does not depend on the protocol: several servers of a program may
// share one Gate. It is safe for concurrent use.
type Gate struct {
	decider  Decider
	domain   string
	style    HeaderStyle
	maxDelay time.Duration
	closed   bool                                         // see FailClosed
	observe  func(context.Context, *Check, Answer, error) // can be nil
	log      *slog.Logger
	warning  rate.Sometimes
}

// warnInterval is the least time between two warnings of a Gate that requests have no decision.
const warnInterval = 10 * time.Second

// LineReader is a Decider that reads the headers of a request from [Request.HeaderLines], for example a Limiter of package weir. Other Deciders
// get Headers.
type LineReader interface {
	Decider
	ReadsHeaderLines()
}

// readsLines reports whether nothing that a check is passed to reads Headers.
func (g *Gate) readsLines() bool {
	_, reads := g.decider.(LineReader)
	return reads && g.observe == nil
}

// Option changes how a Gate works.
type Option func(*Gate)

// Style sets the response headers that describe limits to clients; the default is [RateLimitHeaders].
func Style(s HeaderStyle) Option { return func(g *Gate) { g.style = s } }

// MaxDelay bounds how long a request waits for its turn under a LeakyBucket. A request that would have to wait longer is denied
// immediately, with a Retry-After, and not counted. A [Remote] knows the delay only after the limiter has counted the request, so the
// units stay counted; so they do with a bound over 30 minutes. Without this option, a request waits as long as the policy's burst
// allows. No request waits beyond the deadline of its context.
func MaxDelay(d time.Duration) Option { return func(g *Gate) { g.maxDelay = d } }

// FailClosed refuses requests while the Decider cannot be reached. By default they are served and not counted, so that a limiter that
// fails does not stop the service. The onStoreFailure of a policy is not affected by this option: the Decider applies it, and the Gate
// applies the Decider's answer.
func FailClosed() Option { return func(g *Gate) { g.closed = true } }

// Observe sets a function that receives every answer before the Gate applies it, and every error, for metrics and logs. It is called
// from many goroutines. [Charge] and [Peek] return theirs instead. A request that is denied because of [MaxDelay] is observed as denied.
func Observe(f func(context.Context, *Check, Answer, error)) Option {
	return func(g *Gate) { g.observe = f }
}

// Log sets the logger for warnings, at most one per 10 s, that requests have no decision; the default is [slog.Default].
func Log(log *slog.Logger) Option {
	return func(g *Gate) { g.log = cmp.Or(log, g.log) }
}

// NewGate returns a Gate for requests of a domain, which is the namespace of the policies. It panics if domain is empty, because then
// no policy can match. A Gate without a Decider refuses every request.
func NewGate(d Decider, domain string, options ...Option) *Gate {
	if domain == "" {
		panic("httplimit: NewGate: domain is empty; set it to the namespace of the policies that apply")
	}
	g := &Gate{
		decider: d, domain: domain, style: reply.RateLimitHeaders, maxDelay: math.MaxInt64, log: slog.Default(),
		warning: rate.Sometimes{Interval: warnInterval},
	}
	for _, option := range options {
		if option != nil {
			option(g)
		}
	}
	return g
}

// orRefusing returns g, or a Gate that refuses every request if g is nil.
func (g *Gate) orRefusing() *Gate {
	if g == nil {
		return NewGate(nil, "nil")
	}
	return g
}

// The errors of a program that hands over nil.
var (
	errNoDecider = errors.New("the gate has no decider: NewGate was called with nil, or the gate is nil")
	errNoCheck   = errors.New("the check is nil")
	errNoContext = errors.New("the context is nil")
	errNoRequest = errors.New("the request is nil, or has no URL")
	errNoRemote  = errors.New("the Remote is nil or empty; make it with NewRemote")
)

// validate returns an error if g cannot decide c.
func (g *Gate) validate(ctx context.Context, c *Check) error {
	switch {
	case c == nil:
		return errNoCheck
	case ctx == nil:
		return errNoContext
	case g.decider == nil:
		return errNoDecider
	default:
		return nil
	}
}

// Enter lets the Decider decide c, sets the rate-limit fields in fields, and waits for the request's turn. It returns nil if the request
// is to be served, a *[RefusalError] if it is not, and the error of ctx if ctx ends first.
//
// A check without a domain gets the Gate's domain. A check of cost 0 is not decided: Enter returns nil. A negative cost counts as 1, so
// that no request can refund units.
func (g *Gate) Enter(ctx context.Context, c *Check, fields http.Header) error {
	if err := g.orRefusing().validate(ctx, c); err != nil {
		return &RefusalError{Problem: problemOf(err), cause: err}
	}
	if c.Cost == 0 {
		return nil
	}
	c.Cost = min(max(c.Cost, 1), limiter.MaxUnits)
	g.boundDelay(ctx, c)
	answer, err := g.decide(ctx, c)
	if most := g.longestDelay(ctx); answer.Delay > most {
		answer = denyDelayed(answer, most)
	}
	if g.observe != nil {
		g.observe(ctx, c, answer, err)
	}
	if err != nil {
		return g.fail(ctx, err)
	}
	if fields == nil {
		fields = http.Header{}
	}
	if err := g.style.SetCanonicalHeaders(fields, &answer, time.Now); err != nil {
		g.Warn(ctx, "response sent without rate-limit headers", err)
	}
	if !answer.Allowed {
		return &RefusalError{Problem: reply.Denied(&answer), Answer: answer}
	}
	if answer.Delay > 0 && !wait.Sleep(ctx, answer.Delay) {
		return ctx.Err()
	}
	return nil
}

// errNoRule is the error for a Decider, for example one of a test, whose results do not name their rules.
var errNoRule = errors.New("the decider has returned a result without Rule; set httplimit.Result.Rule, at least its Policy")

// decide lets the Decider decide c, in the domain of g unless c has one. An answer that cannot be applied is an error.
func (g *Gate) decide(ctx context.Context, c *Check) (Answer, error) {
	if c.Request.Domain == "" {
		c.Request.Domain = g.domain
	}
	answer, err := g.decider.Check(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	for i := range answer.Results {
		if answer.Results[i].Rule == nil {
			return Answer{}, errNoRule
		}
	}
	return answer, nil
}

// longestDelay is how long a request may wait for its turn.
func (g *Gate) longestDelay(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(g.maxDelay, time.Until(deadline))
	}
	return g.maxDelay
}

// boundDelay lets the Decider deny a request that would wait too long, before it counts the request.
func (g *Gate) boundDelay(ctx context.Context, c *Check) {
	most := g.longestDelay(ctx)
	if most == math.MaxInt64 {
		return
	}
	most = max(most, 1) // 0 would be no bound
	if c.MaxDelay == 0 || most < c.MaxDelay {
		c.MaxDelay = most
	}
}

// fail decides a request that the Decider has neither allowed nor denied.
func (g *Gate) fail(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	if _, unreachable := errors.AsType[*UnreachableError](err); unreachable && !g.closed {
		g.Warn(ctx, "limiter unreachable; requests are served and not counted", err)
		return nil
	}
	g.Warn(ctx, "no decision from the limiter; requests are refused", err)
	return &RefusalError{Problem: problemOf(err), cause: err}
}

// Warn logs a warning, at most one of a Gate per 10 s.
func (g *Gate) Warn(ctx context.Context, message string, err error) {
	if g == nil {
		return
	}
	g.warning.Do(func() { g.log.WarnContext(ctx, message, "error", err) })
}

// denyDelayed turns an allowed answer into a denial by every rule whose delay is longer than most. The delay becomes the RetryAfter:
// the client waits instead of the server.
func denyDelayed(a Answer, most time.Duration) Answer {
	a.Allowed, a.Delay, a.Results = false, 0, slices.Clone(a.Results)
	for i := range a.Results {
		if r := &a.Results[i]; r.Delay > most && !r.Rule.Shadow {
			r.Allowed, r.RetryAfter, r.Delay = false, r.Delay, 0
		}
	}
	slices.SortStableFunc(a.Results, func(x, y Result) int {
		if x.Rule.Shadow || y.Rule.Shadow { // shadow rules are last already
			return 0
		}
		return limiter.CompareStrictness(x.Decision, y.Decision)
	})
	return a
}
