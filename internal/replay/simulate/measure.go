package simulate

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/weir-dev/weir/limiter/rules"
)

// buckets is the number of points of a series.
const buckets = 240

// Result is what a scenario has shown.
type Result struct {
	Title       string `json:"title"`
	Description string `json:"description"`
	Seed        uint64 `json:"seed"`
	// DurationSeconds of the simulation, and BucketSeconds of one value of a series.
	DurationSeconds float64   `json:"durationSeconds"`
	BucketSeconds   float64   `json:"bucketSeconds"`
	Outages         []Span    `json:"outages,omitempty"`
	Variants        []Outcome `json:"variants"`
}

// Span is a part of the time, in seconds from the beginning.
type Span struct {
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

// Outcome is what a variant has shown.
type Outcome struct {
	Name string `json:"name"`
	// Limit, WindowSeconds and Algorithm are those of the first policy.
	Limit         int64  `json:"limit"`
	WindowSeconds int64  `json:"windowSeconds"`
	Algorithm     string `json:"algorithm"`
	// Requests with those that were tried again, and what became of them.
	Requests int64 `json:"requests"`
	Admitted int64 `json:"admitted"`
	Denied   int64 `json:"denied"`
	// Clients are the addresses that sent requests, and DeniedClients those of them that were denied at least once.
	Clients       int64 `json:"clients"`
	DeniedClients int64 `json:"deniedClients"`
	// MostInWindow is the largest number of requests of one identifier that were admitted within the window, wherever it begins. Admitted requests that
	// wait for their turn count when it comes.
	MostInWindow int64 `json:"mostInWindow"`
	// Bound is the largest MostInWindow that the documentation of the algorithm states while Redis is available.
	Bound int64 `json:"bound"`
	// NeedlessDenials are denied requests of identifiers that had less than 90 % of Limit admitted in the window before.
	NeedlessDenials int64 `json:"needlessDenials"`
	// Fairness is Jain's index of the admitted requests of the clients: 1 if all have equally many, and 1/n if one has all.
	Fairness float64 `json:"fairness"`
	// RedisCalls are the calls of Redis that decided requests.
	RedisCalls int64 `json:"redisCalls"`
	// Series over time: requests, admitted ones, and the largest number of requests of one identifier that were admitted in the window before.
	Offered      []int64 `json:"offered"`
	AdmittedOver []int64 `json:"admittedOver"`
	InWindow     []int64 `json:"inWindow"`
}

// measured collects the requests of a variant.
type measured struct {
	outcome *Outcome
	window  time.Duration
	bucket  time.Duration
	clients map[netip.Addr]*share
	of      map[string]*history // by identifier
}

// share is what a client was granted.
type share struct {
	admitted   int64
	denied     bool
	identifier string // under which it was counted last
}

// history is what an identifier was granted.
type history struct {
	admitted []time.Time // in order, of the last window
}

// Run simulates all variants of a scenario.
func (s *Scenario) Run(ctx context.Context) (*Result, error) {
	bucket := max(time.Duration(s.Duration)/buckets, time.Millisecond)
	r := &Result{
		Title: s.Title, Description: s.Description, Seed: s.Seed, DurationSeconds: time.Duration(s.Duration).Seconds(), BucketSeconds: bucket.Seconds(),
	}
	for _, o := range s.Outages {
		r.Outages = append(r.Outages, Span{time.Duration(o.From).Seconds(), time.Duration(o.To).Seconds()})
	}
	for i := range s.Variants {
		outcome, err := s.outcome(ctx, &s.Variants[i], bucket)
		if err != nil {
			return nil, err
		}
		r.Variants = append(r.Variants, *outcome)
	}
	return r, nil
}

func (s *Scenario) outcome(ctx context.Context, v *Variant, bucket time.Duration) (*Outcome, error) {
	rule := &v.set.Rules[0]
	n := int((time.Duration(s.Duration) + bucket - 1) / bucket)
	o := &Outcome{
		Name: v.Name, Limit: rule.Units, WindowSeconds: rule.WindowSeconds, Algorithm: string(rule.Algorithm), Bound: boundOf(rule),
		Offered: make([]int64, n), AdmittedOver: make([]int64, n), InWindow: make([]int64, n),
	}
	m := &measured{outcome: o, window: windowOf(rule), bucket: bucket, clients: map[netip.Addr]*share{}, of: map[string]*history{}}
	if err := s.run(ctx, v, m); err != nil {
		return nil, err
	}
	m.finish()
	return o, nil
}

// boundOf returns the most units that the algorithm admits within a window, see docs/concepts/algorithms.md.
func boundOf(rule *rules.Rule) int64 {
	switch traits := rule.Algorithm.Traits(); {
	case traits.Aligned: // twice, around a boundary
		return 2 * rule.Units
	case traits.Drains:
		burst := rule.Units
		if rule.Burst > 0 {
			burst = rule.Burst
		}
		return rule.Units + burst
	default:
		return rule.Units
	}
}

func windowOf(rule *rules.Rule) time.Duration { return time.Duration(rule.WindowSeconds) * time.Second }

// add counts a request. The identifier is "" if nothing has counted it.
func (m *measured) add(at time.Time, address netip.Addr, identifier string, allowed bool, delay time.Duration) {
	const tolerated = 90 // percent of the limit, from which on a denial is not needless
	o := m.outcome
	c := m.clients[address]
	if c == nil {
		c = &share{identifier: address.String()}
		m.clients[address] = c
	}
	if identifier != "" {
		c.identifier = identifier
	}
	h := m.of[c.identifier]
	if h == nil {
		h = &history{}
		m.of[c.identifier] = h
	}
	bucket := func(at time.Time) int { return int(at.Sub(Midnight()) / m.bucket) }
	o.Requests++
	o.Offered[bucket(at)]++
	if !allowed {
		o.Denied++
		c.denied = true
		if h.within(at, m.window)*100 < o.Limit*tolerated {
			o.NeedlessDenials++
		}
		return
	}
	o.Admitted++
	c.admitted++
	turn := at.Add(delay)
	h.admitted = append(h.admitted, turn)
	n := h.within(turn, m.window)
	o.MostInWindow = max(o.MostInWindow, n)
	if i := bucket(turn); i < len(o.AdmittedOver) { // else its turn comes after the end
		o.AdmittedOver[i]++
		o.InWindow[i] = max(o.InWindow[i], n)
	}
}

// within returns how many requests were admitted in the window up to an instant, and forgets the earlier ones.
func (h *history) within(at time.Time, window time.Duration) int64 {
	first := 0
	for first < len(h.admitted) && !h.admitted[first].After(at.Add(-window)) {
		first++
	}
	h.admitted = h.admitted[first:]
	return int64(len(h.admitted))
}

// finish computes what needs all requests.
func (m *measured) finish() {
	o := m.outcome
	sum, squares := 0.0, 0.0
	for _, c := range m.clients {
		o.Clients++
		if c.denied {
			o.DeniedClients++
		}
		sum += float64(c.admitted)
		squares += float64(c.admitted) * float64(c.admitted)
	}
	if o.Fairness = 1; squares > 0 {
		o.Fairness = sum * sum / (float64(o.Clients) * squares)
	}
	// Between requests, what was admitted leaves the window: the series shows the largest number up to the end of the window.
	held := int(m.window / m.bucket)
	original := slices.Clone(o.InWindow)
	for i, n := range original {
		if n > 0 {
			continue
		}
		for back := 1; back <= held && back <= i; back++ {
			if original[i-back] > 0 {
				o.InWindow[i] = original[i-back]
				break
			}
		}
	}
}
