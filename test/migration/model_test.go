// Package migration compares imported policies with a model of the rate limiter that they come from.
package migration

import (
	"fmt"
	"strings"
	"time"
)

// node is a descriptor in a configuration of Envoy's rate limit service.
type node struct {
	key, value string
	limit      *limit
	shadow     bool
	shared     bool
	children   []*node
}

type limit struct {
	name      string
	replaces  []string
	unlimited bool
	requests  int
	unit      string
}

// entry is one entry of a descriptor in a request.
type entry struct{ key, value string }

// outcome is the status of one descriptor.
type outcome struct {
	over      bool
	matched   *limit // nil without a limit, and if it is unlimited
	remaining int
	shadow    bool
}

// model decides as the documentation of Envoy's rate limit service describes. It is written from the documentation alone.
type model struct {
	nodes    []*node
	counters map[string]int
}

func newModel(nodes []*node) *model { return &model{nodes: nodes, counters: map[string]int{}} }

// decide charges each descriptor of one request with one hit, also those that are over their limit.
func (m *model) decide(now time.Time, request [][]entry) []outcome {
	hits := make([]int, len(request))
	for i := range hits {
		hits[i] = 1
	}
	return m.charge(now, request, hits)
}

// charge charges each descriptor with a number of hits.
func (m *model) charge(now time.Time, request [][]entry, hits []int) []outcome {
	type match struct {
		at  *node
		key string
	}
	matches := make([]match, len(request))
	replaced := map[string]bool{}
	for i, descriptor := range request {
		at, key := m.find(descriptor)
		if at == nil || at.limit == nil {
			continue
		}
		matches[i] = match{at, key}
		for _, name := range at.limit.replaces {
			replaced[name] = true
		}
	}
	outcomes := make([]outcome, len(request))
	for i, found := range matches {
		if found.at == nil || found.at.limit.unlimited || found.at.limit.name != "" && replaced[found.at.limit.name] {
			continue
		}
		l := found.at.limit
		counter := fmt.Sprint(found.key, now.Unix()/seconds(l.unit))
		m.counters[counter] += hits[i]
		after := m.counters[counter]
		outcomes[i] = outcome{over: after > l.requests && !found.at.shadow, matched: l, remaining: max(0, l.requests-after), shadow: found.at.shadow}
	}
	return outcomes
}

// find descends one level for each entry: to the same value, otherwise to the first wildcard that matches, otherwise to the key without a
// value. It never goes back. The last entry must reach the node. key identifies the counter.
func (m *model) find(descriptor []entry) (found *node, key string) {
	list := m.nodes
	for i, e := range descriptor {
		at := choose(list, e)
		if at == nil {
			return nil, ""
		}
		value := e.value
		if at.shared {
			value = at.value
		}
		key += fmt.Sprintf("%q=%q,", e.key, value)
		if i == len(descriptor)-1 {
			return at, key
		}
		list = at.children
	}
	return nil, ""
}

func choose(list []*node, e entry) *node {
	for _, n := range list {
		if n.key == e.key && n.value == e.value && e.value != "" {
			return n
		}
	}
	for _, n := range list {
		if n.key == e.key && strings.Contains(n.value, "*") && wildcardMatches(n.value, e.value) {
			return n
		}
	}
	for _, n := range list {
		if n.key == e.key && n.value == "" {
			return n
		}
	}
	return nil
}

// wildcardMatches tries every length for each star.
func wildcardMatches(pattern, value string) bool {
	if pattern == "" {
		return value == ""
	}
	if pattern[0] != '*' {
		return value != "" && pattern[0] == value[0] && wildcardMatches(pattern[1:], value[1:])
	}
	for skipped := range len(value) + 1 {
		if wildcardMatches(pattern[1:], value[skipped:]) {
			return true
		}
	}
	return false
}

func seconds(unit string) int64 {
	return map[string]int64{
		"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400, "month": 30 * 86400, "year": 365 * 86400,
	}[unit]
}

// yaml writes a configuration.
func yaml(domain string, nodes []*node) string {
	var b strings.Builder
	fmt.Fprintf(&b, "domain: %s\ndescriptors:\n", domain)
	writeNodes(&b, nodes, "")
	return b.String()
}

func writeNodes(b *strings.Builder, nodes []*node, indent string) {
	for _, n := range nodes {
		fmt.Fprintf(b, "%s- key: %s\n", indent, n.key)
		field := func(text string, a ...any) { fmt.Fprintf(b, indent+"  "+text+"\n", a...) }
		if n.value != "" {
			field("value: %q", n.value)
		}
		if n.shadow {
			field("shadow_mode: true")
		}
		if n.shared {
			field("share_threshold: true")
		}
		if l := n.limit; l != nil {
			field("rate_limit:")
			if l.name != "" {
				field("  name: %s", l.name)
			}
			if len(l.replaces) > 0 {
				field("  replaces: [{name: %s}]", strings.Join(l.replaces, "}, {name: "))
			}
			if l.unlimited {
				field("  unlimited: true")
			} else {
				field("  unit: %s", l.unit)
				field("  requests_per_unit: %d", l.requests)
			}
		}
		if len(n.children) > 0 {
			field("descriptors:")
			writeNodes(b, n.children, indent+"  ")
		}
	}
}
