package reliability

import (
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// limiterName is the Limiter whose rules the processes enforce; domain is the domain of its policies.
const (
	limiterName = "weir-system/default"
	keyPrefix   = "weir:"
	domain      = "reliability"
	hotTenant   = "hot"
)

// Policy is one algorithm with one limit. It matches requests for its path.
type Policy struct {
	Algorithm limiter.Algorithm
	Limit     int64
	Window    time.Duration
	Burst     int64 // of a TokenBucket
}

// policies returns one policy for each algorithm for which over-admission is measured, ordered by name.
func policies(limit int64, window time.Duration) []Policy {
	return []Policy{
		{Algorithm: limiter.FixedWindow, Limit: limit, Window: window},
		{Algorithm: limiter.SlidingWindowCounter, Limit: limit, Window: window},
		{Algorithm: limiter.SlidingWindowLog, Limit: limit, Window: window},
		{Algorithm: limiter.TokenBucket, Limit: limit, Window: window, Burst: limit / 2},
	}
}

func (p Policy) name() string { return strings.ToLower(string(p.Algorithm)) }

func (p Policy) path() string { return "/" + p.name() }

// ruleSet returns the rule set that an operator would publish for the policies.
func ruleSet(all []Policy) rules.Set {
	var set rules.Set
	for _, p := range all {
		set.Rules = append(set.Rules, rules.Rule{
			Policy: domain + "/" + p.name(), Domain: domain, Axis: "Tenant",
			Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"},
			Match:      rules.Match{Paths: []rules.PathMatch{{Type: rules.PathExact, Value: p.path()}}},
			Algorithm:  p.Algorithm, Units: p.Limit, WindowSeconds: int64(p.Window / time.Second), Burst: p.Burst,
		})
	}
	return set
}
