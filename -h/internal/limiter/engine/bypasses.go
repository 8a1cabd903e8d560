package engine

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/go/internal/limiter"
	"github.com/weir-dev/weir/go/internal/limiter/bypass"
	"github.com/weir-dev/weir/go/internal/limiter/rules/matching"
)

// WithBypasses makes the Engine let requests pass the policies that list has a bypass for: such a policy does not count the request. It denies
// those that list has a block for.
func WithBypasses(list *bypass.List) Option {
	return func(e *Engine) { e.bypasses = list }
}

// isOverridden reports whether a bypass lets the request pass the rule, and records it in s, or a block denies it, and appends the charge to s.
func (a *active) isOverridden(s *scratch, active *bypass.Active, m *matching.Matched, identifier string, c *Check) bool {
	find := identifier
	switch {
	case identifier == "":
		identifier = limiter.Missing
		if m.Unreadable(&c.Request) {
			identifier = limiter.Unreadable
		}
		find = identifier
	case limiter.IsPlaceholder(identifier): // a client sent this text: only a bypass for all identifiers applies
		find = ""
	}
	found := active.Find(m.Rule.PolicyName(), find)
	if found == nil {
		return false
	}
	if found.Blocks {
		r := ruleCharge{rule: m.Rule, identifier: identifier, by: found, wait: active.Left(found)}
		r.charge = limiter.Charge{
			Limit: m.Rule.Limit.WithoutUnits(), Cost: c.Cost, Shadow: m.Rule.Shadow, Rule: m.Rule.Counted(), Endpoint: m.CountedEndpoint(),
			Alternative: c.Alternative, Placeholder: limiter.IsPlaceholder(identifier),
		}
		r.block(m)
		s.charged = append(s.charged, r)
		return true
	}
	s.bypassed = append(s.bypassed, bypassedBy{Bypassed{Rule: m.Rule, Identifier: identifier, By: found}, len(s.ends)})
	if !c.Peek {
		a.counters.bypassed(m.Rule)
	}
	return true
}

// bypassedBy is a Bypassed of a request of a call, by its index.
type bypassedBy struct {
	Bypassed

	request int
}

// bypassedOf returns the bypassed rules of request i.
func (s *scratch) bypassedOf(i int) (bypassed []Bypassed) {
	for _, b := range s.bypassed {
		if b.request == i {
			bypassed = append(bypassed, b.Bypassed)
		}
	}
	return bypassed
}

// unlimited returns the answer to request i of the call, which no rule counts. Such a request has a decision only if a rule is bypassed.
func (e *Engine) unlimited(active *active, s *scratch, i int, c *Check) Answer {
	answer := active.unlimited()
	if answer.Bypassed = s.bypassedOf(i); len(answer.Bypassed) == 0 {
		e.metrics.unmatched()
	} else if !c.Peek {
		e.observe(c, &answer, true)
	}
	return answer
}

func newBypassedTotal() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_bypassed_total",
		Help: "Requests that a policy matched and did not count, because a bypass let their identifiers pass.",
	}, []string{"policy"})
}
