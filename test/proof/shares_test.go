package proof

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/test/proof/promise"
)

// A model of local mode that compares ways to divide what is left of a limit among replicas, see docs/adr/0116. A replica knows what the store
// replied to it, and which units it admitted itself. The model has no recovery: the outage lasts until the end of a history.

const (
	modelUnits = 120
	// modelScale is the number of model units in a unit: a weight of 5/8 makes a unit cost 8/5.
	modelScale   = 48
	modelWindow  = 10 * time.Second
	modelWindows = 7 // of a history
	lostReplies  = 0.05
)

// weightRule returns the part of what is left of a limit that a replica of R admits. It has admitted own of the known units of the present window and
// the one before it.
type weightRule func(own, known, r int64) float64

func weightRules() map[string]weightRule {
	equal := func(_, _, r int64) float64 { return 1 / float64(r) }
	return map[string]weightRule{
		"equal": equal,
		"fraction of the units": func(own, known, r int64) float64 {
			if known == 0 {
				return equal(own, known, r)
			}
			return float64(own) / float64(known)
		},
		"half equal, half by fraction": func(own, known, r int64) float64 {
			weight := equal(own, known, r) / 2
			if known > 0 {
				weight += float64(own) / float64(known) / 2
			}
			return weight
		},
		"all for a sole replica": func(own, known, r int64) float64 {
			if known > 0 && own == known {
				return 1
			}
			return equal(own, known, r)
		},
		"whole": func(int64, int64, int64) float64 { return 1 },
	}
}

// modelClient picks the replica of a request: before the outage, by the part of this time that has passed, and during it.
type modelClient struct {
	before func(random *rand.Rand, passed float64, r int) int // -1: no request
	during func(random *rand.Rand, r int) int
}

func modelClients() map[string]modelClient {
	sticky := func(*rand.Rand, float64, int) int { return 0 }
	roams := func(random *rand.Rand, r int) int { return random.IntN(r) }
	return map[string]modelClient{
		"sticky":  {sticky, func(*rand.Rand, int) int { return 0 }},
		"roaming": {func(random *rand.Rand, _ float64, r int) int { return random.IntN(r) }, roams},
		"new":     {func(*rand.Rand, float64, int) int { return -1 }, roams},
		"moving":  {sticky, roams},
		"travelling": {func(random *rand.Rand, passed float64, r int) int { // each replica sees it for a while, the last one last
			if passed < 0.9 || random.IntN(10) > 0 {
				return -1
			}
			return min(int((passed-0.9)*10*float64(r)), r-1)
		}, roams},
	}
}

// modelReplica is what a replica knows.
type modelReplica struct {
	state limiter.State // of the counter
	cost  int64         // of a unit in the outage, in model units
	// own and known are the units of each window that this replica and all replicas admitted. The model store replies them.
	own, known unitsOfWindows
	// unknown and gap are as in outageReplica.
	unknown, gap int64
}

// unitsOfWindows are the units of the windows of a history.
type unitsOfWindows [modelWindows]int64

// recent returns the units of a window and the one before it.
func (u *unitsOfWindows) recent(window int) int64 { return u[window] + u[max(window-1, 0)] }

type shareModel struct {
	limit, scaled limiter.Limit
	begin         limiter.Instant
	store         limiter.State
	admitted      unitsOfWindows
	replicas      []modelReplica
	log           promise.Log
}

func modelLimit(t *testing.T, algorithm limiter.Algorithm, units int64) limiter.Limit {
	t.Helper()
	limit, err := limiter.NewLimit(algorithm, units, modelWindow)
	if err == nil && algorithm == limiter.LeakyBucket {
		limit, err = limit.WithBurst(units - units/modelUnits)
	}
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

func newShareModel(t *testing.T, algorithm limiter.Algorithm, r int) *shareModel {
	t.Helper()
	m := &shareModel{limit: modelLimit(t, algorithm, modelUnits), scaled: modelLimit(t, algorithm, modelUnits*modelScale)}
	m.begin, m.store = limiter.At(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)), m.scaled.NewState()
	for range r {
		m.replicas = append(m.replicas, modelReplica{state: m.scaled.NewCoarseState()})
	}
	return m
}

func (m *shareModel) window(now limiter.Instant) int { return int(now.Sub(m.begin) / modelWindow) }

// spend spends a unit on a state and reports whether it fits.
func (m *shareModel) spend(now limiter.Instant, s limiter.State, cost int64) bool {
	if !s.Decide(now, m.scaled, cost).Allowed {
		return false
	}
	s.Spend(now, m.scaled, cost)
	return true
}

// beforeOutage lets the store decide a request of a replica. The reply can be lost: then the replica counts the unit on what it knows.
func (m *shareModel) beforeOutage(now limiter.Instant, at int, lost bool) bool {
	r := &m.replicas[at]
	admitted, window := m.spend(now, m.store, modelScale), m.window(now)
	if admitted {
		m.admitted[window]++
		r.own[window]++
		for i := range m.replicas {
			if i != at {
				m.replicas[i].unknown++
			}
		}
	}
	if lost {
		if admitted {
			r.known[window]++
			m.spend(now, r.state, modelScale)
		}
		return admitted
	}
	r.known = m.admitted
	decision := m.store.Decide(now, m.scaled, 0)
	newest := now
	if m.limit.Traits().Log {
		newest = min(now, now.Add(decision.ResetAfter-modelWindow))
	}
	r.state.Assume(now, m.scaled, m.scaled.Capacity()-decision.Remaining, newest)
	r.gap, r.unknown = max(r.gap, r.unknown), 0
	return admitted
}

// play plays a client whose requests exceed the limit several times, with an outage from the third window on. It returns what is
// admitted in a window of it, in parts of the limit.
func (m *shareModel) play(random *rand.Rand, c modelClient, rule weightRule) float64 {
	const requests = 4 * modelUnits // in a window
	outage := m.begin.Add(3*modelWindow - time.Duration(random.Int64N(int64(modelWindow))))
	now, isOutage, admittedInOutage := m.begin, false, 0
	for now < m.begin.Add(modelWindows*modelWindow) {
		now = now.Add(time.Duration(random.ExpFloat64() / requests * float64(modelWindow)))
		if now >= outage && !isOutage {
			isOutage = true
			m.weigh(now, rule)
		}
		var admitted bool
		if isOutage {
			r := &m.replicas[c.during(random, len(m.replicas))]
			admitted = m.spend(now, r.state, r.cost)
		} else {
			at := c.before(random, float64(now-m.begin)/float64(outage-m.begin), len(m.replicas))
			if at < 0 {
				continue
			}
			admitted = m.beforeOutage(now, at, random.Float64() < lostReplies)
		}
		entry := promise.Request{From: int64(now), To: int64(now), Units: 1, Outcome: promise.Denied}
		if admitted {
			entry.Outcome = promise.Admitted
			if now >= m.begin.Add(4*modelWindow) {
				admittedInOutage++
			}
		}
		m.log = append(m.log, entry)
	}
	return float64(admittedInOutage) / float64((modelWindows-4)*modelUnits)
}

// weigh sets what a unit costs on each replica in the outage.
func (m *shareModel) weigh(now limiter.Instant, rule weightRule) {
	for i := range m.replicas {
		r := &m.replicas[i]
		weight := rule(r.own.recent(m.window(now)), r.known.recent(m.window(now)), int64(len(m.replicas)))
		r.cost = m.scaled.Capacity() + 1
		if weight > 0 {
			r.cost = min(r.cost, max(modelScale, int64(float64(modelScale)/weight)))
		}
	}
}

// bound is that of docs/concepts/local-mode.md, without the terms of the recovery.
func (m *shareModel) bound() int64 {
	r, sum := int64(len(m.replicas)), int64(0)
	for i := range m.replicas {
		sum += min(2*max(m.replicas[i].gap, m.replicas[i].unknown), m.limit.Capacity())
	}
	bound := (sum+r-1)/r + r - 1
	if m.limit.Traits().Log {
		bound += (m.limit.Units() + 63) / 64
	}
	return bound
}

// Of these ways to divide a limit, only equal shares hold the bound. The others admit more to a client that moves, and some of them less to a client
// that is new.
func TestShares_OnlyEqualSharesHoldTheBound(t *testing.T) {
	for name, rule := range weightRules() {
		holds, report := true, []string(nil)
		for _, what := range []string{"sticky", "roaming", "new", "moving", "travelling"} {
			least, most := math.Inf(1), 0.0 // with 4 replicas, of the limit
			for _, algorithm := range limiter.Algorithms() {
				for r := 1; r <= 8; r++ {
					m := newShareModel(t, algorithm, r)
					admitted := m.play(rand.New(rand.NewPCG(uint64(r), 1)), modelClients()[what], rule)
					holds = holds && m.unitsOver() <= m.bound()
					if r == 4 {
						least, most = min(least, admitted), max(most, admitted)
					}
				}
			}
			report = append(report, fmt.Sprintf("%s %.0f to %.0f %%", what, 100*least, 100*most))
		}
		t.Logf("%s: holds the bound: %t; 4 replicas admit, of the limit, in a window of the outage: %s", name, holds, strings.Join(report, ", "))
		if holds != (name == "equal") {
			t.Errorf("%s: holds the bound: %t", name, holds)
		}
	}
}

// unitsOver returns by how many units the log exceeds the promise.
func (m *shareModel) unitsOver() int64 {
	run := outageRun{limit: m.limit, log: m.log}
	return run.unitsOver()
}
