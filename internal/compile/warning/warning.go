// Package warning finds the parts of valid policies that are expensive, have no effect, or contain secrets in plain text.
package warning

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/internal/lintrule"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/policyname"
)

// Warning is a part of a valid policy that is expensive or has no effect.
type Warning struct {
	Rule    string // of weir lint, see package lintrule
	Field   string // "spec.limit"
	Message string
}

// String returns "spec.limit: message".
func (w Warning) String() string { return w.Field + ": " + w.Message }

// ForPolicy returns warnings for the parts of a policy that are expensive or have no effect, including parts that have no effect because of other
// rules. Own are the rules of the policy, and others returns the rules to compare one of them with, which may contain it. The warnings follow from the
// rules alone, not from observed requests.
func ForPolicy(own []rules.Rule, others func(*rules.Rule) []rules.Rule) (all []Warning) {
	for i := range own {
		for _, w := range forRule(&own[i], own, others(&own[i])) {
			if !slices.Contains(all, w) { // the rates of a policy have the same match
				all = append(all, w)
			}
		}
	}
	return all
}

func forRule(rule *rules.Rule, own, others []rules.Rule) []Warning {
	w := &warnings{rule: rule}
	w.warnBlock()
	w.warnMemory()
	w.warnBoundary()
	w.warnRedundancy(others)
	w.warnIdentifier()
	w.warnMatch()
	w.warnKubernetes()
	w.warnTiers()
	w.warnCost()
	w.warnLease()
	w.warnStorage()
	w.warnReplaced(own, others)
	return w.list
}

// warnings collects the warnings for one rule.
type warnings struct {
	rule *rules.Rule
	list []Warning
}

func (w *warnings) add(rule, field, format string, args ...any) {
	w.list = append(w.list, Warning{Rule: rule, Field: field, Message: fmt.Sprintf(format, args...)})
}

// addToRate adds a warning for a part of a rate, such as limit, of the policy or of a tier.
func (w *warnings) addToRate(rule, parent, name, format string, args ...any) {
	if w.rule.Rate == "" {
		w.add(rule, parent+"."+name, format, args...)
		return
	}
	w.add(rule, parent, "rate "+w.rule.Rate+": "+format, args...)
}

const (
	logBytes = 8      // approximate Redis memory of a log per unit, in bytes, as in docs/concepts/algorithms.md
	bigLog   = 10_000 // units; from here on the log of one identifier takes 80 kB

	smallestLease = 4 // units from which on a replica leases
)

// warnBlock warns of a limit of 0 for all requests of a domain, and of the parts that have no effect if the policy counts nothing.
func (w *warnings) warnBlock() {
	r := w.rule
	if r.Units > 0 || r.TiersOnly {
		return
	}
	counts := func(t rules.Tier) bool { return t.Units > 0 }
	allows := func(t rules.Tier) bool { return counts(t) || t.Unlimited }
	if reflect.DeepEqual(r.Match, rules.Match{}) && !r.Shadow && !slices.ContainsFunc(r.Tiers, allows) {
		w.add(lintrule.BlocksEverything, "spec.limit",
			"0 denies every HTTP and gRPC request of %s, because the policy has no match; set match, or enforcement: Shadow to see "+
				"what it would deny", domainsOf(r))
	}
	if slices.ContainsFunc(r.Tiers, counts) {
		return
	}
	for _, part := range []struct {
		name  string
		isSet bool
	}{
		{"cost", r.Cost != nil},
		{"overrun", r.Debt},
		{"onStoreFailure", r.OnStoreFailure != rules.LocalOnFailure},
		{"localShare", r.LocalShare != rules.EqualShare},
		{"lease", r.Lease != nil},
		{"storage", r.Compact},
	} {
		if part.isSet {
			w.add(lintrule.NoEffect, "spec."+part.name, "has no effect: a limit of 0 denies every request, and counts nothing")
		}
	}
}

// domainsOf describes the domains of a rule.
func domainsOf(r *rules.Rule) string {
	switch {
	case r.AllDomains:
		return "all domains"
	case r.Domain != "":
		return "domain " + r.Domain
	default:
		return "domains " + strings.Join(r.Domains, ", ")
	}
}

// warnMemory warns of a log that takes much more memory than the counters of other algorithms.
func (w *warnings) warnMemory() {
	if !w.rule.Algorithm.Traits().Log {
		return
	}
	parent, units := w.highestLimit()
	if units < bigLog {
		return
	}
	w.addToRate(lintrule.LargeLog, parent, "limit", "a log of %d units takes %s of Redis memory per identifier; SlidingWindowCounter takes 16 bytes",
		units, formatBytes(units*logBytes))
}

// highestLimit returns the highest limit of the rule and its tiers, and the field that has it.
func (w *warnings) highestLimit() (parent string, units int64) {
	parent, units = "spec", w.rule.Units
	for i := range w.rule.Tiers {
		if tier := &w.rule.Tiers[i]; tier.Units > units {
			parent, units = fmt.Sprintf("spec.tiers[%d]", i), tier.Units
		}
	}
	return parent, units
}

func formatBytes(bytes int64) string {
	const kilo, mega = 1_000, 1_000_000
	if bytes >= mega {
		return fmt.Sprintf("%.1f MB", float64(bytes)/mega)
	}
	return fmt.Sprintf("%d kB", bytes/kilo)
}

// warnBoundary warns of the burst of a fixed window at the end of a window.
func (w *warnings) warnBoundary() {
	if w.rule.Algorithm.Traits().EndsWithWindow() && w.rule.Units > 0 {
		w.addToRate(lintrule.WindowBoundary, "spec", "algorithm",
			"%s can admit up to %d units within a short time around the end of a window", w.rule.Algorithm, 2*w.rule.Units)
	}
}

// warnRedundancy warns of the first other rule that makes this rule redundant.
func (w *warnings) warnRedundancy(others []rules.Rule) {
	for i := range others {
		if other := &others[i]; other.Policy != w.rule.Policy && redundancy.IsRedundant(w.rule, other) {
			w.add(lintrule.StricterPolicy, "spec",
				"has no effect, because policy %s counts the same requests and is at least as strict", nameWithin(w.rule.Domain, other.Policy))
			return
		}
	}
}

// nameWithin returns the name of a policy without its namespace if the namespace is domain.
func nameWithin(domain, policy string) string {
	if namespace, name := policyname.Split(policy); namespace == domain {
		return name
	}
	return policy
}

// warnIdentifier warns of a descriptor key that is not in match.descriptors. The identifier then comes from another descriptor of the request
// that has the key, if there is one.
func (w *warnings) warnIdentifier() {
	id, entries := w.rule.Identifier, w.rule.Match.Descriptors
	if id.From != rules.FromDescriptor || len(entries) == 0 {
		return
	}
	if !slices.ContainsFunc(entries, func(e rules.DescriptorMatch) bool { return e.Key == id.Name }) {
		w.add(lintrule.DescriptorWithout, "spec.identifier.descriptor",
			"match.descriptors has no key %q; onMissing decides what happens to requests without it", id.Name)
	}
}

// warnMatch warns of a match that no request can meet, or that has parts without an effect.
func (w *warnings) warnMatch() {
	redundancy.NoMatch(w.rule, func(field, why string) { w.add(lintrule.NoMatch, field, "%s", why) })
	m := &w.rule.Match
	if m.IgnoreCase && len(m.Paths) == 0 && !w.rule.PerEndpoint && w.rule.Identifier.From != rules.FromEndpoint {
		w.add(lintrule.NoEffect, "spec.match.http.ignoreCase", "has no effect, because the policy has no paths and does not count endpoints; "+
			"expressions compare paths with case: use request.path.lowerAscii()")
	}
}

// warnCost warns of limits that are lower than the cost of a single request.
func (w *warnings) warnCost() {
	if w.rule.Cost == nil || w.rule.Cost.Value == 0 || w.rule.Debt {
		return
	}
	cost := w.rule.Cost.Value
	if !w.rule.TiersOnly {
		w.warnOneCost("spec", *w.rule, cost)
	}
	for i := range w.rule.Tiers {
		if tier := &w.rule.Tiers[i]; !tier.Unlimited {
			tierRule := *w.rule
			tierRule.Units, tierRule.Burst = tier.Units, tier.Burst
			w.warnOneCost(fmt.Sprintf("spec.tiers[%d]", i), tierRule, cost)
		}
	}
}

func (w *warnings) warnOneCost(parent string, rule rules.Rule, cost int64) {
	limit, err := rule.Limit()
	if err == nil && !limit.Blocks() && cost > limit.Capacity() { // the limit of a compiled rule is valid
		w.addToRate(lintrule.CostAboveLimit, parent, "limit",
			"denies every request: a request costs %d units, but at most %d can be admitted", cost, limit.Capacity())
	}
}

// warnReplaced warns of a rule that replaces a default which others do not have, or which admits less. Without any rule of a ClusterRateLimitPolicy,
// the others are those of a directory without the policies of the platform.
func (w *warnings) warnReplaced(own, others []rules.Rule) {
	if len(w.rule.ReplacesDefaults) == 0 || !slices.ContainsFunc(others, func(r rules.Rule) bool { return r.Domain == "" }) {
		return
	}
	for i, name := range w.rule.ReplacesDefaults {
		field := fmt.Sprintf("spec.replaces[%d]", i)
		found := slices.IndexFunc(others, func(r rules.Rule) bool {
			return r.PolicyName() == name && r.Default && r.AppliesTo(w.rule.Domain)
		})
		if found < 0 {
			_, objectName := policyname.Split(name)
			w.add(lintrule.Replaces, field,
				"no ClusterRateLimitPolicy with precedence: Default has the name %s and applies to domain %s", objectName, w.rule.Domain)
			continue
		}
		for j := found; j < len(others) && others[j].PolicyName() == name; j++ { // its rates
			replaced := &others[j]
			seconds := replaced.WindowSeconds
			admits, most := mostAdmitted(replaced, seconds), int64(math.MaxInt64)
			for k := range own {
				most = min(most, mostAdmitted(&own[k], seconds))
			}
			if most > admits {
				w.add(lintrule.Replaces, field,
					"replaces %s, which is stricter: it admits %d units in %v, and this policy up to %d", name, admits, time.Duration(seconds)*time.Second, most)
			}
		}
	}
}

// mostAdmitted returns how many units an identifier can spend within that time under the rule or one of its tiers, about; math.MaxInt64 with an
// unlimited tier.
func mostAdmitted(rule *rules.Rule, seconds int64) int64 {
	most := func(units, burst int64) int64 {
		if rule.Algorithm.Traits().Drains {
			return burst + units*seconds/rule.WindowSeconds
		}
		return units * max(1, seconds/rule.WindowSeconds)
	}
	if rule.TiersOnly {
		return math.MaxInt64
	}
	admitted := most(rule.Units, rule.Burst)
	for i := range rule.Tiers {
		if rule.Tiers[i].Unlimited {
			return math.MaxInt64
		}
		admitted = max(admitted, most(rule.Tiers[i].Units, rule.Tiers[i].Burst))
	}
	return admitted
}

func tierField(i int, name string) string { return fmt.Sprintf("spec.tiers[%d].%s", i, name) }

// warnLease warns of leases that are too small to have an effect.
func (w *warnings) warnLease() {
	if w.rule.Lease == nil {
		return
	}
	_, units := w.highestLimit()
	if units == 0 {
		return // warnBlock warns
	}
	if units = units * w.rule.Lease.MaxPercent / 100; units < smallestLease {
		w.add(lintrule.NoEffect, "spec.lease", "has no effect: maxShare allows %d units in leases, and a replica leases at least %d; "+
			"use a higher limit or a higher maxShare", units, smallestLease)
	}
}

// warnStorage warns of compact counters that take more memory than others, because there are few.
func (w *warnings) warnStorage() {
	if w.rule.Compact && w.rule.Identifier.From == rules.FromEndpoint {
		w.add(lintrule.NoEffect, "spec.storage",
			"Compact saves memory only with tens of thousands of identifiers, and a policy counts at most 1000 endpoints; use Exact")
	}
}
