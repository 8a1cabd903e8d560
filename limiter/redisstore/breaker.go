package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore/hashslot"
	"github.com/weir-dev/weir/limiter/redisstore/lasting"
	"github.com/weir-dev/weir/limiter/redisstore/lua"
	"github.com/weir-dev/weir/limiter/redisstore/quarantine"
	"github.com/weir-dev/weir/limiter/wait"
)

// OutageObserver is notified of outages of Redis. One goroutine per Redis node, and one per part, calls its methods.
type OutageObserver interface {
	// Unavailable reports that the node at address failed a call and then a probe.
	Unavailable(address string, cause error)
	// Recovering reports that the node answers probes again, and how long it was unavailable. Until Recovering returns, only
	// [Store.ReportUsage] and [Store.ResetOnce] reach the node. It returns in a bounded time. An error means that some of these calls
	// failed: the node is available again if it answers another probe.
	Recovering(ctx context.Context, unavailableFor time.Duration) error
	// Recovered reports that all calls reach the node again.
	Recovered(address string)
	// ProbeFailed reports that a probe of the node, or of a part of its calls, failed. It is called for every probe.
	ProbeFailed(address string, cause error)
	// PartUnavailable reports that calls of the node fail for the counters that part describes, although it answers others. Recovering, and then
	// PartRecovered follow.
	PartUnavailable(address, part string, cause error)
	PartRecovered(address, part string)
	// CounterUnavailable reports that the calls on one counter fail, and its own probe, although the node answers others.
	CounterUnavailable(key string, cause error)
	// SplitsBySlot reports that the server, which is no cluster, rejects keys in several slots, so that calls are split.
	SplitsBySlot(address string)
}

// The pauses between probes of an unavailable node. The first probe follows the failure without a pause. Each pause is
// multiplied by a random factor from 0.5 to 1.5, because many limiters can be waiting for the same node.
const (
	firstPause = 25 * time.Millisecond
	maxPause   = 120 * time.Millisecond
)

// maxLateness is the share of a timeout, as a divisor, by which a process that keeps up can be late.
const maxLateness = 10

// aloneInFlight is the number of calls to a node that are sent alone at the same time.
const aloneInFlight = 2

// settles is how long another node has to have the slot of a probe until that ends the outage of this one. While the nodes of a cluster disagree about
// their addresses, the next call can be for this node again.
const settles = time.Second

// errElsewhere is the error of a probe that another node answered.
var errElsewhere = fmt.Errorf("%w: another node answered the probe", limiter.ErrOverloaded)

// probeKeyTTL is the time to live of the key that a probe writes.
const probeKeyTTL = time.Second

// The states of a breaker. Closed → open: a round trip failed. Open → closed: the first probe succeeded, so the failure is not that of the
// node. Open → recovering: a later probe succeeded. Recovering → open: the node failed again. Recovering → closed: it did not.
const (
	closed     int32 = iota
	open             // rejects all calls, and probes the node in the background
	recovering       // accepts only calls that report usage
)

// stateName returns the name of a state for a [Meter].
func stateName(state int32) BreakerState {
	return [...]BreakerState{closed: BreakerClosed, open: BreakerOpen, recovering: BreakerRecovering}[state]
}

// breaker is a circuit breaker for one Redis node: it rejects calls from the first round trip that fails until a probe
// in the background succeeds. A nil breaker accepts all calls.
type breaker struct {
	*breakerConfig

	address string

	state      atomic.Int32
	recoveries atomic.Int64 // number of transitions to closed
	answered   atomic.Int64 // when the node last answered, in nanoseconds since created
	created    time.Time
	outage     sync.Mutex    // held during an outage, until the observer knows that it is over: the next outage waits
	alone      chan struct{} // holds a value for each call that is in flight alone

	isElsewhere  func(key string) bool // another node has the slot of key now; nil: never
	needs        *lasting.Tracker      // nil without it
	unclearSince atomic.Int64          // when the first of the calls failed that all have failed unclearly since, in nanoseconds since created; 0 without

	tripping sync.Mutex
	probed   chan struct{} // closed when the first probe since the breaker opened has ended, or after quarantine.ProbeWait; nil before
}

// breakerConfig is what the breakers of a Store share.
type breakerConfig struct {
	probe    func(ctx context.Context, key string) error
	observer OutageObserver
	meter    Meter                // nil: no measurements
	ctx      context.Context      //nolint:containedctx // it ends the probes
	timeout  time.Duration        // of a call
	tripped  atomic.Int64         // number of breakers that are not closed
	keys     *quarantine.Counters // of single counters; nil without quarantine
	parts    atomic.Int64         // number of parts of calls that are rejected
	// probeNeed makes calls like those on the counter of a charge, on counters that have no units yet. nil: needs are not tracked.
	probeNeed func(ctx context.Context, charge limiter.Charge) error
	// recovered is called after an outage of a node; nil: nothing is called.
	recovered func()
}

func (c *breakerConfig) newBreaker(address string) *breaker {
	b := &breaker{breakerConfig: c, address: address, created: time.Now(), alone: make(chan struct{}, aloneInFlight)}
	if c.probeNeed != nil {
		b.needs = lasting.New(c.ctx, func(ctx context.Context, charge limiter.Charge) error {
			if b.rejects(decides) {
				return redisclient.ErrUnavailable // the outage of the node explains it
			}
			return c.probeNeed(ctx, charge)
		}, (*partObserver)(b))
	}
	return b
}

// rejects reports whether calls for that purpose do not reach the node.
func (b *breaker) rejects(p purpose) bool {
	if b == nil {
		return false
	}
	switch b.state.Load() {
	case closed:
		return false
	case recovering:
		return p != reportsUsage
	default:
		return true
	}
}

// send sends a batch, and opens the breaker if the round trip fails. It returns false, and sends nothing, if the breaker
// rejects all calls of the batch.
//
// A timeout is evidence of an outage only if the node had half of the timeout of a call: a call across slots may have spent
// its time on another node. A batch that was not sent is no evidence if this process was late, or if the node has answered
// another batch meanwhile. Nor is a batch whose reply was lost if the node has answered another one: then one of its counters can
// be the cause, see [quarantine.Counters]. Nor is an error reply to a call if the node has answered another one: it can be due to what the call needs. An
// error without a known kind is evidence when it lasts.
func (b *breaker) send(batch []*call, send func([]*call)) (sent bool) {
	if b == nil {
		send(batch)
		return true
	}
	if !slices.ContainsFunc(batch, func(c *call) bool { return !b.rejects(c.purpose) }) {
		return false
	}
	recoveries := b.recoveries.Load()
	late := time.Until(latestDeadline(batch)) < b.timeout/2
	began := time.Now()
	send(batch)
	err := failure(batch)
	answeredOthers := b.answered.Load() > int64(began.Sub(b.created))
	switch {
	case err == nil:
		b.answered.Store(int64(time.Since(b.created)))
		b.unclearSince.Store(0)
		if !b.keys.IsEmpty() {
			b.keys.Answered(answeredCharges(batch))
		}
		b.blame(batch, began)
	case wasNotSent(err) && isLate(latestDeadline(batch), b.timeout):
		for _, c := range batch {
			c.reply.err = limiter.ErrOverloaded
		}
	case wasNotSent(err) && answeredOthers:
		for _, c := range batch {
			c.reply.err = redisclient.NoConnection(c.reply.err)
		}
	case late && isTimeout(err):
	case answeredOthers && redisclient.MayHaveRun(err):
		b.blame(batch, began)
		markLost(batch)
	case answeredOthers && isReplyToCall(err), redisclient.IsUnclear(err) && !b.lasts():
		b.blame(batch, began)
	default:
		suspects, isAlone := suspectCharges(batch), len(batch) == 1 // the calls are used again
		b.trip(recoveries, batch[0].key(), err, func() { b.blameCharges(suspects, began, isAlone, err) })
		if isTimeout(err) { // a connection that breaks is usually the end of the node, not of a reply
			markLost(batch)
		}
	}
	return true
}

// lasts reports whether all calls have failed unclearly for so long that it is an outage. Then the node is probed.
func (b *breaker) lasts() bool {
	now := int64(time.Since(b.created)) + 1
	b.unclearSince.CompareAndSwap(0, now)
	return time.Duration(now-b.unclearSince.Load()) >= lasting.Lasts
}

// suspectProbed records the result of a probe of one counter, which began after that number of recoveries.
func (b *breaker) suspectProbed(charge limiter.Charge, recoveries int64, began time.Time, err error) {
	switch answeredOthers := b.answered.Load() > int64(began.Sub(b.created)); {
	case err == nil:
		b.answered.Store(int64(time.Since(b.created)))
		b.unclearSince.Store(0)
	case !answeredOthers && redisclient.IsUnclear(err) && b.lasts():
		b.trip(recoveries, charge.Key, err, func() {})
	case b.needs != nil && isReplyToCall(err):
		b.needs.Failed(needOf(charge.Key, charge.Limit), charge, err)
	}
}

// blame records the charges of a batch that failed in a way that can be due to their counters, or to what they need.
func (b *breaker) blame(batch []*call, began time.Time) {
	if charges := suspectCharges(batch); len(charges) > 0 {
		b.blameCharges(charges, began, len(batch) == 1, firstError(batch))
	}
}

func (b *breaker) blameCharges(charges []limiter.Charge, began time.Time, isAlone bool, cause error) {
	b.keys.Fail(charges, began, isAlone)
	if b.needs == nil || !isReplyToCall(cause) {
		return
	}
	failed := map[lasting.Need]bool{} // of this batch
	for _, c := range charges {
		if need := needOf(c.Key, c.Limit); !failed[need] {
			failed[need] = true
			b.needs.Failed(need, c, cause)
		}
	}
}

func needOf(key string, limit limiter.Limit) lasting.Need {
	return lasting.NeedOf(key, limit, lua.MaxWholeLog)
}

// rejectsNeed reports whether calls on one of the counters of charges are rejected because of what they need.
func (b *breaker) rejectsNeed(p purpose, charges []limiter.Charge) bool {
	return b.needs.HasOutage() && slices.ContainsFunc(charges, func(c limiter.Charge) bool {
		return b.needs.Rejects(needOf(c.Key, c.Limit), p == reportsUsage)
	})
}

// partObserver reports the outages of needs at a node.
type partObserver breaker

func (o *partObserver) Began(need lasting.Need, cause error) {
	o.parts.Add(1)
	o.observer.PartUnavailable(o.address, need.String(), cause)
}

func (o *partObserver) Failed(_ lasting.Need, cause error) { o.observer.ProbeFailed(o.address, cause) }

func (o *partObserver) Ending(ctx context.Context, lasted time.Duration) {
	_ = o.observer.Recovering(ctx, lasted) // what cannot be reported now is reported later
}

func (o *partObserver) Ended(need lasting.Need) {
	o.parts.Add(-1)
	o.observer.PartRecovered(o.address, need.String())
}

// markLost makes the errors of calls that may have run [limiter.ErrReplyLost].
func markLost(batch []*call) {
	for _, c := range batch {
		if c.reply.err != nil && redisclient.MayHaveRun(c.reply.err) {
			c.reply.err = fmt.Errorf("%w: %w", limiter.ErrReplyLost, c.reply.err)
		}
	}
}

// sendAlone sends a call on a counter whose calls failed recently in a batch of its own. It returns false, and sends nothing, if as many such
// calls as possible are in flight.
func (b *breaker) sendAlone(c *call, send func([]*call)) (sent bool) {
	select {
	case b.alone <- struct{}{}:
	default:
		return false
	}
	defer func() { <-b.alone }()
	if !b.send([]*call{c}, send) {
		c.reply.err = redisclient.ErrUnavailable
	}
	return true
}

// wasNotSent reports whether err shows that a call was not sent by its deadline. A context ends a call only before it is sent,
// for example while it waits for a connection.
func wasNotSent(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// isLate reports whether this process noticed only now that a deadline has passed. One that keeps up notices it immediately.
func isLate(deadline time.Time, timeout time.Duration) bool {
	return time.Since(deadline) > timeout/maxLateness
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// trip opens the breaker after a round trip that began after that number of recoveries. A late failure of a round trip from
// before a recovery does not open it. key is one of the round trip: probes use the same node. If it is no outage, blameKeys is called.
func (b *breaker) trip(recoveries int64, key string, cause error, blameKeys func()) {
	b.tripping.Lock()
	defer b.tripping.Unlock()
	if b.recoveries.Load() != recoveries || !b.state.CompareAndSwap(closed, open) {
		return
	}
	probed := make(chan struct{})
	b.probed = probed
	endWait := sync.OnceFunc(func() { close(probed) })
	time.AfterFunc(quarantine.ProbeWait, endWait)
	b.tripped.Add(1)
	b.changed(BreakerOpen)
	go b.probeUntilRecovered(key, cause, time.Now(), blameKeys, endWait)
}

// isUnavailable is rejects for a decision, but waits for a first probe that has begun right after a failure: the calls of that moment need no
// local decision if the node answers it.
func (b *breaker) isUnavailable() bool {
	if !b.rejects(decides) {
		return false
	}
	b.tripping.Lock()
	probed := b.probed
	b.tripping.Unlock()
	<-probed
	return b.rejects(decides)
}

// probeUntilRecovered closes the breaker when the node is usable again. If the first probe succeeds, the observer is not
// notified, and blameKeys is called: the failure was a broken connection or due to a counter, not an outage. It calls endWait when the first
// probe has ended.
func (b *breaker) probeUntilRecovered(key string, cause error, began time.Time, blameKeys, endWait func()) {
	b.outage.Lock()
	defer b.outage.Unlock()
	defer endWait()
	reported, elsewhere := false, time.Time{}
	for pause := time.Duration(0); ; pause = min(max(2*pause, firstPause), maxPause) {
		if !wait.Sleep(b.ctx, wait.Jittered(pause)) {
			return
		}
		err := b.recover(key, time.Since(began), reported, &elsewhere)
		if err == nil {
			break
		}
		if errors.Is(err, limiter.ErrOverloaded) { // this node was not asked
			continue
		}
		b.become(open)
		b.observer.ProbeFailed(b.address, err)
		if !reported {
			b.keys.Reset()
			b.observer.Unavailable(b.address, errors.Join(cause, err))
			endWait()
			reported = true
		}
	}
	if !reported {
		blameKeys()
	}
	b.recoveries.Add(1)
	b.become(closed)
	endWait()
	b.tripped.Add(-1)
	if reported {
		b.observer.Recovered(b.address)
		if b.recovered != nil {
			b.recovered()
		}
	}
}

// changed reports a new state.
func (b *breaker) changed(state BreakerState) {
	if b.meter != nil {
		b.meter.BreakerChanged(state)
	}
}

// become changes the state. Only the goroutine that probes the node calls it.
func (b *breaker) become(state int32) {
	if b.state.Swap(state) != state {
		b.changed(stateName(state))
	}
}

// recover probes the node, and after an outage lets the observer report what happened in it. A report that fails can be due to its counter: the
// node is available if it answers another probe. elsewhere is since when another node has answered, zero if this one did.
func (b *breaker) recover(key string, unavailableFor time.Duration, wasOutage bool, elsewhere *time.Time) error {
	err := b.probe(b.ctx, key)
	if err == nil && b.isElsewhere != nil && b.isElsewhere(key) {
		if elsewhere.IsZero() {
			*elsewhere = time.Now()
		}
		if time.Since(*elsewhere) < settles {
			return errElsewhere
		}
	} else {
		*elsewhere = time.Time{}
	}
	if err != nil || !wasOutage {
		return err
	}
	b.become(recovering)
	if err := b.observer.Recovering(b.ctx, unavailableFor); err != nil && !errors.Is(err, limiter.ErrOverloaded) {
		return b.probe(b.ctx, key)
	}
	return nil
}

// key returns one key of the call, "" if it has no charges.
func (c *call) key() string {
	if len(c.charges) == 0 {
		return ""
	}
	return c.charges[0].Key
}

// failure returns the first error of a batch if all of its calls failed, other than by the caller, else nil.
func failure(batch []*call) error {
	for _, c := range batch {
		if kind := redisclient.Kind(c.reply.err); kind == "" || kind == redisclient.KindCanceled || errors.Is(c.reply.err, errSeveralSlots) {
			return nil
		}
	}
	return batch[0].reply.err
}

// answeredCharges are the charges of the calls of a batch that were answered.
func answeredCharges(batch []*call) iter.Seq[[]limiter.Charge] {
	return func(yield func([]limiter.Charge) bool) {
		for _, c := range batch {
			if c.reply.err == nil && !yield(c.charges) {
				return
			}
		}
	}
}

// suspectCharges returns the charges of the calls of a batch that failed in a way that can be due to one of their counters.
func suspectCharges(batch []*call) (charges []limiter.Charge) {
	for _, c := range batch {
		if c.reply.err != nil && mayBeDueToKey(c.reply.err) {
			charges = append(charges, c.charges...)
		}
	}
	return charges
}

// mayBeDueToKey reports whether an error can be due to one counter: a lost reply, missing permission for its key, or an error of the script.
func mayBeDueToKey(err error) bool {
	switch redisclient.Kind(err) {
	case redisclient.KindTimeout, redisclient.KindDisconnected:
		return !wasNotSent(err)
	default:
		return isReplyToCall(err)
	}
}

// isReplyToCall reports whether err is an error reply that can be due to the call: to its counters, or to the commands that it needs.
func isReplyToCall(err error) bool {
	switch redisclient.Kind(err) {
	case redisclient.KindDenied, redisclient.KindMisconfigured, redisclient.KindNoScript, redisclient.KindOther:
		return true
	default:
		return false
	}
}

func firstError(batch []*call) error {
	for _, c := range batch {
		if c.reply.err != nil {
			return c.reply.err
		}
	}
	return nil
}

// EnableBreaker adds a circuit breaker to each Redis node of the Store: after a failure, calls to the node fail immediately
// with [redisclient.ErrUnavailable] and are not counted, while the Store probes the node in the background until ctx ends.
// Call it before the Store is used.
func (s *Store) EnableBreaker(ctx context.Context, observer OutageObserver) {
	s.batchers.breaker = &breakerConfig{
		probe: s.probe, observer: observer, meter: s.meter, ctx: ctx, timeout: s.timeout, keys: quarantine.New(ctx, s.probeSuspect, observer.CounterUnavailable),
		probeNeed: s.probeNeed, recovered: s.client.Recovered,
	}
}

// Quarantined returns the number of counters for which calls are rejected at the moment although their node is available.
func (s *Store) Quarantined() int {
	if c := s.batchers.breaker; c != nil {
		return c.keys.Held()
	}
	return 0
}

// Unavailable reports whether calls for the counter at key are rejected at the moment.
func (s *Store) Unavailable(key string) bool {
	c := s.batchers.breaker
	if c == nil {
		return false
	}
	if c.tripped.Load() > 0 && s.batchers.forKey(time.Now().Add(s.timeout), key).breaker.isUnavailable() {
		return true
	}
	return c.keys.IsUnavailable(key)
}

// UnavailableFor is Unavailable for the counter of a charge. It also reports whether calls like this one are rejected.
func (s *Store) UnavailableFor(charge *limiter.Charge) bool {
	if s.Unavailable(charge.Key) {
		return true
	}
	c := s.batchers.breaker
	return c != nil && c.parts.Load() > 0 &&
		s.batchers.forKey(time.Now().Add(s.timeout), charge.Key).breaker.rejectsNeed(decides, []limiter.Charge{*charge})
}

// probeKey returns nil if Redis decides a charge, without counting it, within the timeout of a call.
func (s *Store) probeKey(ctx context.Context, charge limiter.Charge) error {
	return s.within(ctx, s.timeout, func(ctx context.Context) error {
		return s.try(ctx, []*call{{mode: modePeek, charges: []limiter.Charge{charge}}})
	})
}

// probeSuspect is probeKey for a counter whose calls failed. Its result is evidence about the node and about what such calls need, too: if all
// requests are for a few counters, no other calls are made.
func (s *Store) probeSuspect(ctx context.Context, charge limiter.Charge) error {
	b := s.batchers.forKey(time.Now().Add(s.timeout), charge.Key).breaker
	recoveries, began := b.recoveries.Load(), time.Now()
	err := s.probeKey(ctx, charge)
	b.suspectProbed(charge, recoveries, began, err)
	return err
}

// try runs one script for calls, and returns the error of the reply, which can also be that the reply is not one of the script.
func (s *Store) try(ctx context.Context, calls []*call) error {
	s.decodeReply(calls, s.runScript(ctx, calls))
	return calls[0].reply.err
}

// probeNeed spends on two new counters like that of charge, alone and then together, so that all commands of such calls run.
func (s *Store) probeNeed(ctx context.Context, charge limiter.Charge) error {
	limit, err := limiter.NewLimit(charge.Limit.Algorithm(), charge.Limit.Units(), time.Second)
	if err != nil {
		return err
	}
	_, isCluster := s.client.Cluster()
	counter := func() []limiter.Charge {
		key := hashslot.Neighbour(charge.Key, isCluster) + ":probe:" + rand.Text()
		if _, _, isCompact := limiter.CompactKey(charge.Key); isCompact {
			key += ":0#000000000000"
		}
		return []limiter.Charge{{Key: key, Limit: limit, Cost: 1}}
	}
	one, other := &call{mode: modeSpend, charges: counter()}, &call{mode: modeSpend, charges: counter()}
	for _, calls := range [][]*call{{one}, {one, other}} {
		err := s.within(ctx, s.timeout, func(ctx context.Context) error { return s.try(ctx, calls) })
		if err != nil {
			return err
		}
	}
	return nil
}

// probe returns nil if the node with key accepts writes and runs scripts within the timeout of a call. Connecting can take
// longer. It returns [limiter.ErrOverloaded] if this process was too late to ask the node. It uses another key in the slot of key, without the
// identifier in it: what is wrong with one counter is not evidence against its node.
func (s *Store) probe(ctx context.Context, key string) error {
	_, isCluster := s.client.Cluster()
	key = hashslot.Neighbour(key, isCluster)
	err := s.within(ctx, max(s.timeout, redisclient.MinDialTimeout), func(ctx context.Context) error {
		return s.client.Redis().GetRange(ctx, key+":probe", 0, 0).Err() // on a cluster it is sent to the node of the slot
	})
	if err != nil {
		return err
	}
	return s.within(ctx, s.timeout, func(ctx context.Context) error {
		if err := s.client.Redis().Set(ctx, key+":probe", "", probeKeyTTL).Err(); err != nil {
			return err
		}
		return s.try(ctx, []*call{{mode: modePeek, charges: []limiter.Charge{{Key: key + ":unused", Limit: probeLimit(), Cost: 1}}}})
	})
}

// within runs a part of a probe with a timeout. It returns [limiter.ErrOverloaded] if this process was late, compared with the timeout, and did
// not send.
func (s *Store) within(ctx context.Context, timeout time.Duration, ask func(context.Context) error) error {
	deadline := time.Now().Add(timeout)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	err := ask(ctx)
	s.client.RefreshTopology(ctx, err)
	if wasNotSent(err) && isLate(deadline, timeout) {
		return limiter.ErrOverloaded
	}
	return redisclient.WithKind(err)
}

// probeLimit is the limit that a probe peeks at. Its counter is never spent.
func probeLimit() limiter.Limit {
	limit, err := limiter.NewLimit(limiter.Algorithms()[0], 1, time.Second)
	if err != nil {
		panic(err) // the arguments are valid
	}
	return limit
}
