package simulate

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
)

// Midnight is when simulations begin.
func Midnight() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

// event is something that happens.
type event struct {
	at  time.Time
	seq int64 // the order of events at the same time
	do  func(at time.Time) error
}

// agenda has the events to come, the next first. It implements heap.Interface.
type agenda struct {
	events []event
	seq    int64
}

func (a *agenda) Len() int { return len(a.events) }
func (a *agenda) Less(i, j int) bool {
	x, y := &a.events[i], &a.events[j]
	return x.at.Before(y.at) || x.at.Equal(y.at) && x.seq < y.seq
}
func (a *agenda) Swap(i, j int) { a.events[i], a.events[j] = a.events[j], a.events[i] }

// Push implements heap.Interface.
func (a *agenda) Push(x any) {
	if e, ok := x.(event); ok {
		a.events = append(a.events, e)
	}
}

// Pop implements heap.Interface.
func (a *agenda) Pop() any {
	last := a.events[len(a.events)-1]
	a.events = a.events[:len(a.events)-1]
	return last
}

// plan adds an event.
func (a *agenda) plan(at time.Time, do func(time.Time) error) {
	a.seq++
	heap.Push(a, event{at, a.seq, do})
}

// simulation runs one variant.
type simulation struct {
	scenario *Scenario
	set      rules.Set
	random   *rand.Rand
	now, end time.Time
	agenda   agenda
	shared   *redis
	replicas []*replica
	domain   string
	measured *measured
	attempts int64 // requests, with those that are tried again
}

// run simulates a variant. observe receives each request with its decision.
func (s *Scenario) run(ctx context.Context, v *Variant, m *measured) error {
	sim := &simulation{
		scenario: s, set: v.set, random: rand.New(rand.NewPCG(s.Seed, 1)), now: Midnight(), end: Midnight().Add(time.Duration(s.Duration)), measured: m,
	}
	sim.domain = domainOf(&v.set)
	sim.shared = &redis{Store: memstore.New(sim.clock), resets: map[string]bool{}}
	if err := sim.scale(s.Replicas); err != nil {
		return err
	}
	sim.plan()
	defer func() { m.outcome.RedisCalls = sim.shared.calls }()
	for n := 0; sim.agenda.Len() > 0; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		next, _ := heap.Pop(&sim.agenda).(event)
		if !next.at.Before(sim.end) {
			return nil
		}
		sim.now = next.at
		if err := next.do(next.at); err != nil {
			return fmt.Errorf("at %v: %w", next.at.Sub(Midnight()), err)
		}
	}
	return nil
}

func (s *simulation) clock() time.Time { return s.now }

// domainOf returns the domain of the policies: that of the first that has one.
func domainOf(set *rules.Set) string {
	for i := range set.Rules {
		if d := set.Rules[i].Domain; d != "" {
			return d
		}
	}
	return ""
}

// plan plans the events of the scenario.
func (s *simulation) plan() {
	start := Midnight()
	active := 0 // outages, which can overlap
	for _, o := range s.scenario.Outages {
		change := func(by int) func(time.Time) error {
			return func(time.Time) error {
				active += by
				s.shared.unavailable = active > 0
				return nil
			}
		}
		s.agenda.plan(start.Add(time.Duration(o.From)), change(1))
		s.agenda.plan(start.Add(time.Duration(o.To)), change(-1))
	}
	for _, one := range s.scenario.Scaling {
		s.agenda.plan(start.Add(time.Duration(one.At)), func(time.Time) error { return s.scale(one.Replicas) })
	}
	s.repeat(leaseInterval, func() error {
		for _, r := range s.replicas {
			r.leases.Tick(context.Background())
		}
		return nil
	})
	s.repeat(probeInterval, func() error {
		for _, r := range s.replicas {
			if err := r.probe(context.Background(), s.now); err != nil {
				return err
			}
		}
		return nil
	})
	addresses := map[string]netip.Addr{} // clients of one name and number are the same
	for i := range s.scenario.Clients {
		c := &s.scenario.Clients[i]
		for k := range c.Count {
			shown := fmt.Sprintf("%s %d", c.Name, k+1)
			if c.Shared {
				shown = c.Name
			}
			address, known := addresses[shown]
			if !known {
				address = addressOf(len(addresses) + 1)
				addresses[shown] = address
			}
			own := &client{simulation: s, clients: c, address: address, shown: shown}
			own.plan(k)
		}
	}
}

// repeat plans something again and again.
func (s *simulation) repeat(interval time.Duration, do func() error) {
	var again func(at time.Time) error
	again = func(at time.Time) error {
		s.agenda.plan(at.Add(interval), again)
		return do()
	}
	s.agenda.plan(Midnight().Add(interval), again)
}

// scale sets the number of replicas. They learn it a little later.
func (s *simulation) scale(replicas int) error {
	for len(s.replicas) < replicas {
		r, err := newReplica(s.shared, s.set, s.clock)
		if err != nil {
			return err
		}
		r.share(replicas, len(s.replicas))
		s.replicas = append(s.replicas, r)
	}
	for _, removed := range s.replicas[replicas:] { // it returns its leases, and reports what it has spent
		if err := removed.probe(context.Background(), s.now); err != nil {
			return err
		}
	}
	s.replicas = s.replicas[:replicas]
	s.agenda.plan(s.now.Add(replicasKnownAfter), func(time.Time) error {
		for rank, r := range s.replicas {
			r.share(len(s.replicas), rank)
		}
		return nil
	})
	return nil
}

// addressOf returns the address of a client.
func addressOf(number int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(number >> 16), byte(number >> 8), byte(number)})
}

// client sends requests.
type client struct {
	*simulation

	clients *Clients
	address netip.Addr
	shown   string
	rotated int
}

// plan plans the first request of the client, which has a number among the clients of its kind.
func (c *client) plan(number int) {
	from := Midnight().Add(time.Duration(c.clients.From))
	switch c.clients.Kind {
	case Bursty:
		c.agenda.plan(from, c.burst)
	case Random:
		c.agenda.plan(from.Add(c.pause()), c.regular)
	default: // the clients do not send at the same instant
		part := float64(number) / float64(c.clients.Count)
		c.agenda.plan(from.Add(time.Duration(c.interval()*part)), c.regular)
	}
}

func (c *client) isOver(at time.Time) bool {
	return !at.Before(Midnight().Add(time.Duration(c.clients.To)))
}

// burst sends several requests at the same time.
func (c *client) burst(at time.Time) error {
	if c.isOver(at) {
		return nil
	}
	c.agenda.plan(at.Add(time.Duration(c.clients.Every)), c.burst)
	for range c.clients.Burst {
		if err := c.send(at, 0); err != nil {
			return err
		}
	}
	return nil
}

// regular sends one request.
func (c *client) regular(at time.Time) error {
	if c.isOver(at) {
		return nil
	}
	c.agenda.plan(at.Add(c.pause()), c.regular)
	return c.send(at, 0)
}

// pause returns the time until the next request.
func (c *client) pause() time.Duration {
	if c.clients.Kind == Random {
		return time.Duration(c.random.ExpFloat64()*c.interval()) + 1
	}
	return max(time.Duration(c.interval()), 1)
}

// interval returns the mean time between two requests in nanoseconds, at most more than a simulation lasts: a longer one does not fit into a duration.
func (c *client) interval() float64 {
	return min(float64(time.Second)/c.clients.RequestsPerSecond, float64(2*maxDuration))
}

// send sends a request to a replica, and plans to try again if it is denied.
func (c *client) send(at time.Time, try int) error {
	if c.attempts++; c.attempts > 4*maxRequests {
		return fmt.Errorf("the clients send more than %d requests, with those that are tried again", 4*maxRequests)
	}
	address, shown := c.address, c.shown
	if c.clients.Kind == Rotating {
		c.rotated++
		address, shown = netip.AddrFrom4([4]byte{172, byte(c.rotated >> 16), byte(c.rotated >> 8), byte(c.rotated)}), c.clients.Name
	}
	check := engine.Check{
		Request: rules.Request{
			Domain: c.domain, Method: "GET", Path: "/", ClientIP: address,
			Headers: map[string]string{"x-client": shown, "x-tenant-id": c.clients.Name},
		},
		Endpoint: "check", Cost: 1,
	}
	answer, err := c.replicas[c.random.IntN(len(c.replicas))].engine.Check(context.Background(), &check)
	allowed, delay, retryAfter := err == nil && answer.Allowed, answer.Delay, limiter.Never
	if err == nil && !answer.Allowed && len(answer.Results) > 0 {
		retryAfter = answer.Results[0].RetryAfter
	}
	identifier := ""
	if err == nil && len(answer.Results) > 0 {
		identifier = answer.Results[0].Identifier
	}
	c.measured.add(at, address, identifier, allowed, delay)
	if allowed || try >= c.clients.Retries {
		return nil
	}
	switch c.clients.Retry {
	case Fixed:
		c.agenda.plan(at.Add(time.Duration(c.clients.RetryDelay)), func(at time.Time) error { return c.send(at, try+1) })
	case RetryAfter:
		if retryAfter != limiter.Never {
			spread := time.Duration(0)
			if c.clients.RetryDelay > 0 {
				spread = time.Duration(c.random.Int64N(int64(c.clients.RetryDelay)))
			}
			c.agenda.plan(at.Add(max(retryAfter, time.Millisecond)+spread), func(at time.Time) error { return c.send(at, try+1) })
		}
	case Never:
	}
	return nil
}
