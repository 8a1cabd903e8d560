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

// The sequential model is the algorithms of package limiter with one State for each key, and the time.
//
// The result of Spend or Peek contains the instant of the decision. So a step of the model happens at that instant or not at
// all, and must have the same decisions. Time does not go backwards from one step to the next. Refund and Reset return no
// instant: it is between call and return. For a Reset it does not matter, nor for a Refund of a window algorithm: after the
// units have left their window, a refund changes no decision. For a bucket, the number of whole units of the cost that have not
// drained matters. So there is a step for each such number, at its first instant.

// operation is the input of a porcupine.Operation.
type operation struct {
	kind    string // spend, peek, refund or reset
	charges []limiter.Charge
	refund  limiter.Refund
	key     string // to reset
	// called and returned bound the instant of the decision. Only a refund needs them, because it returns no instant.
	called, returned limiter.Instant
}

// modelState is a state of the model. It is immutable, because the checker keeps many of them: a State cannot be copied, so
// the changes are replayed on a new State.
type modelState struct {
	now  limiter.Instant
	keys map[string]*change // the last change of each key
}

// change is a change of a counter.
type change struct {
	previous *change
	limit    limiter.Limit
	do       func(limiter.State)
}

// replay returns the State of a key after all its changes.
func (t *modelState) replay(key string, limit limiter.Limit) limiter.State {
	var changes []*change
	for d := t.keys[key]; d != nil; d = d.previous {
		changes = append(changes, d)
	}
	state := limit.NewState()
	for _, d := range slices.Backward(changes) {
		d.do(state)
	}
	return state
}

// with returns the state after a change.
func (t *modelState) with(key string, limit limiter.Limit, do func(limiter.State)) *modelState {
	next := &modelState{now: t.now, keys: maps.Clone(t.keys)}
	next.keys[key] = &change{previous: t.keys[key], limit: limit, do: do}
	return next
}

// at returns the state at a later time.
func (t *modelState) at(now limiter.Instant) *modelState { return &modelState{now: now, keys: t.keys} }

// model returns the model for histories of one group of keys.
func model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{&modelState{keys: map[string]*change{}}} },
		Step: func(state, input, output any) []any {
			t, q := as[*modelState](state), as[operation](input)
			switch q.kind {
			case "spend", "peek":
				return t.decide(q, as[[]limiter.Decision](output))
			case "refund":
				return t.refund(q)
			default:
				return t.reset(q)
			}
		},
		Equal: func(a, b any) bool { return as[*modelState](a).equal(as[*modelState](b)) },
	}
	return m.ToModel()
}

func as[T any](value any) T {
	return value.(T) //nolint:forcetypeassert // porcupine returns the values of model
}

// decide returns the state after a spend or a peek, if it has these decisions.
func (t *modelState) decide(q operation, decisions []limiter.Decision) []any {
	now := decisions[0].At
	if now < t.now {
		return nil
	}
	states := make([]limiter.State, len(q.charges))
	for i, c := range q.charges {
		states[i] = t.replay(c.Key, c.Limit)
	}
	decide := limiter.Peek
	if q.kind == "spend" {
		decide = limiter.Spend
	}
	if !slices.Equal(decide(now, q.charges, states), decisions) {
		return nil
	}
	next := t.at(now)
	if q.kind == "spend" && isCounted(q.charges, decisions) {
		for i, c := range q.charges {
			if decisions[i].Allowed && c.Cost > 0 {
				next = next.with(c.Key, c.Limit, func(s limiter.State) { s.Spend(now, c.Limit, c.Cost) })
			}
		}
	}
	return []any{next}
}

// isCounted reports whether a request was counted.
func isCounted(charges []limiter.Charge, decisions []limiter.Decision) bool {
	for i, c := range charges {
		if !c.Shadow && !decisions[i].Allowed {
			return false
		}
	}
	return true
}

func (t *modelState) reset(q operation) []any {
	next := &modelState{now: max(t.now, q.called), keys: maps.Clone(t.keys)}
	delete(next.keys, q.key)
	return []any{next}
}

// refund returns one state for each number of whole units that may not have drained yet.
func (t *modelState) refund(q operation) []any {
	r := q.refund
	var next []any
	for _, now := range q.instants(max(t.now, q.called)) {
		next = append(next, t.at(now).with(r.Key, r.Limit, func(s limiter.State) { s.Refund(now, r.Limit, r.Cost, r.At) }))
	}
	return next
}

// instants returns the first instant at which a refund may have been decided, and each later one, until it returned, at which
// another of its units starts to drain from a bucket.
func (q operation) instants(first limiter.Instant) []limiter.Instant {
	instants := []limiter.Instant{first}
	r := q.refund
	if a := r.Limit.Algorithm(); a != limiter.TokenBucket && a != limiter.LeakyBucket {
		return instants
	}
	for left := r.Cost; left > 0; left-- {
		drained := (r.Cost - left) * r.Limit.Window().Microseconds() / r.Limit.Units()
		if now := r.At + limiter.Instant(drained) + 1; now > first && now <= q.returned {
			instants = append(instants, now)
		}
	}
	return instants
}

// equal reports whether two states will always have the same decisions.
func (t *modelState) equal(other *modelState) bool {
	if t.now != other.now || len(t.keys) != len(other.keys) {
		return false
	}
	for key, d := range t.keys {
		o, ok := other.keys[key]
		if !ok || (d != o && !reflect.DeepEqual(t.replay(key, d.limit), other.replay(key, o.limit))) {
			return false
		}
	}
	return true
}

// checkLinearizable checks a history with the model, and returns an error for the first group that is not linearizable.
func checkLinearizable(history []porcupine.Operation, groups func(porcupine.Operation) string, timeout time.Duration) error {
	byGroup := map[string][]porcupine.Operation{}
	for _, operation := range history {
		group := groups(operation)
		byGroup[group] = append(byGroup[group], operation)
	}
	for _, group := range slices.Sorted(maps.Keys(byGroup)) {
		operations := byGroup[group]
		switch porcupine.CheckOperationsTimeout(model(), operations, timeout) {
		case porcupine.Ok:
		case porcupine.Unknown:
			return fmt.Errorf("check whether %d calls on %s are linearizable: no result after %v", len(operations), group, timeout)
		default:
			return &linearityError{group: group, operations: operations}
		}
	}
	return nil
}

// linearityError describes calls that no sequence of calls explains.
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
