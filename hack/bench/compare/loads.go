package main

import (
	"regexp"

	"github.com/weir-dev/weir/hack/bench/rig"
	"github.com/weir-dev/weir/hack/bench/rlsload"
)

const connections = 4

// load is a row of the table.
type load struct {
	name  string
	nodes int // of the Redis Cluster; 0 is one server that is no cluster
	// keys of the descriptors, one each
	keys    []string
	callers int     // requests in flight
	rate    float64 // requests a second, if callers is 0
	values  int     // number of identifiers; 0 is the flag
}

func loads() []load {
	one, three := []string{"ip"}, []string{"ip", "user", "path"}
	return []load{
		{name: "1 in flight", callers: 1, keys: one},
		{name: "64 in flight", callers: 64, keys: one},
		{name: "256 in flight", callers: 256, keys: one},
		{name: "3 descriptors, 64 in flight", callers: 64, keys: three},
		{name: "known denial, 64 in flight", callers: 64, keys: []string{"spent"}, values: 1},
		{name: "leased, 100 identifiers, 64 in flight", callers: 64, keys: []string{"leased"}, values: 100},
		{name: "5000 a second", rate: 5000, keys: one},
		{name: "cluster of 1, 64 in flight", nodes: 1, callers: 64, keys: one},
		{name: "cluster of 1, 3 descriptors, 64 in flight", nodes: 1, callers: 64, keys: three},
		{name: "cluster of 3, 3 descriptors, 64 in flight", nodes: 3, callers: 64, keys: three},
	}
}

func selected(only *regexp.Regexp) []load {
	var selected []load
	for _, l := range loads() {
		if only.MatchString(l.name) {
			selected = append(selected, l)
		}
	}
	return selected
}

func (l *load) generate(values int) rlsload.Load {
	if l.values > 0 {
		values = l.values
	}
	return rlsload.Load{Callers: l.callers, Rate: l.rate, Message: rig.Message(values, l.keys...)}
}
