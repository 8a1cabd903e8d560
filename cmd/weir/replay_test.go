package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-dev/weir/cmd/weir/flags"
	"github.com/weir-dev/weir/internal/accesslog"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/structure"
	"github.com/weir-dev/weir/internal/replay"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/decisionlog"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

// recordedPolicies has a policy for each algorithm, each with the requests of one path, and two policies that share the requests of another path.
func recordedPolicies() string {
	var text strings.Builder
	policy := func(name, axis, spec string) {
		fmt.Fprintf(&text, "---\napiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {namespace: shop, name: %s}\nspec: {axis: %s, %s}\n", name, axis, spec)
	}
	for _, algorithm := range limiter.Algorithms() {
		name := strings.ToLower(string(algorithm))
		spec := fmt.Sprintf("limit: 20, window: 2s, algorithm: %s, match: {http: {paths: [{type: PathPrefix, value: /%s}]}}", algorithm, name)
		if algorithm.Traits().Drains {
			spec += ", burst: 5"
		}
		policy(name, "Tenant", spec)
	}
	policy("both-tenant", "Tenant", "limit: 15, window: 1s, match: {http: {paths: [{type: PathPrefix, value: /both}]}}")
	policy("both-ip", "IP", "limit: 40, window: 3s, algorithm: FixedWindow, match: {http: {paths: [{type: PathPrefix, value: /both}]}}")
	return text.String()
}

// recordTraffic sends requests of several clients at once to a limiter with Redis, and returns its decision log.
func recordTraffic(t *testing.T, dir string, requests int) (records []decisionlog.Record) {
	t.Helper()
	log, decisions := &Transcript{}, &fixture.LockedBuffer{}
	sockets, counters := anyPort, countersOf("weir:")
	counters.timeout = 10 * time.Second // an outage would be another decision
	sockets.decisionLog = flags.DecisionLog{Denials: 1 << 40, Sample: 1, Identifiers: "Counted", Out: decisions}
	launch(t, func(ctx context.Context) error {
		f := serveFlags{policies: dir, redis: fixture.Redis(t).URL(), counters: counters, sockets: sockets}
		return runServe(ctx, f, io.Discard, log.Logger())
	})
	base := "http://" + find(t, log, `msg=serving listen=(\S+)`)
	const clients = 16
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(client)))
			for range requests / clients {
				algorithms := limiter.Algorithms()
				path := "/both"
				if n := random.IntN(len(algorithms) + 1); n < len(algorithms) {
					path = "/" + strings.ToLower(string(algorithms[n]))
				}
				tenant := int(random.ExpFloat64() * 30)
				_, err := fixture.Check(t.Context(), base, fixture.CheckRequest{
					Domain: "shop", Method: "GET", Path: path, Headers: map[string]string{"x-tenant-id": fmt.Sprint("tenant-", tenant)},
					ClientIP: fmt.Sprintf("192.0.2.%d", random.IntN(40)),
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	fixture.Await(t, "the end of the decision log", func() bool { return strings.Count(decisions.String(), "\n") == requests })
	for decoder := json.NewDecoder(strings.NewReader(decisions.String())); decoder.More(); {
		var r decisionlog.Record
		if err := decoder.Decode(&r); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

// recorded is a decision in a comparison.
type recorded struct {
	Result, Policy, Identifier string
	Limit, Remaining           int64
	RetryAfterMs               int64
	Denied, ShadowDenied       string
}

func recordedOf(r *decisionlog.Record) recorded {
	return recorded{
		r.Result, r.Policy, r.Identifier, r.Limit, r.Remaining, r.RetryAfterMs, strings.Join(r.Denied, " "), strings.Join(r.ShadowDenied, " "),
	}
}

// replayed is a decision of a replay, in the form of the decision log.
func replayed(results []engine.Result, allowed bool) recorded {
	results = slices.SortedStableFunc(slices.Values(results), engine.CompareResults)
	first := &results[0]
	r := recorded{Result: "allowed", Policy: first.Rule.Policy, Identifier: first.Identifier, Limit: first.Decision.Limit, Remaining: first.Remaining}
	if !allowed {
		r.Result = "denied"
		r.RetryAfterMs = int64((first.RetryAfter + time.Millisecond - 1) / time.Millisecond)
	}
	var denied []string
	for i := range results {
		if !results[i].Allowed {
			denied = append(denied, results[i].Rule.Policy)
		}
	}
	r.Denied = strings.Join(denied, " ")
	return r
}

// recordsOf is a replay.Source of a decision log, in the order of its decisions.
type recordsOf struct{ records []accesslog.Record }

func (s *recordsOf) Next(context.Context) ([]accesslog.Record, error) {
	if len(s.records) == 0 {
		return nil, io.EOF
	}
	n := min(len(s.records), 1000)
	batch := s.records[:n:n]
	s.records = s.records[n:]
	return batch, nil
}

func newRecordsOf(log []decisionlog.Record) *recordsOf {
	s := &recordsOf{}
	for i := range log {
		r := &log[i]
		record := accesslog.Record{Start: r.DecidedAt, Line: i, Recorded: &accesslog.Recorded{
			Endpoint: r.Endpoint, Result: r.Result, Policy: r.Policy, Axis: r.Axis, Identifier: r.Identifier, Tier: r.Tier, Limit: r.Limit, Remaining: r.Remaining,
		}}
		for _, other := range r.Others {
			record.Recorded.Others = append(record.Recorded.Others, accesslog.Other(other))
		}
		record.Request = rules.Request{Domain: r.Domain, Host: r.Host, Method: r.Method, Path: r.Path}
		s.records = append(s.records, record)
	}
	return s
}

// A limiter with Redis records what it decides, and the replay of the log makes each decision again. A run of a script decides several requests at one
// instant: of these, the one with the most units left was the first.
func TestReplay_ReproducesAProductionRun(t *testing.T) {
	const requests = 100_000
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "policies.yaml"), []byte(recordedPolicies()), 0o600); err != nil {
		t.Fatal(err)
	}
	log := recordTraffic(t, dir, requests)
	slices.SortStableFunc(log, func(a, b decisionlog.Record) int { return a.DecidedAt.Compare(b.DecidedAt) })
	result := policyfile.NewLoader(compile.DefaultIdentity(), structure.Schema{}).Compile([]policyfile.File{{Name: "policies", Content: []byte(recordedPolicies())}})
	if len(result.Problems) > 0 {
		t.Fatal(result.Problems)
	}
	of, wrong := map[string]int{}, 0
	var report bytes.Buffer
	r, err := replay.New(replay.Options{Policies: result.Rules, Observe: func(record *accesslog.Record, results []engine.Result, allowed bool) {
		want, got := recordedOf(&log[record.Line]), replayed(results, allowed)
		source := log[record.Line].Source
		of[want.Policy+" "+want.Result+" "+string(source)]++
		if source == engine.SourceCache { // made by the clock of the limiter, up to a round trip off, about the policies that are known to deny
			want.RetryAfterMs, got.RetryAfterMs = 0, 0
		}
		if got != want {
			if wrong++; wrong <= 10 {
				fmt.Fprintf(&report, "%v, %s:\n  %+v, want\n  %+v\n", record.Start, source, got, want)
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context(), newRecordsOf(log)); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d decisions: %v", len(log), of)
	if wrong > 0 {
		t.Errorf("%d of %d decisions differ:\n%s", wrong, len(log), &report)
	}
	for _, algorithm := range limiter.Algorithms() {
		name := "shop/" + strings.ToLower(string(algorithm))
		if of[name+" allowed redis"] < 1000 || of[name+" denied redis"]+of[name+" denied cache"] < 1000 {
			t.Errorf("%s: too few decisions to prove anything", name)
		}
	}
}
