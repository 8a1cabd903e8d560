package compile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// Warning is what of a policy that is enforced is costly or useless.
type Warning struct {
	Field   string // "spec.limit"
	Message string
}

// String reads "spec.limit: a log of …".
func (w Warning) String() string { return w.Field + ": " + w.Message }

// Warn says what of a rule is costly or useless, field by field, and what the others, among which the rule itself may be,
// make useless of it. It says only what follows from the policies themselves: of requests it knows nothing.
func Warn(rule *rules.Rule, others []rules.Rule) []Warning {
	w := &warnings{rule: rule}
	w.aboutMemory()
	w.aboutBoundary()
	w.aboutOthers(others)
	w.aboutIdentifier()
	w.aboutMatch()
	w.aboutWrites()
	w.aboutTiers()
	w.aboutCost()
	return w.all
}

// warnings collects what there is to say about one rule.
type warnings struct {
	rule *rules.Rule
	all  []Warning
}

func (w *warnings) add(field, format string, args ...any) {
	w.all = append(w.all, Warning{Field: field, Message: fmt.Sprintf(format, args...)})
}

const (
	logBytes = 7      // of Redis's memory that a SlidingWindowLog keeps for a unit, as docs/concepts/algorithms.md has it
	bigLog   = 10_000 // units, from which on one identifier's log takes 70 kB
)

// aboutMemory warns of logs that take far more than the counters of any other algorithm.
func (w *warnings) aboutMemory() {
	if w.rule.Algorithm != limiter.SlidingWindowLog {
		return
	}
	field, units := w.most()
	if units < bigLog {
		return
	}
	w.add(field, "a log of %d units takes %s of Redis per identifier; SlidingWindowCounter takes 16 bytes", units, size(units*logBytes))
}

// most returns the greatest limit of the rule, and its field.
func (w *warnings) most() (field string, units int64) {
	field, units = "spec.limit", w.rule.Units
	for i := range w.rule.Tiers {
		if tier := &w.rule.Tiers[i]; tier.Units > units {
			field, units = tierField(i, "limit"), tier.Units
		}
	}
	return field, units
}

func size(bytes int64) string {
	const kilo, mega = 1_000, 1_000_000
	if bytes >= mega {
		return fmt.Sprintf("%.1f MB", float64(bytes)/mega)
	}
	return fmt.Sprintf("%d kB", bytes/kilo)
}

// aboutBoundary warns of what a fixed window is known for.
func (w *warnings) aboutBoundary() {
	if w.rule.Algorithm == limiter.FixedWindow {
		w.add("spec.algorithm", "FixedWindow lets up to %d units pass within moments around the end of a window", 2*w.rule.Units)
	}
}

// aboutOthers names one other rule that leaves this one nothing to decide: more would help no further.
func (w *warnings) aboutOthers(others []rules.Rule) {
	for i := range others {
		if other := &others[i]; other.Policy != w.rule.Policy && DecidesNothingBeside(w.rule, other) {
			w.add("spec", "never decides: policy %s counts the same requests and is as strict", nameWithin(w.rule.Domain, other.Policy))
			return
		}
	}
}

// nameWithin leaves out the namespace that both policies are in.
func nameWithin(domain, policy string) string { return strings.TrimPrefix(policy, domain+"/") }

// aboutIdentifier warns of a descriptor's key that no matching descriptor has. The identifier is then taken from another
// descriptor of the request, if one has the key.
func (w *warnings) aboutIdentifier() {
	id, entries := w.rule.Identifier, w.rule.Match.Descriptors
	if id.From != rules.FromDescriptor || len(entries) == 0 {
		return
	}
	if !slices.ContainsFunc(entries, func(e rules.DescriptorMatch) bool { return e.Key == id.Name }) {
		w.add("spec.identifier.descriptor", "the descriptors of match have no key %q; without it all are counted as one", id.Name)
	}
}

// aboutMatch warns of a match that no request can meet.
func (w *warnings) aboutMatch() {
	m := &w.rule.Match
	if len(m.CIDRs) > 0 && allWithin(m.CIDRs, m.ExceptCIDRs) {
		w.add("spec.match.http.exceptCIDRs", "no request matches: they cover all of cidrs")
	}
	for i, header := range m.Headers {
		opposite := header
		opposite.Invert = !header.Invert
		if slices.Contains(m.Headers[:i], opposite) {
			w.add("spec.match.http.headers", "no request matches: header %s must match and must not", header.Name)
			return
		}
	}
}

// aboutCost warns of limits that a single request is always above.
func (w *warnings) aboutCost() {
	if w.rule.Cost == nil || w.rule.Cost.Value == 0 {
		return
	}
	cost := w.rule.Cost.Value
	w.aboutOneCost("spec.limit", *w.rule, cost)
	for i := range w.rule.Tiers {
		if tier := &w.rule.Tiers[i]; !tier.Unlimited {
			held := *w.rule
			held.Units, held.Burst = tier.Units, tier.Burst
			w.aboutOneCost(tierField(i, "limit"), held, cost)
		}
	}
}

func (w *warnings) aboutOneCost(field string, held rules.Rule, cost int64) {
	limit, err := held.Limit()
	if err == nil && cost > limit.Capacity() { // the compiler has seen to it that there is no error
		w.add(field, "denies every request: one costs %d units, and never more than %d are admitted at once", cost, limit.Capacity())
	}
}

func tierField(i int, name string) string { return fmt.Sprintf("spec.tiers[%d].%s", i, name) }
