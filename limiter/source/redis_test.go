package source

import (
	"bytes"
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

// setOf is a rule set that differs by its number of units.
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
	refuse    error
}

func (a *applied) apply(_ rules.Set, revision string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refuse != nil {
		return a.refuse
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

// logbook is a log to look into.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logbook) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// running runs f until the test, or the function returned, ends it. It must leave no goroutine behind.
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
	if _, err := e.Publish(t.Context(), revision, data); err != nil {
		t.Fatal(err)
	}
	return revision
}

func TestRedisFollowsWhatIsPublished(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("follow", func(t *testing.T) {
		e := exchangeAt(t, fixture.Redis(t).URL())
		var got applied
		r := NewRedis(e, "", got.apply, slog.New(slog.DiscardHandler))
		running(t, r.Run)

		fixture.Await(t, "it says that nothing is published", func() bool {
			err := r.Ready()
			return err != nil && err.Error() == "no rules yet: no rule set published at weir:rules:weir-system/default"
		})
		for units := range int64(5) {
			want := publish(t, e, units+1)
			fixture.Await(t, "the rule set is in force", func() bool { return got.last() == want })
		}
		fixture.Await(t, "it is ready", func() bool { return r.Ready() == nil })
	})
}

func TestRedisPropagation(t *testing.T) {
	e := exchangeAt(t, fixture.Redis(t).URL())
	var got applied
	publish(t, e, 1)
	running(t, NewRedis(e, "", got.apply, slog.New(slog.DiscardHandler)).Run)
	fixture.Await(t, "the first rule set is in force", func() bool { return got.count() == 1 })

	// Far below the poll interval: it is the subscription that does it. One slow edit is forgiven to a busy machine.
	const edits, bound = 20, pollInterval / 4
	slow := 0
	for i := range edits {
		begin := time.Now()
		want := publish(t, e, int64(i)+2)
		fixture.Await(t, "the edit is in force", func() bool { return got.last() == want })
		if took := time.Since(begin); took > bound {
			slow++
		}
	}
	if slow > 1 {
		t.Errorf("%d of %d edits took more than %v", slow, edits, bound)
	}
}

func TestRedisOutlivesRedis(t *testing.T) {
	server := fixture.Redis(t)
	e := exchangeAt(t, server.URL())
	var got applied
	var log logbook
	server.Kill()
	r := NewRedis(e, "", got.apply, log.logger())
	running(t, r.Run)
	fixture.Await(t, "it says that Redis is away", func() bool {
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
	fixture.Await(t, "the first rule set is in force", func() bool { return got.last() == first })

	unreachable := log.count("Redis unreachable")
	server.Kill()
	fixture.Await(t, "the loss of Redis is logged", func() bool { return log.count("Redis unreachable") > unreachable })
	if err := r.Ready(); err != nil || r.Origin() != "redis" {
		t.Errorf("it has rules, and says %v, from %q", err, r.Origin())
	}
	restart() // empty
	fixture.Await(t, "the loss of the rules is logged", func() bool { return log.count("no rule set published") > 0 })
	if err := r.Ready(); err != nil || r.Origin() != "redis" {
		t.Errorf("it has rules, and says %v, from %q", err, r.Origin())
	}
	second := publish(t, e, 2)
	fixture.Await(t, "the second rule set is in force", func() bool { return got.last() == second })
}

func TestRedisLogsAnOutageOnce(t *testing.T) {
	var log logbook
	var got applied
	stub := &stub{err: errors.New("dial tcp: connection refused")}
	running(t, NewRedis(stub, "", got.apply, log.logger()).Run)
	fixture.Await(t, "it has tried three times", func() bool { return stub.asked() >= 3 })
	if n := log.count("level=WARN"); n != 1 {
		t.Errorf("%d warnings of one outage, want 1", n)
	}
	data, revision := setOf(1)
	stub.set(revision, data)
	fixture.Await(t, "the rule set is in force", func() bool { return got.last() == revision })
	fixture.Await(t, "its end is logged", func() bool { return log.count("level=INFO") == 1 })
}

func TestRedisRefuses(t *testing.T) {
	good, goodRevision := setOf(1)
	other, otherRevision := setOf(2)
	tests := map[string]struct {
		data     []byte
		revision string
		refuse   error // of the limiter
		says     string
	}{
		"data that is no rule set":          {data: []byte("x"), revision: otherRevision, says: "refused: decode rules"},
		"a rule set cut short":              {data: other[:len(other)/2], revision: otherRevision, says: "refused: decode rules"},
		"a rule set under another revision": {data: good, revision: otherRevision, says: "refused: its content is " + goodRevision},
		"a rule set that the limiter refuses": {
			data: other, revision: otherRevision, refuse: errors.New("rule shop/x: bad"), says: "refused: rule shop/x: bad",
		},
		"a revision without rule set": {revision: otherRevision, says: "is missing"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got applied
			var log logbook
			stub := &stub{}
			stub.set(goodRevision, good)
			r := NewRedis(stub, "", got.apply, log.logger())
			if err := r.follow(t.Context()); err != nil {
				t.Fatal(err)
			}
			got.refuse = test.refuse
			stub.set(test.revision, test.data)
			for range 3 {
				if err := r.follow(t.Context()); err == nil || !strings.Contains(err.Error(), test.says) {
					t.Fatalf("error %v, want one that says %q", err, test.says)
				}
			}
			if n := log.count("level=WARN"); n != 1 {
				t.Errorf("%d warnings of one refusal, want 1", n)
			}
			if got.last() != goodRevision || r.Ready() != nil {
				t.Errorf("in force %s, ready: %v; want the rule set before", got.last(), r.Ready())
			}
		})
	}
}

func TestRedisSaysWhyItIsNotReady(t *testing.T) {
	data, revision := setOf(1)
	tests := map[string]struct {
		stub *stub
		want string
	}{
		"Redis is away": {&stub{err: errors.New("refused")}, "no rules yet: Redis unreachable: try 1: refused"},
		"nothing there": {&stub{}, "no rules yet: no rule set published at here"},
		"not a set":     {&stub{revision: revision, data: data[:9]}, "no rules yet: rule set " + revision + " refused: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got applied
			r := NewRedis(test.stub, "", got.apply, slog.New(slog.DiscardHandler))
			if err := r.Ready(); err == nil {
				t.Error("ready before it was asked to look")
			}
			if err := r.follow(t.Context()); err == nil {
				t.Error("nothing to follow, and yet no error")
			}
			if err := r.Ready(); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("Ready says %v, want %s", err, test.want)
			}
		})
	}
}

// stub is a published that holds one rule set.
type stub struct {
	mu       sync.Mutex
	revision string
	data     []byte
	err      error
	calls    int
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

func (s *stub) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *stub) Current(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls++; s.err != nil {
		return "", fmt.Errorf("try %d: %w", s.calls, s.err)
	}
	return s.revision, nil
}

func (s *stub) Load(context.Context, string) (data []byte, found bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data, s.data != nil, s.err
}

func (s *stub) Subscribe(ctx context.Context) <-chan string {
	never := make(chan string)
	context.AfterFunc(ctx, func() { close(never) })
	return never
}

func (s *stub) Channel() string { return "here" }
