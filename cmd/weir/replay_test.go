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
	"github.com/weir-dev/weir/test/fixture"
)

// hasRaceDetector is true if the test was built with the race detector.
var hasRaceDetector bool

// recordedPolicies has a policy for each algorithm, each with the requests of one path, and two policies that share the requests of another path.
func recordedPolicies() string {
	var text strings.Builder
	policy := func(name, axis, spec string) {
		fmt.Fprintf(&text, "---\napiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {namespace: shop, name: %s}\nspec: {axis: %s, %s}\n", name, axis, spec)
	}
	for _, algorithm := range limiter.Algorithms() {
		name := strings.ToLower(string(algorithm))
		spec := fmt.Sprintf("limit: 6, window: 2s, algorithm: %s, match: {http: {paths: [{type: PathPrefix, value: /%s}]}}", algorithm, name)
		if algorithm.Traits().Drains {
			spec += ", burst: 4"
		}
		policy(name, "Tenant", spec)
	}
	policy("both-tenant", "Tenant", "limit: 5, window: 1s, match: {http: {paths: [{type: PathPrefix, value: /both}]}}")
	policy("both-ip", "IP", "limit: 15, window: 3s, algorithm: FixedWindow, match: {http: {paths: [{type: PathPrefix, value: /both}]}}")
	return text.String()
}

// recordTraffic sends requests of several clients at the same time to a limiter with Redis, and returns its decision log.
func recordTraffic(t *testing.T, dir string, requests int) (text string, records []decisionlog.Record) {
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
				tenant := int(random.ExpFloat64() * 10)
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
	text = decisions.String()
	for decoder := json.NewDecoder(strings.NewReader(text)); decoder.More(); {
		var r decisionlog.Record
		if err := decoder.Decode(&r); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return text, records
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

// A limiter with Redis records what it decides, and the replay of the log makes each decision again. A run of a script decides several requests at one
// instant: of these, the one with the most units left was the first.
func TestReplay_ReproducesAProductionRun(t *testing.T) {
	requests := 100_000
	if hasRaceDetector {
		requests = 10_000 // it takes ten times as long
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "policies.yaml"), []byte(recordedPolicies()), 0o600); err != nil {
		t.Fatal(err)
	}
	text, log := recordTraffic(t, dir, requests)
	file := filepath.Join(t.TempDir(), "decisions.log")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	result := policyfile.NewLoader(compile.DefaultIdentity(), structure.Schema{}).Compile([]policyfile.File{{Name: "policies", Content: []byte(recordedPolicies())}})
	if len(result.Problems) > 0 {
		t.Fatal(result.Problems)
	}
	of, wrong, known, knownAtEnd := map[string]int{}, 0, 0, 0
	var report bytes.Buffer
	r, err := replay.New(replay.Options{Policies: result.Rules, Observe: func(record *accesslog.Record, results []engine.Result, allowed bool) {
		want, got := recordedOf(&log[record.Line-1]), replayed(results, allowed)
		source := log[record.Line-1].Source
		of[want.Policy+" "+want.Result+" "+string(source)]++
		if source == engine.SourceCache { // by the clock of the limiter, not by that of Redis, and only about policies that are known to deny
			if known++; got.Result != want.Result {
				knownAtEnd++
			}
			return
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
	reader, err := accesslog.Open(t.Context(), []string{file}, accesslog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := r.Run(t.Context(), reader); err != nil {
		t.Fatal(err)
	}
	if n := r.Requests(); n != int64(requests) {
		t.Errorf("%d requests were replayed, want %d", n, requests)
	}
	t.Logf("%d decisions: %v", len(log), of)
	if knownAtEnd > known/1000 { // at the end of a wait, the two clocks can differ
		t.Errorf("%d of %d known denials are not reproduced", knownAtEnd, known)
	}
	if wrong > 0 {
		t.Errorf("%d of %d decisions differ:\n%s", wrong, len(log), &report)
	}
	for _, algorithm := range limiter.Algorithms() {
		name := "shop/" + strings.ToLower(string(algorithm))
		if of[name+" allowed redis"] < requests/500 || of[name+" denied redis"]+of[name+" denied cache"] < requests/100 {
			t.Errorf("%s: too few decisions to prove anything", name)
		}
	}
}
