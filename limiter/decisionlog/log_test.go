package decisionlog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/bypass"
	"github.com/weir-dev/weir/limiter/decisionlog"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

func hashKey(t *testing.T) *limiter.HashKey {
	t.Helper()
	key, err := limiter.NewHashKey(bytes.Repeat([]byte("k"), 32))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// logging is an engine with a decision log.
type logging struct {
	*engine.Engine

	log      *decisionlog.Log
	registry *prometheus.Registry
	bypasses *bypass.List
}

// newLogging has the policies shop/tenant of 2 units, shop/key, which counts API keys, and shop/trial, a Shadow policy of 1 unit.
func newLogging(t *testing.T, o decisionlog.Options) *logging {
	t.Helper()
	if o.Identifiers == "" {
		o.Identifiers = decisionlog.Counted
	}
	l := &logging{registry: prometheus.NewPedanticRegistry(), bypasses: bypass.NewList(time.Now)}
	var err error
	if l.log, err = decisionlog.New(o, l.registry); err != nil {
		t.Fatal(err)
	}
	rule := func(policy, header string, units int64) rules.Rule {
		return rules.Rule{
			Policy: policy, Domain: "shop", Axis: "Tenant", Identifier: rules.Identifier{From: rules.FromHeader, Name: header},
			Algorithm: limiter.FixedWindow, Units: units, WindowSeconds: 3600,
		}
	}
	key, tenant, trial := rule("shop/key", "x-api-key", 2), rule("shop/tenant", "x-tenant-id", 2), rule("shop/trial", "x-tenant-id", 1)
	key.Identifier.Secret, trial.Shadow = true, true
	key.Match.Headers = []rules.HeaderMatch{{Type: rules.HeaderPresent, Name: "x-api-key"}}
	tenant.Match.Headers = []rules.HeaderMatch{{Type: rules.HeaderPresent, Name: "x-tenant-id"}}
	trial.Match.Headers = tenant.Match.Headers
	hash := hashKey(t)
	x, err := matching.NewIndex(rules.Set{Rules: []rules.Rule{key, tenant, trial}, HashKey: hash.ID()}, "sha256:1", "weir:", matching.WithHashKey(hash))
	if err != nil {
		t.Fatal(err)
	}
	l.Engine = engine.New(memstore.New(time.Now), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()), engine.ObserveDecisions(l.log),
		engine.WithBypasses(l.bypasses))
	l.Swap(x)
	return l
}

func (l *logging) check(t *testing.T, n int, header, value string) {
	t.Helper()
	for range n {
		c := &engine.Check{Endpoint: "check", Cost: 1, Request: rules.Request{
			Domain: "shop", Method: "GET", Path: "/v1/" + strings.Repeat("x", 300), Headers: map[string]string{header: value},
		}}
		if _, err := l.Check(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}

// A replay of the log needs the instant by the clock of the counters, which can differ from that of the limiter, and what else the decision depends on.
func TestLog_WritesTheInstantOfTheDecision(t *testing.T) {
	var out bytes.Buffer
	l := newLogging(t, decisionlog.Options{SampleOneIn: 1, Identifiers: decisionlog.Hashed, HashKey: hashKey(t), Handler: slog.NewJSONHandler(&out, nil)})
	at := time.Date(2026, 11, 1, 12, 0, 0, 123_400_000, time.UTC)
	tenant, _ := l.Index().RuleOf("shop/tenant")
	key, _ := l.Index().RuleOf("shop/key")
	answer := &engine.Answer{Allowed: true, Results: []engine.Result{
		{Rule: tenant, Identifier: "acme", Decision: limiter.Decision{At: limiter.At(at), Allowed: true}},
		{Rule: key, Identifier: "hashed before", Tier: "paid", Decision: limiter.Decision{Allowed: true, Limit: 9, Remaining: 7}},
	}}
	none := &engine.Answer{Results: []engine.Result{{Rule: tenant, Identifier: "acme"}}}
	l.written(func() {
		l.log.Decided(l.log.Select("shop", false), &engine.Check{Cost: 3, Request: rules.Request{Host: "api.shop.example"}}, answer, true)
		l.log.Decided(l.log.Select("shop", false), &engine.Check{Cost: 1}, none, true)
	})
	records := lines(t, &out)
	others := []any{map[string]any{"policy": "shop/key", "identifier": "hashed before", "tier": "paid", "limit": 9.0, "remaining": 7.0}}
	for field, want := range map[string]any{"decidedAt": "2026-11-01T12:00:00.123400Z", "cost": 3.0, "host": "api.shop.example", "others": others} {
		if diff := cmp.Diff(want, records[0][field]); diff != "" {
			t.Errorf("%s: %s", field, diff)
		}
		if is, has := records[1][field]; has {
			t.Errorf("%s is %v, want it to be absent", field, is)
		}
	}
	if acme := hashKey(t).Hash("acme"); records[0]["identifier"] != acme {
		t.Errorf("identifier %v, want the hash %s", records[0]["identifier"], acme)
	}
}

// written runs do while the log is written to out.
func (l *logging) written(do func()) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.log.Run(ctx)
	}()
	do()
	stop()
	<-done
}

func lines(t *testing.T, out *bytes.Buffer) (records []map[string]any) {
	t.Helper()
	for decoder := json.NewDecoder(out); decoder.More(); {
		var record map[string]any
		if err := decoder.Decode(&record); err != nil {
			t.Fatal(err)
		}
		records = append(records, record)
	}
	return records
}

func (l *logging) counted(t *testing.T, want string) {
	t.Helper()
	if err := testutil.GatherAndCompare(l.registry, strings.NewReader(want), "weir_decision_log_dropped_total"); err != nil {
		t.Error(err)
	}
}

func TestLog_WritesDenials(t *testing.T) {
	var out bytes.Buffer
	l := newLogging(t, decisionlog.Options{DenialsPerSecond: 100, Handler: slog.NewJSONHandler(&out, nil)})
	l.written(func() { l.check(t, 3, "x-tenant-id", "acme") })
	records := lines(t, &out)
	if len(records) != 2 { // the second one is only denied by the Shadow policy
		t.Fatalf("%d records: %v", len(records), records)
	}
	for _, r := range records {
		if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(r["time"])); err != nil {
			t.Error(err)
		}
		delete(r, "time")
		at, err := time.Parse("2006-01-02T15:04:05.000000Z", fmt.Sprint(r["decidedAt"]))
		if passed := time.Since(at); err != nil || passed < 0 || passed > time.Minute {
			t.Errorf("decidedAt is %v (%v)", r["decidedAt"], err)
		}
		delete(r, "decidedAt")
	}
	retry := records[1]["retryAfterMs"]
	delete(records[1], "retryAfterMs")
	path := "/v1/" + strings.Repeat("x", 249) + "…"
	others := []any{map[string]any{"policy": "shop/trial", "identifier": "acme", "limit": 1.0, "remaining": 0.0}}
	want := []map[string]any{
		{
			"level": "INFO", "msg": "decision", "endpoint": "check", "result": "allowed", "domain": "shop", "method": "GET", "path": path, "others": others,
			"policy": "shop/tenant", "axis": "Tenant", "identifier": "acme", "limit": 2.0, "remaining": 0.0, "source": "memory",
			"shadowDenied": []any{"shop/trial"}, "revision": "sha256:1",
		},
		{
			"level": "INFO", "msg": "decision", "endpoint": "check", "result": "denied", "domain": "shop", "method": "GET", "path": path, "others": others,
			"policy": "shop/tenant", "axis": "Tenant", "identifier": "acme", "limit": 2.0, "remaining": 0.0, "source": "memory",
			"denied": []any{"shop/tenant"}, "shadowDenied": []any{"shop/trial"}, "revision": "sha256:1",
		},
	}
	if diff := cmp.Diff(want, records); diff != "" {
		t.Error(diff)
	}
	if ms, is := retry.(float64); !is || ms < 1 || ms > 3_600_000 {
		t.Errorf("retryAfterMs is %v", retry)
	}
}

// The lines of the log and the stream of the admin endpoint have the same fields.
func TestRecord_JSONHasTheFieldsOfTheLog(t *testing.T) {
	var out bytes.Buffer
	l := newLogging(t, decisionlog.Options{DenialsPerSecond: 100, Handler: slog.NewJSONHandler(&out, nil)})
	follower, err := l.log.Follow(decisionlog.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.log.Unfollow(follower)
	l.written(func() { l.check(t, 3, "x-tenant-id", "acme") })
	logged := lines(t, &out)
	if len(logged) != 2 {
		t.Fatalf("%d denials of a follower are logged, want 2", len(logged))
	}
	for _, want := range logged {
		text, err := json.Marshal(<-follower.Records())
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]any{}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		want = maps.Clone(want)
		delete(want, "level")
		delete(want, "msg")
		if want["result"] == "allowed" { // the follower sees the denial first
			continue
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
			t.Error(diff)
		}
	}
}

func TestLog_ShowsIdentifiersAsConfigured(t *testing.T) {
	hash := hashKey(t)
	for identifiers, want := range map[decisionlog.Identifiers][2]any{
		decisionlog.Counted: {"acme", hash.Hash("sk-1")},
		decisionlog.Hashed:  {hash.Hash("acme"), hash.Hash("sk-1")},
		decisionlog.Omitted: {nil, nil},
	} {
		var out bytes.Buffer
		l := newLogging(t, decisionlog.Options{SampleOneIn: 1, Identifiers: identifiers, HashKey: hash, Handler: slog.NewJSONHandler(&out, nil)})
		l.written(func() {
			l.check(t, 1, "x-tenant-id", "acme")
			l.check(t, 1, "x-api-key", "sk-1")
		})
		if strings.Contains(out.String(), "sk-1") {
			t.Errorf("%s: an API key in %s", identifiers, &out)
		}
		if r := lines(t, &out); len(r) != 2 || r[0]["identifier"] != want[0] || r[1]["identifier"] != want[1] {
			t.Errorf("%s: %v, want %v", identifiers, r, want)
		}
	}
}

func TestLog_BoundsDenialsPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := newLogging(t, decisionlog.Options{DenialsPerSecond: 3, Handler: slog.NewJSONHandler(&out, nil)})
		l.written(func() {
			l.check(t, 2+10, "x-tenant-id", "acme") // the second one is a denial of the Shadow policy
			time.Sleep(time.Second)
			l.check(t, 5, "x-tenant-id", "acme")
		})
		if n := len(lines(t, &out)); n != 6 {
			t.Errorf("%d records, want 3 in each second", n)
		}
		l.counted(t, dropped(0, 10))
	})
}

func dropped(queue, rate int) string {
	return fmt.Sprintf(`# HELP weir_decision_log_dropped_total Decisions that should have been logged and were not, because of --decision-log-denials (reason rate), or because the log is written too slowly (reason queue).
# TYPE weir_decision_log_dropped_total counter
weir_decision_log_dropped_total{reason="queue"} %d
weir_decision_log_dropped_total{reason="rate"} %d
`, queue, rate)
}

func TestLog_SamplesOtherDecisions(t *testing.T) {
	var out bytes.Buffer
	l := newLogging(t, decisionlog.Options{SampleOneIn: 10, Handler: slog.NewJSONHandler(&out, nil)})
	const requests = 3000
	l.written(func() {
		for i := range requests {
			l.check(t, 1, "x-tenant-id", strconv.Itoa(i))
		}
	})
	if n := len(lines(t, &out)); n < 200 || n > 400 { // six standard deviations
		t.Errorf("%d of %d records, want about %d", n, requests, requests/10)
	}
}

func TestLog_NeverWaitsForItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writes, release := io.Pipe()
		l := newLogging(t, decisionlog.Options{DenialsPerSecond: 5000, SampleOneIn: 1, Handler: slog.NewJSONHandler(release, nil)})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.log.Run(ctx)
		}()
		for i := range 5000 {
			l.check(t, 1, "x-tenant-id", strconv.Itoa(i))
			synctest.Wait()
		}
		const samples = 5000 - 2048 - 1 // half of the queue is for denials, and one record is being written
		l.counted(t, dropped(samples, 0))
		l.check(t, 1+2048, "x-tenant-id", "acme") // all but the first are denials, of the Shadow policy at least
		l.counted(t, dropped(samples+1, 0))
		l.check(t, 10, "x-tenant-id", "acme")
		l.counted(t, dropped(samples+1+10, 0))
		stop()
		began := time.Now()
		<-done
		if took := time.Since(began); took != time.Second {
			t.Errorf("the end took %v, want one second", took)
		}
		_ = writes.Close() // ends the write
	})
}

func TestRun_EndsWhenAllIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := newLogging(t, decisionlog.Options{SampleOneIn: 1, Handler: slog.NewJSONHandler(&out, nil)})
		began := time.Now()
		l.written(func() { l.check(t, 100, "x-tenant-id", "acme") })
		if took, n := time.Since(began), len(lines(t, &out)); took > 0 || n != 1 { // the others are denials
			t.Errorf("%d records after %v, want 1 immediately", n, took)
		}
	})
}

// fullDisk is a log that cannot be written.
type fullDisk struct{ slog.Handler }

// Handle implements slog.Handler.
func (fullDisk) Handle(context.Context, slog.Record) error {
	return errors.New("no space left on device")
}

func TestLog_CountsWhatCannotBeWritten(t *testing.T) {
	l := newLogging(t, decisionlog.Options{SampleOneIn: 1, Handler: fullDisk{}})
	l.written(func() { l.check(t, 1, "x-tenant-id", "acme") })
	l.counted(t, dropped(1, 0))
}

func TestNew_RejectsInvalidOptions(t *testing.T) {
	for want, o := range map[string]decisionlog.Options{
		"must not be negative":  {DenialsPerSecond: -1, Identifiers: decisionlog.Counted},
		"one in -1":             {SampleOneIn: -1, Identifiers: decisionlog.Counted},
		`"Plain" is invalid`:    {Identifiers: "Plain"},
		"Hashed requires a has": {Identifiers: decisionlog.Hashed},
	} {
		if _, err := decisionlog.New(o, prometheus.NewRegistry()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}
