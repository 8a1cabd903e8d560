package proof

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weir-dev/weir/limiter"
)

// The sequential model is the pure algorithms, one State for every key, and the time.
//
// A call of Spend or Peek says at which instant it was decided, so a step of the model is taken then or not at all, and
// must give the very same decisions. Time does not run backwards from one step to the next. Refund and Reset do not say
// when: only that it was between call and return. For a Reset it makes no difference. Nor for a Refund under the window
// algorithms: what it takes back once the units have left their window, no later decision sees. In a bucket it matters how
// many whole units of the cost are left, so there is a step for every such number, at the first instant that has it.

// question is the input of an operation.
type question struct {
	kind    string // spend, peek, refund or reset
	charges []limiter.Charge
	refund  limiter.Refund
	key     string // to reset
	// called and returned bound when it was decided. Only a refund's are needed, which does not answer when.
	called, returned limiter.Instant
}

// twin is a state of the model. It is never changed, for there are many at once: what was done is played anew on fresh
// States, which have no copies.
type twin struct {
	now  limiter.Instant
	keys map[string]*deed // the latest on each
}

// deed is something that was done to a counter.
type deed struct {
	before *deed
	limit  limiter.Limit
	do     func(limiter.State)
}

// play returns the State of a key after all deeds on it.
func (t *twin) play(key string, limit limiter.Limit) limiter.State {
	var deeds []*deed
	for d := t.keys[key]; d != nil; d = d.before {
		deeds = append(deeds, d)
	}
	state := limit.NewState()
	for _, d := range slices.Backward(deeds) {
		d.do(state)
	}
	return state
}

// with returns the twin after a deed.
func (t *twin) with(key string, limit limiter.Limit, do func(limiter.State)) *twin {
	next := &twin{now: t.now, keys: maps.Clone(t.keys)}
	next.keys[key] = &deed{before: t.keys[key], limit: limit, do: do}
	return next
}

// at returns the twin later.
func (t *twin) at(now limiter.Instant) *twin { return &twin{now: now, keys: t.keys} }

// model is what histories are held to, each on one group of keys.
func model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{&twin{keys: map[string]*deed{}}} },
		Step: func(state, input, output any) []any {
			t, q := as[*twin](state), as[question](input)
			switch q.kind {
			case "spend", "peek":
				return t.decide(q, as[[]limiter.Decision](output))
			case "refund":
				return t.refund(q)
			default:
				return t.reset(q)
			}
		},
		Equal: func(a, b any) bool { return as[*twin](a).equal(as[*twin](b)) },
	}
	return m.ToModel()
}

func as[T any](value any) T {
	return value.(T) //nolint:forcetypeassert // porcupine hands back what it was given
}

// decide takes the step of a spend or a peek, if it gives the decisions that were answered.
func (t *twin) decide(q question, answered []limiter.Decision) []any {
	now := answered[0].At
	if now < t.now {
		return nil
	}
	states := make([]limiter.State, len(q.charges))
	for i, c := range q.charges {
		states[i] = t.play(c.Key, c.Limit)
	}
	ask := limiter.Peek
	if q.kind == "spend" {
		ask = limiter.Spend
	}
	if !slices.Equal(ask(now, q.charges, states), answered) {
		return nil
	}
	next := t.at(now)
	if q.kind == "spend" && passes(q.charges, answered) {
		for i, c := range q.charges {
			if answered[i].Allowed && c.Cost > 0 {
				next = next.with(c.Key, c.Limit, func(s limiter.State) { s.Spend(now, c.Limit, c.Cost) })
			}
		}
	}
	return []any{next}
}

// passes says whether a request was counted.
func passes(charges []limiter.Charge, decisions []limiter.Decision) bool {
	for i, c := range charges {
		if !c.Shadow && !decisions[i].Allowed {
			return false
		}
	}
	return true
}

func (t *twin) reset(q question) []any {
	next := &twin{now: max(t.now, q.called), keys: maps.Clone(t.keys)}
	delete(next.keys, q.key)
	return []any{next}
}

// refund takes one step for every whole number of units that may have been left.
func (t *twin) refund(q question) []any {
	r := q.refund
	var next []any
	for _, now := range q.moments(max(t.now, q.called)) {
		next = append(next, t.at(now).with(r.Key, r.Limit, func(s limiter.State) { s.Refund(now, r.Limit, r.Cost, r.At) }))
	}
	return next
}

// moments are the first instant from which a refund may have been decided, and until it returned every one at which another
// of its units has begun to leave a bucket.
func (q question) moments(first limiter.Instant) []limiter.Instant {
	moments := []limiter.Instant{first}
	r := q.refund
	if a := r.Limit.Algorithm(); a != limiter.TokenBucket && a != limiter.LeakyBucket {
		return moments
	}
	for left := r.Cost; left > 0; left-- {
		drained := (r.Cost - left) * r.Limit.Window().Microseconds() / r.Limit.Units()
		if now := r.At + limiter.Instant(drained) + 1; now > first && now <= q.returned {
			moments = append(moments, now)
		}
	}
	return moments
}

// equal says whether two twins will decide alike for ever.
func (t *twin) equal(other *twin) bool {
	if t.now != other.now || len(t.keys) != len(other.keys) {
		return false
	}
	for key, d := range t.keys {
		o, ok := other.keys[key]
		if !ok || (d != o && !reflect.DeepEqual(t.play(key, d.limit), other.play(key, o.limit))) {
			return false
		}
	}
	return true
}

// check holds a history to the model, and tells of the first group that does not fit.
func check(history []porcupine.Operation, groups func(porcupine.Operation) string, patience time.Duration) error {
	byGroup := map[string][]porcupine.Operation{}
	for _, operation := range history {
		group := groups(operation)
		byGroup[group] = append(byGroup[group], operation)
	}
	for _, group := range slices.Sorted(maps.Keys(byGroup)) {
		operations := byGroup[group]
		switch porcupine.CheckOperationsTimeout(model(), operations, patience) {
		case porcupine.Ok:
		case porcupine.Unknown:
			return fmt.Errorf("whether %d calls on %s are linearizable was not known after %v", len(operations), group, patience)
		default:
			return &linearityError{group: group, operations: operations}
		}
	}
	return nil
}

// linearityError tells of calls that no sequence of calls explains.
type linearityError struct {
	group      string
	operations []porcupine.Operation
}

func (e *linearityError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d calls on %s are not linearizable, in the order of their calls:", len(e.operations), e.group)
	sorted := slices.SortedFunc(slices.Values(e.operations), func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	for _, o := range sorted {
		fmt.Fprintf(&b, "\n%d … %d: %+v: %+v", o.Call, o.Return, o.Input, o.Output)
	}
	return b.String()
}
