// Package rediscommand has the command weir redis check, which finds out whether a Redis can hold the counters of Weir.
package rediscommand

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisclient/redischeck"
	"github.com/weir-dev/weir/limiter/rules"
)

// The severities of a finding.
const (
	severityError   = "error"   // Weir cannot use this Redis, or not for all policies
	severityWarning = "warning" // Weir works, but not as well as it could
)

// report is what the command prints. Durations are in seconds, and memory is in bytes.
type report struct {
	Usable      bool        `json:"usable"` // no finding is an error
	Server      *server     `json:"server,omitempty"`
	Permissions []missing   `json:"missingPermissions,omitempty"`
	Primaries   []primary   `json:"primaries,omitempty"`
	FreeMemory  int64       `json:"freeMemoryBytes,omitempty"` // of all primaries; 0 if maxmemory is not set
	Policies    []policyUse `json:"policies,omitempty"`
	Findings    []finding   `json:"findings"`
}

type server struct {
	Product     string `json:"product,omitempty"`
	Version     string `json:"version,omitempty"`
	Mode        string `json:"mode"`
	Corrected   bool   `json:"corrected,omitempty"`
	Primaries   int    `json:"primaries"`
	Replicas    int    `json:"replicas"`
	Databases   int    `json:"databases,omitempty"`
	Eviction    string `json:"maxmemoryPolicy,omitempty"`
	Persistence string `json:"persistence,omitempty"`
	MaxMemory   int64  `json:"maxmemoryBytes,omitempty"` // of the fullest primary
	UsedMemory  int64  `json:"usedMemoryBytes,omitempty"`
	RESP3       bool   `json:"resp3"`

	text string
}

type missing struct {
	Rule     string `json:"rule"`
	Optional bool   `json:"optional,omitempty"`
	Reply    string `json:"reply"`
}

type primary struct {
	Address    string  `json:"address"`
	ClockAhead float64 `json:"clockAheadSeconds"`
	P50        float64 `json:"p50Seconds"`
	P90        float64 `json:"p90Seconds"`
	P99        float64 `json:"p99Seconds"`
	Max        float64 `json:"maxSeconds"`
	Samples    int     `json:"samples"`
}

// policyUse is the memory of a policy: approximate bytes for each identifier, and how many fit into the free memory without other policies.
type policyUse struct {
	Policy      string `json:"policy"`
	Bytes       int64  `json:"bytesPerIdentifier"`
	Identifiers int64  `json:"identifiersThatFit,omitempty"`
}

type finding struct {
	Severity string `json:"severity"`
	Text     string `json:"text"`
}

// settings are the flags of the command.
type settings struct {
	names    redischeck.Names
	samples  int
	timeout  time.Duration // of decisions
	policies []policyUse   // without Identifiers
}

// check finds out everything about a Redis. What cannot be found out after an error is absent.
func check(ctx context.Context, client *redisclient.Client, s settings) report {
	r := report{Findings: []finding{}}
	r.inspect(ctx, client, s)
	r.Usable = !slices.ContainsFunc(r.Findings, func(f finding) bool { return f.Severity == severityError })
	return r
}

func (r *report) add(severity, format string, arguments ...any) {
	r.Findings = append(r.Findings, finding{severity, fmt.Sprintf(format, arguments...)})
}

func (r *report) inspect(ctx context.Context, client *redisclient.Client, s settings) {
	found, err := client.Discover(ctx)
	if err != nil {
		r.addError(err)
		return
	}
	r.Server = &server{
		Product: found.Product, Version: found.Version, Mode: string(found.Mode), Corrected: found.Corrected, Primaries: found.Primaries,
		Replicas: found.Replicas, Databases: found.Databases, Eviction: found.Eviction, Persistence: found.Persistence,
		MaxMemory: found.MaxMemory, UsedMemory: found.UsedMemory, RESP3: found.RESP3, text: found.String(),
	}
	inspection, err := client.Inspect(ctx)
	if err != nil {
		r.addError(err)
		return
	}
	for _, warning := range inspection.Warnings {
		r.add(severityWarning, "%s", warning)
	}
	if !r.checkPermissions(ctx, client, s.names) {
		return
	}
	if !r.measure(ctx, client, s) {
		return
	}
	r.checkSettings(ctx, client)
	r.fit(ctx, client, s.policies)
}

func (r *report) addError(err error) {
	if _, ok := errors.AsType[*redisclient.SetupError](err); ok || errors.Is(err, redisclient.ErrTooOld) {
		r.add(severityError, "%v", err)
		return
	}
	r.add(severityError, "Redis is unavailable: %v", err)
}

// checkPermissions returns false if the rest cannot be found out.
func (r *report) checkPermissions(ctx context.Context, client *redisclient.Client, names redischeck.Names) bool {
	all, err := redischeck.MissingPermissions(ctx, client, names)
	for _, m := range all {
		r.Permissions = append(r.Permissions, missing{m.Rule, m.Optional != "", m.Reply})
		severity := severityError
		if m.Optional != "" {
			severity = severityWarning
		}
		r.add(severity, "%s (%s)", m, m.Reply)
	}
	if err != nil {
		r.addError(err)
		return false
	}
	return !slices.ContainsFunc(all, func(m redischeck.Missing) bool { return m.Rule == "+time" })
}

// measure returns false if Redis is unavailable.
func (r *report) measure(ctx context.Context, client *redisclient.Client, s settings) bool {
	measured, err := redischeck.Measure(ctx, client, s.samples)
	if err != nil {
		r.addError(err)
		return false
	}
	for _, m := range measured {
		p := primary{
			Address: m.Clock.Primary, ClockAhead: m.Clock.Ahead.Seconds(), Samples: len(m.Trips),
			P50: percentile(m.Trips, 0.5), P90: percentile(m.Trips, 0.9), P99: percentile(m.Trips, 0.99), Max: percentile(m.Trips, 1),
		}
		r.Primaries = append(r.Primaries, p)
		if m.Clock.Ahead.Abs() > redisclient.MaxClockSkew {
			r.add(severityWarning, "%s", m.Clock)
		}
		if p.P99 > s.timeout.Seconds()/2 {
			r.add(severityWarning, "%s: one of 100 calls takes %.1f ms or longer, more than half of --redis-timeout %v: run limiters nearer to Redis, "+
				"or allow a longer timeout", p.Address, p.P99*1000, s.timeout)
		}
	}
	return true
}

// percentile returns the duration in seconds that the part of sorted durations does not exceed.
func percentile(sorted []time.Duration, part float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(math.Ceil(part*float64(len(sorted))))-1].Seconds()
}

// checkSettings adds warnings about settings that docs/how-to/run-on-redis.md recommends.
func (r *report) checkSettings(ctx context.Context, client *redisclient.Client) {
	if r.Server.Eviction != "" && r.Server.MaxMemory == 0 {
		r.add(severityWarning, "maxmemory is not set, so Weir does not know how full Redis is: set it, with maxmemory-policy noeviction")
	}
	if p := r.Server.Persistence; p != "" && p != redisclient.PersistenceOff {
		r.add(severityWarning, "Redis saves its data to disk (%s), and rejects writes while it cannot: if Redis is only for Weir, set save \"\" and appendonly no", p)
	}
	if redischeck.FullCoverage(ctx, client) {
		r.add(severityWarning, "cluster-require-full-coverage is yes: while one primary is unavailable, the others reject calls too; set it to no")
	}
	if r.Server.Mode == string(redisclient.ModeCluster) && r.Server.Replicas < r.Server.Primaries {
		r.add(severityWarning, "%s: a primary without a replica is not replaced when it fails", cli.Count(r.Server.Primaries, "primary", "primaries")+
			" with "+cli.Count(r.Server.Replicas, "replica", "replicas"))
	}
}

// fit computes how many identifiers of each policy fit into the free memory.
func (r *report) fit(ctx context.Context, client *redisclient.Client, policies []policyUse) {
	memory, err := client.Memory(ctx)
	if err != nil {
		r.addError(err)
		return
	}
	if memory.Rejects {
		r.FreeMemory = int64(float64(memory.Max) * (1 - memory.Used))
	}
	for _, p := range policies {
		p.Identifiers = r.FreeMemory / max(p.Bytes, 1)
		r.Policies = append(r.Policies, p)
	}
}

// compactBytes is the approximate memory of a compact counter, if there are a million.
const compactBytes = 27

// logEntryBytes is the memory of a request in a SlidingWindowLog.
const logEntryBytes = 8

// readPolicies returns the memory of each rate of the policies in a directory.
func readPolicies(path string) ([]policyUse, error) {
	if path == "" {
		return nil, nil
	}
	schema, err := apischema.New()
	if err != nil {
		return nil, err
	}
	loader := policyfile.NewLoader(compile.DefaultIdentity().WithHashKey(limiter.RandomHashKey()), schema)
	result, err := loader.Load(nil, path)
	if err != nil {
		return nil, fmt.Errorf("--policies: %w", err)
	}
	if len(result.Problems) > 0 {
		return nil, fmt.Errorf("--policies: %s; validate the files with weir lint", result.Problems[0])
	}
	all := make([]policyUse, len(result.Rules.Rules))
	for i := range result.Rules.Rules {
		rule := &result.Rules.Rules[i]
		all[i] = policyUse{Policy: rule.Policy, Bytes: bytesOf(rule)}
	}
	return all, nil
}

func bytesOf(rule *rules.Rule) int64 {
	traits := rule.Algorithm.Traits()
	switch {
	case rule.Compact:
		return compactBytes
	case traits.Log:
		return traits.RedisBytes + logEntryBytes*rule.Units
	default:
		return traits.RedisBytes
	}
}
