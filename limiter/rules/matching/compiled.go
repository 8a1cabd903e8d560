package matching

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gaissmai/bart"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/endpoint"
	"github.com/weir-dev/weir/limiter/rules/expr"
	"github.com/weir-dev/weir/limiter/rules/pattern"
)

// Compiled is a rule with everything that matching and counting need, computed once.
type Compiled struct {
	rules.Rule

	Limit  limiter.Limit
	Keys   limiter.KeySpace
	Leases *limiter.LeaseTerms // nil without Lease

	policyName string // without the rate

	counted *atomic.Pointer[limiter.CountedRule] // see Counted
	prefix  string                               // of Keys
	kinds   rules.RequestKinds

	// The parts of Match. Each is nil if Match has no such condition.
	headers         []pattern.Header
	regexps         []pathRegexp // of Paths
	descriptor      []pattern.Entry
	clients, exempt *bart.Lite
	condition       *expr.Expression
	costUnits       *expr.Expression // of Cost
	sources         []source         // Identifier and Fallbacks
	sharesBudget    bool             // has an expression for the identifier, the cost or a tier, or a regular expression or groups for a tier
	termsRead       expr.Reads       // by expressions of the cost or a tier
	tiers           []tier
	endpoints       *endpoint.Set    // nil unless the rule counts by the paths of requests
	hashKey         *limiter.HashKey // nil unless identifiers are hashed
}

// pathRegexp is a regular expression for paths.
type pathRegexp struct {
	pattern *pattern.Regexp
	name    string // as the user wrote the expression
}

// compiler compiles the rules of one Set.
type compiler struct {
	prefix      string           // of keys
	hashKey     *limiter.HashKey // nil without a key
	expressions *expr.Cache
}

// makesKeysOf reports whether the rules of both compilers have the same keys.
func (k *compiler) makesKeysOf(other *compiler) bool {
	if k.hashKey == nil || other.hashKey == nil {
		return k.prefix == other.prefix && k.hashKey == other.hashKey
	}
	return k.prefix == other.prefix && k.hashKey.ID() == other.hashKey.ID()
}

// validateHashKey returns an error if the rule of a Set, which was compiled with the hash key of this ID, needs another one.
func (k *compiler) validateHashKey(rule *rules.Rule, id string) error {
	switch {
	case !rule.HashesIdentifiers():
		return nil
	case k.hashKey == nil:
		return fmt.Errorf("rule %s hashes identifiers, and there is no hash key: set --hash-key (in Go: matching.WithHashKey), the same for all "+
			"processes that share counters", rule.Policy)
	case id != k.hashKey.ID():
		return fmt.Errorf("rule %s was compiled with hash key %q, and this limiter has hash key %q: both must be the same", rule.Policy, id, k.hashKey.ID())
	default:
		return nil
	}
}

func (k *compiler) compile(rule rules.Rule) (*Compiled, error) {
	limit, err := rule.Limit()
	if err != nil {
		return nil, err
	}
	if err := rule.Validate(); err != nil {
		return nil, err
	}
	c := &Compiled{Rule: rule, Limit: limit, policyName: rule.PolicyName(), prefix: k.prefix, kinds: rule.Kinds()}
	if rule.HashesIdentifiers() {
		c.hashKey = k.hashKey
	}
	c.Keys = c.keys()(rule.CounterScope(), limit)
	if rule.CountsPaths() {
		c.endpoints = endpoint.New(limit.Window(), endpoint.Max)
	}
	for _, step := range []func(*Compiled) error{validateRoutes, k.match, compilePaths, k.identify, k.tiers, k.cost, compileLease} {
		if err := step(c); err != nil {
			return nil, err
		}
	}
	c.sharesBudget = slices.ContainsFunc(c.sources, func(s source) bool { return s.expression != nil }) || c.costUnits != nil ||
		slices.ContainsFunc(c.tiers, func(t tier) bool {
			return t.condition != nil || t.header != nil && t.header.Regexp != nil || len(t.When.Groups) > 0
		})
	if c.costUnits != nil {
		c.termsRead = c.costUnits.Reads
	}
	c.counted = &atomic.Pointer[limiter.CountedRule]{}
	c.counted.Store(c.newCounted())
	for i := range c.tiers {
		if e := c.tiers[i].condition; e != nil {
			c.termsRead = c.termsRead.And(e.Reads)
		}
	}
	return c, nil
}

func (k *compiler) match(c *Compiled) (err error) {
	m := &c.Match
	for _, match := range m.Headers {
		h, err := pattern.CompileHeader(match)
		if err != nil {
			return err
		}
		c.headers = append(c.headers, h)
	}
	if c.clients, err = pattern.CompileCIDRs(m.CIDRs); err != nil {
		return err
	}
	if c.exempt, err = pattern.CompileCIDRs(m.ExceptCIDRs); err != nil {
		return err
	}
	if c.descriptor, err = pattern.CompileDescriptor(m.Descriptors); err != nil {
		return err
	}
	if m.Expression != "" {
		c.condition, err = k.expression(expr.LanguageOf(&c.Rule), m.Expression, expr.ResultBool)
	}
	return err
}

func compilePaths(c *Compiled) error {
	for _, path := range c.Match.Paths {
		switch path.Type {
		case rules.PathExact, rules.PathPrefix:
		case rules.PathRegex:
			compiled, err := pattern.Compile(path.Value, c.Match.IgnoreCase)
			if err != nil {
				return err
			}
			c.regexps = append(c.regexps, pathRegexp{compiled, path.Value})
		default:
			return fmt.Errorf("unknown path match type %q", path.Type)
		}
	}
	return nil
}

func (k *compiler) identify(c *Compiled) error {
	switch c.OnMissing {
	case rules.ShareMissing, rules.SkipMissing, rules.DenyMissing:
	default:
		return fmt.Errorf("unknown onMissing %q", c.OnMissing)
	}
	if err := rules.ValidateFallbacks(c.Identifier, c.Fallbacks); err != nil {
		return err
	}
	c.sources = make([]source, 1+len(c.Fallbacks))
	c.sources[0].Identifier = c.Identifier
	for i, f := range c.Fallbacks {
		if f.From == rules.FromEndpoint {
			return errors.New("an endpoint must not be a fallback: each request has one")
		}
		c.sources[1+i] = source{Identifier: f, prefix: f.Prefix()}
	}
	for i := range c.sources {
		switch c.sources[i].From {
		case rules.FromClientIP, rules.FromHeader, rules.FromQuery, rules.FromCookie, rules.FromClaim:
			c.sources[i].ofRequest = true
		}
		if err := k.identifyFrom(c, &c.sources[i]); err != nil {
			return err
		}
	}
	return nil
}

func (k *compiler) identifyFrom(c *Compiled, id *source) (err error) {
	if id.IPv6Prefix < 0 || id.IPv6Prefix > 128 {
		return fmt.Errorf("the IPv6 prefix length must be from 0 to 128, got %d", id.IPv6Prefix)
	}
	switch id.From {
	case rules.FromClientIP, rules.FromEndpoint, rules.FromKubernetesTenant, rules.FromKubernetesNamespace, rules.FromKubernetesUser, rules.FromServiceAccount:
		return nil
	case rules.FromHeader, rules.FromQuery, rules.FromCookie, rules.FromClaim, rules.FromDescriptor:
	case rules.FromExpression:
		id.expression, err = k.expression(expr.LanguageOf(&c.Rule), id.Name, expr.ResultString)
	default:
		return fmt.Errorf("unknown identifier source %q", id.From)
	}
	if id.Name == "" {
		return fmt.Errorf("an identifier from source %s must have a name", id.From)
	}
	return err
}

func (k *compiler) tiers(c *Compiled) error {
	for i, declared := range c.Tiers {
		another := func(other rules.Tier) bool { return other.Name == declared.Name }
		if declared.Name == "" || slices.ContainsFunc(c.Tiers[:i], another) {
			return fmt.Errorf("the name of a tier must be unique and not empty, got %q", declared.Name)
		}
		t, err := k.tier(&c.Rule, declared)
		if err != nil {
			return fmt.Errorf("tier %s: %w", declared.Name, err)
		}
		c.tiers = append(c.tiers, t)
	}
	return nil
}

func (k *compiler) cost(c *Compiled) (err error) {
	cost := c.Cost
	switch {
	case cost == nil:
		return nil
	case countTrue(cost.Value != 0, cost.Header != "", cost.Expression != "") != 1:
		return errors.New("a cost must have exactly one of value, header and expression")
	case cost.Value < 0 || cost.Value > limiter.MaxUnits:
		return fmt.Errorf("a cost must be from 1 to %d, got %d", limiter.MaxUnits, cost.Value)
	case cost.Expression != "":
		c.costUnits, err = k.expression(expr.LanguageOf(&c.Rule), cost.Expression, expr.ResultInt)
	}
	return err
}

// compileLease rejects leases of a queue: replicas cannot divide its turns.
func compileLease(c *Compiled) error {
	lease := c.Lease
	if lease == nil {
		return nil
	}
	age := time.Duration(lease.MaxMilliseconds) * time.Millisecond
	switch {
	case c.Algorithm.Traits().Queues:
		return fmt.Errorf("algorithm %s must not have leases", c.Algorithm)
	case lease.MaxPercent < 1 || lease.MaxPercent > limiter.MaxLeasePercent:
		return fmt.Errorf("leases must be from 1 to %d percent of the limit, got %d", limiter.MaxLeasePercent, lease.MaxPercent)
	case age < limiter.MinLeaseAge || age > limiter.MaxLeaseAge || 2*age > c.Limit.Window():
		return fmt.Errorf("the age of a lease must be from %v to %v and at most half of the window, got %v", limiter.MinLeaseAge, limiter.MaxLeaseAge, age)
	}
	c.Leases = &limiter.LeaseTerms{MaxPercent: lease.MaxPercent, MaxAge: age}
	return nil
}

func (k *compiler) expression(language expr.Language, text string, result expr.ResultType) (*expr.Expression, error) {
	e, err := k.expressions.Compile(language, text, result)
	if err != nil {
		return nil, fmt.Errorf("expression %q: %w", rules.Shorten(text), err)
	}
	return e, nil
}

// countTrue returns the number of conditions that are true.
func countTrue(conditions ...bool) int {
	n := 0
	for _, condition := range conditions {
		if condition {
			n++
		}
	}
	return n
}

// Counted is what stores know about the rule. Equal rules of successive indexes have the same, see [Index.Inherit].
func (c *Compiled) Counted() *limiter.CountedRule { return c.counted.Load() }

// keys returns what makes the keys of a scope under a limit. It does not refer to c.
func (c *Compiled) keys() func(scope string, limit limiter.Limit) limiter.KeySpace {
	prefix, axis, isCompact, hashKey := c.prefix, c.Axis, c.Compact, c.hashKey
	return func(scope string, limit limiter.Limit) limiter.KeySpace {
		keys := limiter.NewKeySpace(prefix, axis, scope, limit)
		if isCompact && limit.Algorithm().HasCompact() {
			return keys.Compact(hashKey)
		}
		return keys
	}
}

// newCounted returns what stores know about the rule. It does not refer to c: it can outlive the index of c.
func (c *Compiled) newCounted() *limiter.CountedRule {
	longest := c.Limit.LongestWait()
	for _, tier := range c.Tiers {
		rule := c.Rule
		rule.Units, rule.Burst = tier.Units, tier.Burst
		if limit, err := rule.Limit(); err == nil { // an unlimited tier has no limit
			longest = max(longest, limit.LongestWait())
		}
	}
	keys, scope := c.keys(), c.CounterScope()
	if c.Rate != "" { // under another limit, the rates of a policy can have the same window
		scope += ":" + c.Rate
	}
	return &limiter.CountedRule{
		Policy: c.Policy, Namespace: c.Domain, Algorithm: c.Algorithm, Compact: c.Compact, Lifetime: longest, Keys: c.Keys,
		KeysFor: func(limit limiter.Limit) limiter.KeySpace {
			if limit.Blocks() {
				return keys(scope+"@0", limit)
			}
			return keys(scope+"@", limit)
		},
	}
}
