package matching

import (
	"errors"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/expr"
	"github.com/weir-dev/weir/limiter/rules/pattern"
)

// Terms are the limit and the cost that apply to one request under a rule.
type Terms struct {
	// Limit of the request's identifier.
	Limit limiter.Limit
	// Tier is the name of the tier, or empty if no tier applies.
	Tier string
	// Unlimited is true if the rule does not charge the request.
	Unlimited bool
	// Cost of the request in units, 0 … limiter.MaxUnits.
	Cost int64
}

// Terms returns the limit of the first tier that matches r, or the limit of the rule if no tier matches, and the cost of r. If it is
// unknown whether a tier matches, because of what the client sent, its limit applies if it is lower: a client must neither get a higher
// limit nor avoid a lower one by what it sends. The identifier is the one that Identify returned. If the terms depend on how a service
// reads the path or the query, they are the strictest of all readings.
func (m Matched) Terms(r *rules.Request, identifier string) Terms {
	if len(m.Rule.tiers) == 0 && m.Rule.Cost == nil { // those of all requests
		return Terms{Limit: m.Rule.Limit, Unlimited: m.Rule.TiersOnly, Cost: defaultCost}
	}
	if !m.Rule.termsRead.IsAmbiguous(r) {
		return m.terms(r, identifier)
	}
	on := m.on // not m.activation(r), which moves the matched descriptor: m.terms does that
	if on == nil || on.Request != r {
		on = expr.NewActivation(r)
	}
	requests, complete := on.Repeated()
	terms := m.terms(&requests[0], identifier)
	for i := range requests[1:] {
		terms = stricter(terms, m.terms(&requests[1+i], identifier))
	}
	if !complete {
		terms = m.strictest(terms)
	}
	return terms
}

// stricter returns the lower limit of a and b, with the higher cost of both.
func stricter(a, b Terms) Terms {
	cost := max(a.Cost, b.Cost)
	if a.Unlimited || !b.Unlimited && b.Limit.Capacity() < a.Limit.Capacity() {
		a = b
	}
	if !a.Unlimited {
		a.Cost = cost
	}
	return a
}

// strictest returns the lowest limit of the rule and its tiers, with the cost of terms.
func (m Matched) strictest(terms Terms) Terms {
	terms = stricter(terms, Terms{Limit: m.Rule.Limit, Unlimited: m.Rule.TiersOnly, Cost: terms.Cost})
	for i := range m.Rule.tiers {
		t := &m.Rule.tiers[i]
		terms = stricter(terms, Terms{Limit: t.limit, Tier: t.Name, Unlimited: t.Unlimited, Cost: terms.Cost})
	}
	return terms
}

func (m Matched) terms(r *rules.Request, identifier string) Terms {
	terms := Terms{Limit: m.Rule.Limit, Unlimited: m.Rule.TiersOnly, Cost: 1}
	steps := pattern.MaxSteps
	var unknown []*tier
	for i := range m.Rule.tiers {
		t := &m.Rule.tiers[i]
		matches, certain := t.matches(m, r, identifier, &steps)
		if !certain {
			unknown = append(unknown, t)
			continue
		}
		if matches {
			terms.apply(t)
			break
		}
	}
	for _, t := range unknown {
		if t.isStricter(terms) {
			terms.apply(t)
		}
	}
	if !terms.Unlimited && m.Rule.Cost != nil {
		terms.Cost = m.cost(r, terms.Limit)
	}
	return terms
}

func (t *Terms) apply(selected *tier) {
	t.Tier, t.Unlimited = selected.Name, selected.Unlimited
	if !selected.Unlimited {
		t.Limit = selected.limit
	}
}

// defaultCost is the cost of a request, in units, if its cost is missing or negative, or in a header that has no number.
const defaultCost = 1

// cost returns the cost of r. A request whose content makes the expression fail costs the whole limit: with a cost of 1, a client could make
// the largest requests the cheapest.
func (m Matched) cost(r *rules.Request, limit limiter.Limit) int64 {
	cost := m.Rule.Cost
	switch {
	case cost.Header != "":
		value, _ := r.Header(cost.Header)
		return headerCost(value)
	case m.Rule.costUnits != nil:
		units, err := m.Rule.costUnits.Int(m.activation(r), &m.Rule.Rule)
		if f, failed := errors.AsType[expr.EvaluationError](err); failed && f.Absent {
			return defaultCost
		}
		if err != nil {
			return limit.Units()
		}
		return clampCost(units)
	default:
		return cost.Value
	}
}

// headerCost returns the cost in a header. The highest of several values applies, and at most MaxUnits, so that what a client adds to the header
// makes no request cheaper.
func headerCost(text string) int64 {
	cost, found := int64(0), false
	for value := range strings.SplitSeq(text, ",") {
		units, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
		if err == nil || errors.Is(err, strconv.ErrRange) {
			cost, found = max(cost, int64(min(units, uint64(limiter.MaxUnits)))), true
		}
	}
	if !found {
		return defaultCost
	}
	return cost
}

// clampCost returns the cost for the result of a cost expression: at most MaxUnits. If larger results were invalid, the largest requests
// would be the cheapest.
func clampCost(units int64) int64 {
	if units < 0 {
		return defaultCost
	}
	return min(units, limiter.MaxUnits)
}
