package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/rules/policyname"
)

// CounterQuery selects counters.
type CounterQuery struct {
	// Policy whose counters are read. With an identifier it can be empty: all policies.
	Policy string
	// Identifier, or the beginning of identifiers as they are counted. Not both.
	Identifier, Prefix string
	// Over leaves out counters with units that remain under each tier that is possible.
	Over bool
	// Limit is the number of counters of a page, 1 … 1000; 0 means 100.
	Limit int
	// Continue is that of the previous page.
	Continue string
}

const (
	defaultPage, maxPage = 100, 1000 // counters
	// scanStep is the number of keys that one call of the store checks.
	scanStep = 1000
	// pageTime bounds the time that one page takes, if few of the keys are those of the policy.
	pageTime = time.Second
	// peekStep is the number of counters that one call of the store reads.
	peekStep = 100
)

// List returns a page of counters.
func (c *Counters) List(ctx context.Context, q CounterQuery) (CounterList, *reply.Problem) {
	if q.Limit == 0 {
		q.Limit = defaultPage
	}
	switch {
	case q.Limit < 1 || q.Limit > maxPage:
		return CounterList{}, reply.NewProblem(http.StatusBadRequest, "limit", fmt.Sprintf("limit must be from 1 to %d", maxPage))
	case q.Identifier != "" && q.Prefix != "":
		return CounterList{}, reply.NewProblem(http.StatusBadRequest, "prefix", "identifier and prefix exclude each other")
	case q.Policy == "" && q.Identifier == "":
		return CounterList{}, reply.NewProblem(http.StatusBadRequest, "policy", "policy is required without an identifier")
	}
	selected, bad := c.rules(q.Policy)
	if bad != nil {
		return CounterList{}, bad
	}
	if bad := oneRate(selected); bad != nil && q.Identifier == "" {
		return CounterList{}, bad
	}
	if q.Identifier == "" && selected[0].Compact {
		return CounterList{}, reply.NewProblem(http.StatusBadRequest, "identifier", "policy "+selected[0].Policy+
			" has storage: Compact, and Redis does not have the names of compact counters: name an identifier")
	}
	if q.Policy != "" && q.Identifier != "" {
		if _, bad := countedAs(selected[0], q.Identifier); bad != nil {
			return CounterList{}, bad
		}
	}
	var skipped []string
	if q.Policy == "" {
		selected, skipped = withoutText(selected, q.Identifier)
	}
	list, err := c.list(ctx, selected, q)
	if err != nil {
		return CounterList{}, unavailable(err)
	}
	list.Skipped = skipped
	if list.Counters == nil {
		list.Counters = []Counter{}
	}
	if q.Over {
		list.Counters = slices.DeleteFunc(list.Counters, func(c Counter) bool { return !c.CanBeOver() })
	}
	return list, nil
}

// withoutText leaves out the rules that would count identifier as it is, if a rule counts API keys: the identifier can be an API key, and would
// be sent to Redis as part of a key.
func withoutText(selected []*matching.Compiled, identifier string) (kept []*matching.Compiled, skipped []string) {
	if !slices.ContainsFunc(selected, func(r *matching.Compiled) bool { return r.HasSecrets() }) {
		return selected, nil
	}
	for _, rule := range selected {
		if rule.CountsText(identifier) {
			skipped = append(skipped, rule.Policy)
		} else {
			kept = append(kept, rule)
		}
	}
	return kept, skipped
}

// countedAs returns the identifier under which a rule counts what a person writes.
func countedAs(rule *matching.Compiled, identifier string) (string, *reply.Problem) {
	counted, err := rule.CountedAs(identifier)
	if err != nil {
		return "", reply.NewProblem(http.StatusBadRequest, "identifier", "identifier "+quote(identifier)+" "+err.Error())
	}
	return counted, nil
}

func unavailable(err error) *reply.Problem {
	return reply.NewProblem(http.StatusServiceUnavailable, "", "the counters cannot be read: "+err.Error())
}

// rules returns the rules of a policy or of one of its rates, or all rules.
func (c *Counters) rules(policy string) (selected []*matching.Compiled, bad *reply.Problem) {
	return rulesOf(c.Engine, policy)
}

func rulesOf(e *engine.Engine, policy string) (selected []*matching.Compiled, bad *reply.Problem) {
	index := e.Index()
	if index == nil {
		return nil, reply.NewProblem(http.StatusServiceUnavailable, "", "no rules are loaded yet")
	}
	for rule := range index.Rules() {
		if policy == "" || rule.IsNamed(policy) {
			selected = append(selected, rule)
		}
	}
	if policy != "" && len(selected) == 0 {
		message := fmt.Sprintf("policy %s is not enforced by this limiter; %s", quote(policy), advice(index, policy))
		return nil, reply.NewProblem(http.StatusNotFound, "policy", message)
	}
	return selected, nil
}

// advice returns what to write in place of the name of a policy that is not enforced.
func advice(index *matching.Index, policy string) string {
	scope, name := policyname.Split(policy)
	ofCluster := policyname.Join(policyname.Cluster, cmp.Or(name, scope))
	for rule := range index.Rules() {
		if rule.IsNamed(ofCluster) {
			return "did you mean the ClusterRateLimitPolicy " + ofCluster + "?"
		}
	}
	return "the form is namespace/name, or " + policyname.Join(policyname.Cluster, "name") + " for a ClusterRateLimitPolicy"
}

// oneRate returns a problem if the rules are several rates of a policy.
func oneRate(selected []*matching.Compiled) *reply.Problem {
	if len(selected) < 2 {
		return nil
	}
	names := make([]string, len(selected))
	for i, rule := range selected {
		names[i] = rule.Policy
	}
	return reply.NewProblem(http.StatusBadRequest, "policy", fmt.Sprintf("policy %s has several rates: name one of them: %s",
		quote(selected[0].PolicyName()), strings.Join(names, ", ")))
}

func (c *Counters) list(ctx context.Context, selected []*matching.Compiled, q CounterQuery) (CounterList, error) {
	if q.Identifier == "" {
		return c.scan(ctx, selected[0], q)
	}
	keys, unsearched, err := c.keysOf(ctx, selected, q.Identifier, q.Policy != "")
	if err != nil {
		return CounterList{}, err
	}
	counters, err := c.readAll(ctx, keys)
	return CounterList{Counters: counters, Unsearched: unsearched}, err
}

// scan returns a page of the counters of one policy.
func (c *Counters) scan(ctx context.Context, rule *matching.Compiled, q CounterQuery) (CounterList, error) {
	page, deadline := CounterList{Continue: q.Continue}, time.Now().Add(pageTime)
	seen := map[string]bool{} // SCAN can return a key twice
	for {
		keys, next, err := c.Scanner.Scan(ctx, rule.Keys.All(q.Prefix), page.Continue, scanStep)
		if err != nil {
			return CounterList{}, err
		}
		var parts []found
		for _, key := range keys {
			if identifier, endpoint, ok := rule.Keys.Parse(key); ok && !seen[key] {
				seen[key] = true
				parts = append(parts, found{rule, key, identifier, endpoint})
			}
		}
		counters, err := c.readAll(ctx, parts)
		if err != nil {
			return CounterList{}, err
		}
		page.Counters, page.Continue = append(page.Counters, withUnits(counters)...), next
		if next == "" || len(page.Counters) >= q.Limit || time.Now().After(deadline) {
			return page, nil
		}
	}
}

// keysOf returns the keys of the counters of an identifier. Those of a policy that counts endpoints separately are found by a scan. If it
// fails, that is an error with mustSearch. Otherwise such rules are unsearched, because the others can be read without Redis.
func (c *Counters) keysOf(
	ctx context.Context, selected []*matching.Compiled, identifier string, mustSearch bool,
) (keys []found, unsearched *Unsearched, err error) {
	for _, rule := range selected {
		counted, err := rule.CountedAs(identifier)
		if err != nil || rule.PerEndpoint && rule.Compact { // Redis does not have the names of the endpoints
			continue
		}
		if !rule.PerEndpoint {
			keys = append(keys, found{rule, rule.Keys.Literal(counted), counted, ""})
			continue
		}
		if unsearched != nil {
			unsearched.Policies = append(unsearched.Policies, rule.Policy)
			continue
		}
		own, err := c.endpointKeys(ctx, rule, counted)
		switch {
		case err == nil:
			keys = append(keys, own...)
		case mustSearch:
			return nil, nil, err
		default:
			unsearched = &Unsearched{Policies: []string{rule.Policy}, Reason: err.Error()}
		}
	}
	return keys, unsearched, nil
}

// endpointKeys returns the keys of the counters of an identifier, as it is counted, under a rule that counts endpoints separately.
func (c *Counters) endpointKeys(ctx context.Context, rule *matching.Compiled, counted string) (keys []found, err error) {
	keyRange, cursor, seen := rule.Keys.Of(counted), "", map[string]bool{}
	for {
		list, next, err := c.Scanner.Scan(ctx, keyRange, cursor, scanStep)
		if err != nil {
			return nil, err
		}
		for _, key := range list {
			if _, endpoint, ok := rule.Keys.Parse(key); ok && !seen[key] {
				seen[key] = true
				keys = append(keys, found{rule, key, counted, endpoint})
			}
		}
		if cursor = next; cursor == "" {
			return keys, nil
		}
	}
}

func (c *Counters) readAll(ctx context.Context, keys []found) ([]Counter, error) {
	var collected []Counter
	for part := range slices.Chunk(keys, peekStep) {
		counters, err := c.read(ctx, part)
		if err != nil {
			return nil, err
		}
		collected = append(collected, counters...)
	}
	return collected, nil
}

// withUnits leaves out local shares on which nothing counts.
func withUnits(counters []Counter) []Counter {
	return slices.DeleteFunc(counters, func(c Counter) bool { return c.Used == 0 })
}
