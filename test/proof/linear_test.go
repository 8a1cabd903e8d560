package proof

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/test/fixture"
)

const (
	callers        = 12
	callsPerCaller = 250 // in a round
	checkTimeout   = 30 * time.Second
)

// group has the keys that one call can use together. No call uses keys of two groups.
type group []limiter.Charge

// groups returns a group for each algorithm, and some with several algorithms. The limits are small, so that most calls are
// near them, and the windows are short, so that a history has several.
func groups(t testing.TB, identifier string) []group {
	t.Helper()
	var single []group
	charge := func(policy string, c counter) limiter.Charge { return c.charge(t, identifier, policy) }
	all := withCompact(counters(6, time.Second, 4, time.Microsecond))
	for _, c := range all {
		single = append(single, group{charge("single", c)})
	}
	return append(single,
		group{charge("two", all[0]), charge("two", all[1])},
		group{charge("three", all[2]), charge("three", all[3]), charge("three", all[4])},
		group{charge("five", all[0]), charge("five", all[1]), charge("five", all[2]), charge("five", all[3]), charge("five", all[4])},
		group{charge("compact", all[5]), charge("compact", all[1]), charge("compact", all[6])},
	)
}

// recorder makes calls on a Store and records the operations and their results.
type recorder struct {
	began time.Time

	mu       sync.Mutex
	history  []porcupine.Operation
	spent    []limiter.Refund // can be refunded
	groupsOf []int            // of spent
}

// call makes one call and records it.
func (r *recorder) call(caller, group int, q operation, call func() ([]limiter.Decision, error)) error {
	began := time.Since(r.began)
	q.called = limiter.Instant(micros())
	decisions, err := call()
	q.returned = limiter.Instant(micros())
	ended := time.Since(r.began)
	if err != nil {
		return fmt.Errorf("%s: %w", q.kind, err)
	}
	for i, d := range decisions {
		if d.At != decisions[0].At || d.At < q.called || d.At > q.returned {
			return fmt.Errorf("%s between %d and %d: charge %d was decided at %d, the first one at %d", q.kind, q.called, q.returned, i, d.At, decisions[0].At)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, porcupine.Operation{
		ClientId: caller, Input: q, Call: began.Nanoseconds(), Output: decisions, Return: ended.Nanoseconds(), Metadata: group,
	})
	if q.kind == "spend" && isCounted(q.charges, decisions) {
		for i, c := range q.charges {
			if decisions[i].Allowed && c.Cost > 0 {
				r.spent = append(r.spent, limiter.Refund{Key: c.Key, Limit: c.Limit, Cost: c.Cost, At: decisions[i].At})
				r.groupsOf = append(r.groupsOf, group)
			}
		}
	}
	return nil
}

// recentSpend returns one of the last ten spends.
func (r *recorder) recentSpend() (refund limiter.Refund, group int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.spent) == 0 {
		return limiter.Refund{}, 0, false
	}
	i := len(r.spent) - 1 - rand.IntN(min(10, len(r.spent)))
	return r.spent[i], r.groupsOf[i], true
}

// randomCall makes a random call on a random group.
func (r *recorder) randomCall(ctx context.Context, caller int, store limiter.Store, all []group) error {
	group := rand.IntN(len(all))
	switch n := rand.IntN(20); {
	case n == 0:
		key := all[group][rand.IntN(len(all[group]))].Key
		return r.call(caller, group, operation{kind: "reset", key: key}, func() ([]limiter.Decision, error) {
			return nil, store.Reset(ctx, []string{key}, "")
		})
	case n < 4:
		refund, group, ok := r.recentSpend()
		if !ok {
			return nil
		}
		refund.Cost = 1 + rand.Int64N(refund.Cost)
		return r.call(caller, group, operation{kind: "refund", refund: refund}, func() ([]limiter.Decision, error) {
			return nil, store.Refund(ctx, []limiter.Refund{refund})
		})
	case n < 8:
		charges := randomCharges(all[group])
		return r.call(caller, group, operation{kind: "peek", charges: charges}, func() ([]limiter.Decision, error) {
			return store.Peek(ctx, charges)
		})
	default:
		charges := randomCharges(all[group])
		return r.call(caller, group, operation{kind: "spend", charges: charges}, func() ([]limiter.Decision, error) {
			return store.Spend(ctx, charges)
		})
	}
}

// randomCharges returns one or more charges of a group in any order. A few of them are shadow charges.
func randomCharges(g group) []limiter.Charge {
	charges := slices.Clone(g)
	rand.Shuffle(len(charges), func(i, j int) { charges[i], charges[j] = charges[j], charges[i] })
	charges = charges[:1+rand.IntN(len(charges))]
	for i := range charges {
		charges[i].Cost = 1 + rand.Int64N(3)
		charges[i].Shadow = rand.IntN(6) == 0
	}
	return charges
}

// record runs callers that make random calls at the same time, each on one of the stores, and returns the history.
func record(ctx context.Context, stores []limiter.Store, all []group, callers, calls int) ([]porcupine.Operation, error) {
	r := &recorder{began: time.Now()}
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for n := 0; n < calls && errs[caller] == nil; n++ {
				errs[caller] = r.randomCall(ctx, caller, stores[caller%len(stores)], all)
				time.Sleep(rand.N(10 * time.Millisecond)) // so that windows end
			}
		})
	}
	wg.Wait()
	return r.history, errors.Join(errs...)
}

// groupOf returns the group of an operation.
func groupOf(o porcupine.Operation) string { return fmt.Sprintf("group %v", o.Metadata) }

func TestStore_IsLinearizable(t *testing.T) {
	server := fixture.Redis(t)
	checkClock(t, server)
	var stores []limiter.Store
	for range replicas {
		stores = append(stores, redisstore.NewStore(open(t, server.URL(), longTimeout), longTimeout))
	}
	rounds(t, func(round int) {
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { flushScripts(ctx, t, server) })
		history, err := record(t.Context(), stores, groups(t, strconv.Itoa(round)), callers, callsPerCaller)
		stop()
		wg.Wait()
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := checkLinearizable(history, groupOf, checkTimeout); err != nil {
			t.Error(err)
		}
		t.Logf("%d calls checked in %v", len(history), time.Since(began))
	})
}

// flushScripts flushes the scripts of Redis repeatedly. No call must fail because of that.
func flushScripts(ctx context.Context, t *testing.T, server *fixture.RedisProcess) {
	t.Helper()
	ticks := time.NewTicker(disturbEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		if _, err := server.Do(t.Context(), "SCRIPT", "FLUSH"); err != nil {
			t.Errorf("SCRIPT FLUSH: %v", err)
		}
	}
}
