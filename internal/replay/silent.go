package replay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// maxExamples is the number of requests by which the reason is found why a policy matches no request.
const maxExamples = 256

// examples are requests of all times of the log, chosen at random.
type examples struct {
	requests []rules.Request
	seen     int64
	random   *rand.Rand
}

// add chooses among the requests of a batch, with as many choices as there are batches at least.
func (e *examples) add(checks []engine.Check) {
	if e.random == nil {
		e.random = rand.New(rand.NewPCG(1, 2))
	}
	for i := range checks {
		e.seen++
		switch {
		case len(e.requests) < maxExamples:
			e.requests = append(e.requests, cloneOf(&checks[i].Request))
		case e.random.Int64N(e.seen) < maxExamples:
			e.requests[e.random.IntN(maxExamples)] = cloneOf(&checks[i].Request)
		}
	}
}

// cloneOf returns a copy that does not share the memory of a batch of lines.
func cloneOf(r *rules.Request) rules.Request {
	c := *r
	for _, text := range []*string{&c.Domain, &c.Method, &c.Host, &c.Path, &c.RawPath, &c.RawQuery} {
		*text = strings.Clone(*text)
	}
	c.Headers = nil
	for name, value := range r.Headers {
		if c.Headers == nil {
			c.Headers = map[string]string{}
		}
		c.Headers[strings.Clone(name)] = strings.Clone(value)
	}
	return c
}

// silence returns the likely reason why a rule matched no request.
func (r *Replay) silence(t *tally) string {
	if len(r.examples.requests) == 0 {
		return "There are no requests."
	}
	failed, replaced := map[matching.Condition]int{}, map[string]int{}
	for i := range r.examples.requests {
		explained := r.after.index.Explain(&r.examples.requests[i])
		at := slices.IndexFunc(explained, func(e matching.Explained) bool { return e.Rule == t.rule })
		if e := &explained[at]; e.ReplacedBy != "" {
			replaced[e.ReplacedBy]++
		} else {
			failed[e.Failed]++
		}
	}
	most := matching.NoCondition
	for condition, n := range failed {
		if n > failed[most] || most == matching.NoCondition {
			most = condition
		}
	}
	if most == matching.NoCondition {
		for policy := range replaced {
			return "The policy is a default, and " + policy + " replaces it."
		}
		return "Very few requests meet its conditions."
	}
	return fmt.Sprintf("%s (%d of %d requests that were examined).", r.reason(most, t), failed[most], len(r.examples.requests))
}

// reason describes what to do about a condition that requests do not meet.
func (r *Replay) reason(condition matching.Condition, t *tally) string {
	has := func(what func(*rules.Request) bool) bool {
		return slices.ContainsFunc(r.examples.requests, func(q rules.Request) bool { return what(&q) })
	}
	isOfWrites := t.rule.Match.Kubernetes != nil
	hasKind := has(func(q *rules.Request) bool { return (q.Kubernetes != nil) == isOfWrites })
	switch condition {
	case matching.ConditionDomain:
		if !hasKind { // a write is in the domain of its namespace, so that the domain is no reason
			return r.reason(matching.ConditionKind, t)
		}
		if isOfWrites {
			return fmt.Sprintf("The policy is for writes in namespace %q, and the log has writes in others", t.rule.Domain)
		}
		return fmt.Sprintf("The requests are in domain %q, and the policy is for domain %q: set --domain", r.options.Domain, t.rule.Domain)
	case matching.ConditionKind:
		if len(t.rule.Match.Descriptors) > 0 {
			return r.reason(matching.ConditionDescriptors, t)
		}
		return kindReason(isOfWrites, hasKind)
	case matching.ConditionHosts:
		if !has(func(q *rules.Request) bool { return q.Host != "" }) {
			return "The policy has hosts, and the requests have none: add the host to the log, or map it with --map host=.KEY"
		}
		return "No request has one of the hosts of the policy, for example " + strings.Join(t.rule.Match.Hosts[:min(1, len(t.rule.Match.Hosts))], "")
	case matching.ConditionRoutes:
		return "The policy is attached to routes of a gateway, and the log does not name the route of a request"
	case matching.ConditionPaths:
		return "No request has one of the paths of the policy, for example " + t.rule.Match.Paths[0].Value
	case matching.ConditionMethods:
		return "No request has one of the methods of the policy: " + strings.Join(t.rule.Match.Methods, ", ")
	case matching.ConditionHeaders:
		return "The requests do not have the headers of the policy: add them to the log, and map them with --map header:NAME=.KEY"
	case matching.ConditionCIDRs, matching.ConditionExceptCIDRs:
		return "No request comes from the networks of the policy. Behind a proxy, the log can have the addresses of the proxy"
	case matching.ConditionDescriptors:
		return "The policy matches descriptors of Envoy, which logs do not have"
	case matching.ConditionIdentifier:
		return "The requests do not have the identifier of the policy, which skips such requests: " + t.rule.DescribeSources()
	case matching.ConditionExpression:
		return "No request meets the expression of the policy"
	default:
		return "The writes do not meet the conditions of match.kubernetes: resources, namespaces, users and groups"
	}
}

// kindReason describes what to do about a policy for writes to the Kubernetes API, or for other requests. hasKind is true if the log has some of its kind.
func kindReason(isOfWrites, hasKind bool) string {
	switch {
	case isOfWrites:
		return "The policy limits writes to the Kubernetes API, and the requests are others: replay an audit log of an API server"
	case !hasKind:
		return "The log has writes to the Kubernetes API, and the policy limits other requests: replay an access log"
	default:
		return "The policy limits another kind of requests"
	}
}

// notes returns what a reader must know to trust the figures.
func (r *Replay) notes(metrics counted) (notes []string) {
	for _, t := range r.after.order {
		name := t.rule.Policy
		matched := t.allowed + t.denied + t.uncharged
		if n := metrics.missing[name]; n > 0 {
			notes = append(notes, fmt.Sprintf("%s: %d of %d requests have no identifier (%s), and share one counter unless the policy denies or skips them. "+
				"If clients do send it, add it to the log, and map it with --map.", name, n, matched, t.rule.DescribeSources()))
		}
		if t.fallback > 0 && !r.fromDecisions.Load() { // a limiter knew all identifiers
			var fallbacks []string
			for _, f := range t.rule.Fallbacks {
				fallbacks = append(fallbacks, f.Describe())
			}
			notes = append(notes, fmt.Sprintf("%s: %d of %d requests do not have the first identifier of the policy (%s), and are counted by the %s. "+
				"If clients do send it, the figures are not those of production: add it to the log, and map it with --map.",
				name, t.fallback, matched, t.rule.Identifier.Describe(), strings.Join(fallbacks, " or ")))
		}
		if n := metrics.leftOut[name]; n > 0 {
			notes = append(notes, fmt.Sprintf("%s: %d requests matched more than 32 policies of its namespace, and this one did not count them.", name, n))
		}
		if n := metrics.uncertain[name]; n > 0 {
			notes = append(notes, fmt.Sprintf("%s: %d requests matched because a condition could not be evaluated.", name, n))
		}
		if t.rule.Lease != nil {
			notes = append(notes, name+": its leases are not replayed. They admit a little more than the limit, as docs/concepts/leases.md describes.")
		}
	}
	return notes
}
