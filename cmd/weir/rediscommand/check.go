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
	"github.com/weir-dev/weir/limiter/admin/adminapi"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisclient/redischeck"
	"github.com/weir-dev/weir/limiter/rules"
)

// Timeout is the timeout of each command of a client for [Check]: whether Redis is fast enough is measured.
const Timeout = time.Second

// Samples is the default of [Settings].
const Samples = 200

// Settings are those of [Check].
type Settings struct {
	Names   redischeck.Names
	Samples int           // round trips to each primary
	Timeout time.Duration // of decisions
	Rules   []rules.Rule  // whose memory is computed
}

// Check finds out everything about a Redis. What cannot be found out after an error is absent.
func Check(ctx context.Context, client *redisclient.Client, s *Settings) adminapi.RedisReport {
	r := report{adminapi.RedisReport{Usable: true, Findings: []adminapi.RedisFinding{}}}
	r.inspect(ctx, client, s)
	return r.RedisReport
}

// report is a report that is not complete yet.
type report struct{ adminapi.RedisReport }

func (r *report) add(severity, format string, arguments ...any) {
	r.Add(severity, fmt.Sprintf(format, arguments...))
}

func (r *report) inspect(ctx context.Context, client *redisclient.Client, s *Settings) {
	found, err := client.Discover(ctx)
	if err != nil {
		r.addError(err)
		return
	}
	r.Server = &adminapi.RedisServer{
		Description: found.String(),
		Product:     found.Product, Version: found.Version, Mode: string(found.Mode), Corrected: found.Corrected, Primaries: found.Primaries,
		Replicas: found.Replicas, Databases: found.Databases, Eviction: found.Eviction, Persistence: found.Persistence,
		MaxMemory: found.MaxMemory, UsedMemory: found.UsedMemory, RESP3: found.RESP3,
	}
	inspection, err := client.Inspect(ctx)
	if err != nil {
		r.addError(err)
		return
	}
	for _, warning := range inspection.Warnings {
		r.add(adminapi.RedisWarning, "%s", warning)
	}
	if !r.checkPermissions(ctx, client, s.Names) {
		return
	}
	if !r.measure(ctx, client, s) {
		return
	}
	r.checkSettings(ctx, client)
	r.fit(ctx, client, s.Rules)
}

func (r *report) addError(err error) {
	if _, ok := errors.AsType[*redisclient.SetupError](err); ok || errors.Is(err, redisclient.ErrTooOld) {
		r.add(adminapi.RedisError, "%v", err)
		return
	}
	r.add(adminapi.RedisError, "Redis is unavailable: %v", err)
}

// checkPermissions returns false if the rest cannot be found out.
func (r *report) checkPermissions(ctx context.Context, client *redisclient.Client, names redischeck.Names) bool {
	all, err := redischeck.MissingPermissions(ctx, client, names)
	for _, m := range all {
		r.Permissions = append(r.Permissions, adminapi.MissingRedisPermission{Rule: m.Rule, Optional: m.Optional != "", Reply: m.Reply})
		severity := adminapi.RedisError
		if m.Optional != "" {
			severity = adminapi.RedisWarning
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
func (r *report) measure(ctx context.Context, client *redisclient.Client, s *Settings) bool {
	measured, err := redischeck.Measure(ctx, client, s.Samples)
	if err != nil {
		r.addError(err)
		return false
	}
	for _, m := range measured {
		p := adminapi.RedisPrimary{
			Address: m.Clock.Primary, ClockAhead: m.Clock.Ahead.Seconds(), Samples: len(m.Trips),
			P50: percentile(m.Trips, 0.5), P90: percentile(m.Trips, 0.9), P99: percentile(m.Trips, 0.99), Max: percentile(m.Trips, 1),
		}
		r.Primaries = append(r.Primaries, p)
		if m.Clock.Ahead.Abs() > redisclient.MaxClockSkew {
			r.add(adminapi.RedisWarning, "%s", m.Clock)
		}
		if p.P99 > s.Timeout.Seconds()/2 {
			r.add(adminapi.RedisWarning, "%s: one of 100 calls takes %.1f ms or longer, more than half of --redis-timeout %v: run limiters nearer to Redis, "+
				"or allow a longer timeout", p.Address, p.P99*1000, s.Timeout)
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
		r.add(adminapi.RedisWarning, "maxmemory is not set, so Weir does not know how full Redis is: set it, with maxmemory-policy noeviction")
	}
	if p := r.Server.Persistence; p != "" && p != redisclient.PersistenceOff {
		r.add(adminapi.RedisWarning, "Redis saves its data to disk (%s), and rejects writes while it cannot: if Redis is only for Weir, "+
			"set save \"\" and appendonly no", p)
	}
	if redischeck.FullCoverage(ctx, client) {
		r.add(adminapi.RedisWarning, "cluster-require-full-coverage is yes: while one primary is unavailable, the others reject calls too; set it to no")
	}
	if r.Server.Mode == string(redisclient.ModeCluster) && r.Server.Replicas < r.Server.Primaries {
		r.add(adminapi.RedisWarning, "%s: a primary without a replica is not replaced when it fails", cli.Count(r.Server.Primaries, "primary", "primaries")+
			" with "+cli.Count(r.Server.Replicas, "replica", "replicas"))
	}
}

// fit computes how many identifiers of each policy fit into the free memory.
func (r *report) fit(ctx context.Context, client *redisclient.Client, all []rules.Rule) {
	memory, err := client.Memory(ctx)
	if err != nil {
		r.addError(err)
		return
	}
	if memory.Rejects {
		r.FreeMemory = int64(float64(memory.Max) * (1 - memory.Used))
	}
	for i := range all {
		size := bytesOf(&all[i])
		r.Policies = append(r.Policies, adminapi.RedisPolicyUse{Policy: all[i].Policy, Bytes: size, Identifiers: r.FreeMemory / max(size, 1)})
	}
}

// compactBytes is the approximate memory of a compact counter, if there are a million.
const compactBytes = 27

// logEntryBytes is the memory of a request in a SlidingWindowLog.
const logEntryBytes = 8

// readPolicies returns the rules of the policies in a directory.
func readPolicies(path string) ([]rules.Rule, error) {
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
	return result.Rules.Rules, nil
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
