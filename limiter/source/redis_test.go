package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

// setOf returns a rule set that is identified by its number of units.
func setOf(units int64) (data []byte, revision string) {
	return rules.Encode(rules.Set{Rules: []rules.Rule{{
		Policy: "shop/tenant-daily", Domain: "shop", Axis: "Tenant",
		Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"},
		Algorithm:  limiter.SlidingWindowCounter, Units: units, WindowSeconds: 60,
	}}})
}

// applied remembers what a source applied.
type applied struct {
	mu        sync.Mutex
	revisions []string
	rejection error
}

func (a *applied) applyShards(_ *rules.Sharded, revision string) error {
	return a.apply(rules.Set{}, revision)
}

func (a *applied) apply(_ rules.Set, revision string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rejection != nil {
		return a.rejection
	}
	a.revisions = append(a.revisions, revision)
	return nil
}

func (a *applied) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.revisions)
}

func (a *applied) last() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.revisions) == 0 {
		return ""
	}
	return a.revisions[len(a.revisions)-1]
}

// logbook is a log that a test can search.
type logbook struct{ fixture.LockedBuffer }

func (l *logbook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logbook) count(text string) int { return strings.Count(l.String(), text) }

// running runs f until the test ends or calls stop. It must not leak a goroutine.
func running(t *testing.T, f func(context.Context)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { f(ctx) })
	stop = func() { cancel(); done.Wait() }
	t.Cleanup(stop)
	return stop
}

func exchangeAt(t *testing.T, url string) *controlplane.Exchange {
	t.Helper()
	client, err := redisclient.Open(url, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return controlplane.NewExchange(client, "weir:", "weir-system/default")
}

func publish(t *testing.T, e *controlplane.Exchange, units int64) (revision string) {
	t.Helper()
	data, revision := setOf(units)
	if _, err := e.Publish(t.Context(), rules.Encoded{Revision: revision, Data: data}, false); err != nil {
		t.Fatal(err)
	}
	return revision
}

func TestRedis_FollowsPublishedRuleSets(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("follow", func(t *testing.T) {
		e := exchangeAt(t, fixture.Redis(t).URL())
		var got applied
		r := NewRedis(e, "", got.applyShards, slog.New(slog.DiscardHandler))
		running(t, r.Run)

		fixture.Await(t, "Ready reports that nothing is published", func() bool {
			err := r.Ready()
			return err != nil && err.Error() == "no rules yet: no rule set published at weir:rules:weir-system/default"
		})
		for units := range int64(5) {
			want := publish(t, e, units+1)
			fixture.Await(t, "the rule set is active", func() bool { return got.last() == want })
		}
		fixture.Await(t, "it is ready", func() bool { return r.Ready() == nil })
	})
}

func TestRedis_ActivatesAnEditWithoutWaitingForThePoll(t *testing.T) {
	e := exchangeAt(t, fixture.Redis(t).URL())
	var got applied
	publish(t, e, 1)
	running(t, NewRedis(e, "", got.applyShards, slog.New(slog.DiscardHandler)).Run)
	fixture.Await(t, "the first rule set is active", func() bool { return got.count() == 1 })

	// Far below the poll interval of two seconds, so only the subscription can be this fast. One slow edit is allowed for a busy
	// machine.
	const edits, bound = 20, 500 * time.Millisecond
	slow := 0
	for i := range edits {
		begin := time.Now()
		want := publish(t, e, int64(i)+2)
		fixture.Await(t, "the edit is active", func() bool { return got.last() == want })
		if took := time.Since(begin); took > bound {
			slow++
		}
	}
	if slow > 1 {
		t.Errorf("%d of %d edits took more than %v", slow, edits, bound)
	}
}

func TestRedis_KeepsItsRulesDuringAnOutage(t *testing.T) {
	server := fixture.Redis(t)
	e := exchangeAt(t, server.URL())
	var got applied
	var log logbook
	server.Kill()
	r := NewRedis(e, "", got.applyShards, log.logger())
	running(t, r.Run)
	fixture.Await(t, "Ready reports that Redis is unreachable", func() bool {
		err := r.Ready()
		return err != nil && strings.HasPrefix(err.Error(), "no rules yet: Redis unreachable: ")
	})

	restart := func() {
		t.Helper()
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	restart()
	first := publish(t, e, 1)
	fixture.Await(t, "the first rule set is active", func() bool { return got.last() == first })

	unreachable := log.count("Redis unreachable")
	server.Kill()
	fixture.Await(t, "the loss of Redis is logged", func() bool { return log.count("Redis unreachable") > unreachable })
	if err := r.Ready(); err != nil || r.Origin() != "redis" {
		t.Errorf("Ready with rules: %v, from %q", err, r.Origin())
	}
	restart() // empty
	fixture.Await(t, "the loss of the rules is logged", func() bool { return log.count("no rule set published") > 0 })
	if err := r.Ready(); err != nil || r.Origin() != "redis" {
		t.Errorf("Ready with rules: %v, from %q", err, r.Origin())
	}
	second := publish(t, e, 2)
	fixture.Await(t, "the second rule set is active", func() bool { return got.last() == second })
}

func TestRedis_LogsAnOutageOnce(t *testing.T) {
	var log logbook
	var got applied
	stub := &stub{err: errors.New("dial tcp: connection refused")}
	running(t, NewRedis(stub, "", got.applyShards, log.logger()).Run)
	fixture.Await(t, "it has tried three times", func() bool { return stub.fetches() >= 3 })
	if n := log.count("level=WARN"); n != 1 || log.count(`msg="cannot fetch rules; no rules yet"`) != 1 {
		t.Errorf("%d warnings about one outage, want 1 that there are no rules yet:\n%s", n, &log)
	}
	data, revision := setOf(1)
	stub.set(revision, data)
	fixture.Await(t, "the rule set is active", func() bool { return got.last() == revision })
	fixture.Await(t, "its end is logged", func() bool { return log.count("level=INFO") == 1 })
}

// Rules that are active already are logged only at the end of an outage.
func TestRedis_LogsRulesWhenTheyChangeAndAfterAnOutage(t *testing.T) {
	first, firstRevision := setOf(1)
	second, secondRevision := setOf(2)
	s := &stub{}
	var log logbook
	var got applied
	r := NewRedis(s, "", got.applyShards, log.logger())
	steps := []struct {
		what   string
		change func()
		logged int
	}{
		{"the first rules", func() { s.set(firstRevision, first) }, 1},
		{"nothing has changed", func() {}, 1},
		{"other rules", func() { s.set(secondRevision, second) }, 2},
		{"Redis fails", func() { s.fail(errors.New("refused")) }, 2},
		{"Redis returns the same rules", func() { s.set(secondRevision, second) }, 3},
		{"nothing has changed since", func() {}, 3},
	}
	for _, step := range steps {
		step.change()
		_ = r.refresh(t.Context()) // fails while Redis does
		if n := log.count(`msg="activated rules"`); n != step.logged {
			t.Errorf("%s: %d lines, want %d:\n%s", step.what, n, step.logged, &log)
		}
	}
	if got.count() != 2 {
		t.Errorf("applied %d times, want twice", got.count())
	}
}

func TestRedis_RejectsAnInvalidRuleSet(t *testing.T) {
	good, goodRevision := setOf(1)
	other, otherRevision := setOf(2)
	tests := map[string]struct {
		data     []byte
		revision string
		apply    error // result of Apply
		want     string
	}{
		"data that is not a rule set":       {data: []byte("x"), revision: otherRevision, want: "rejected: decode rules"},
		"a rule set cut short":              {data: other[:len(other)/2], revision: otherRevision, want: "rejected: decode rules"},
		"a rule set under another revision": {data: good, revision: otherRevision, want: "rejected: the revision of the data is " + goodRevision},
		"a rule set that Apply rejects": {
			data: other, revision: otherRevision, apply: errors.New("rule shop/x: bad"), want: "rejected: rule shop/x: bad",
		},
		"a revision without rule set": {revision: otherRevision, want: "rejected: its key does not exist, or is empty"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got applied
			var log logbook
			stub := &stub{}
			stub.set(goodRevision, good)
			r := NewRedis(stub, "", got.applyShards, log.logger())
			if err := r.refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			got.rejection = test.apply
			stub.set(test.revision, test.data)
			for range 3 {
				if err := r.refresh(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
					t.Fatalf("error %v, want %q", err, test.want)
				}
			}
			if n := log.count("level=WARN"); n != 1 {
				t.Errorf("%d warnings about one rejection, want 1", n)
			}
			rejected := r.Rejected()
			if reason, is := strings.CutPrefix(test.want, "rejected: "); is != (rejected != nil) || (is && !strings.HasPrefix(rejected.Error(), reason)) {
				t.Errorf("Rejected: %v, want the part of %q after the colon", rejected, test.want)
			}
			stub.set(goodRevision, good)
			if err := r.refresh(t.Context()); err != nil || r.Rejected() != nil {
				t.Errorf("after the previous rule set is published again: %v, rejected: %v", err, r.Rejected())
			}
			if got.last() != goodRevision || r.Ready() != nil {
				t.Errorf("active revision %s, ready: %v; want the previous rule set", got.last(), r.Ready())
			}
		})
	}
}

func TestRedis_ReadyReturnsTheReason(t *testing.T) {
	data, revision := setOf(1)
	tests := map[string]struct {
		stub *stub
		want string
	}{
		"Redis fails":   {&stub{err: errors.New("refused")}, "no rules yet: Redis unreachable: try 1: refused"},
		"nothing there": {&stub{}, "no rules yet: no rule set published at here"},
		"not a set":     {&stub{revision: revision, data: data[:9]}, "no rules yet: rule set " + revision + " rejected: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got applied
			r := NewRedis(test.stub, "", got.applyShards, slog.New(slog.DiscardHandler))
			if err := r.Ready(); err == nil {
				t.Error("ready before the first fetch")
			}
			if err := r.refresh(t.Context()); err == nil {
				t.Error("no error without a rule set")
			}
			if err := r.Ready(); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("Ready: %v, want %s", err, test.want)
			}
		})
	}
}

// stub is a ruleSets with one rule set.
type stub struct {
	mu       sync.Mutex
	revision string
	data     []byte
	err      error
	calls    int
	shards   map[string][]byte
	asked    []string // hashes
}

func (s *stub) set(revision string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision, s.data, s.err = revision, data, nil
}

func (s *stub) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *stub) fetches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *stub) Current(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if s.calls++; s.err != nil {
		return "", fmt.Errorf("try %d: %w", s.calls, s.err)
	}
	return s.revision, nil
}

func (s *stub) Load(context.Context, string) (data []byte, found bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data, len(s.data) > 0, s.err
}

func (s *stub) Shards(_ context.Context, parts []rules.Part) (map[string][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string][]byte{}
	for _, part := range parts {
		s.asked = append(s.asked, part.Hash)
		if data, known := s.shards[part.Hash]; known {
			found[part.Hash] = data
		}
	}
	return found, nil
}

func (s *stub) Subscribe(ctx context.Context) <-chan string {
	never := make(chan string)
	context.AfterFunc(ctx, func() { close(never) })
	return never
}

func (s *stub) Channel() string { return "here" }
