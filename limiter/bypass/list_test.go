package bypass_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-dev/weir/limiter/bypass"
)

func of(name string, now time.Time, lasts time.Duration) bypass.Bypass {
	return bypass.Bypass{
		Name: name, Policy: "shop/daily", Identifier: "acme", Reason: "INC-1", CreatedBy: "jane", CreatedAt: now, ExpiresAt: now.Add(lasts),
	}
}

func add(t *testing.T, l *bypass.List, b bypass.Bypass) {
	t.Helper()
	if _, err := l.Add(b); err != nil {
		t.Fatal(err)
	}
}

func TestAdd_RejectsWhatIsNotBounded(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for want, change := range map[string]func(*bypass.Bypass){
		"":                      func(*bypass.Bypass) {},
		"last from 1s to 24h":   func(b *bypass.Bypass) { b.ExpiresAt = now.Add(24*time.Hour + time.Second) },
		"last from 1s":          func(b *bypass.Bypass) { b.ExpiresAt = now },
		"in the future":         func(b *bypass.Bypass) { *b = of("a", now.Add(6*time.Minute), time.Hour) },
		"has expired":           func(b *bypass.Bypass) { *b = of("a", now.Add(-time.Hour), time.Hour) },
		"the reason":            func(b *bypass.Bypass) { b.Reason = " " },
		"the reason must":       func(b *bypass.Bypass) { b.Reason = strings.Repeat("x", 1001) },
		"name of a user":        func(b *bypass.Bypass) { b.CreatedBy = strings.Repeat("x", 1001) },
		"name the user":         func(b *bypass.Bypass) { b.CreatedBy = "" },
		"the name":              func(b *bypass.Bypass) { b.Name = "" },
		"the policy":            func(b *bypass.Bypass) { b.Policy = "" },
		"must have an":          func(b *bypass.Bypass) { b.Identifier = "" },
		"or allIdentifiers":     func(b *bypass.Bypass) { b.AllIdentifiers = true },
		"the identifier must":   func(b *bypass.Bypass) { b.Identifier = strings.Repeat("x", 4097) },
		"must have 1 to 600":    func(b *bypass.Bypass) { b.Name = strings.Repeat("x", 601) },
		"policy of a bypass mu": func(b *bypass.Bypass) { b.Policy = strings.Repeat("x", 601) },
	} {
		l, b := bypass.NewList(func() time.Time { return now }), of("a", now, 24*time.Hour)
		change(&b)
		if _, err := l.Add(b); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if (l.Active() != nil) != (want == "") {
			t.Errorf("%q: active %v", want, l.Active())
		}
	}
}

func TestAdd_BoundsTheBypassesOfANamespace(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	l := bypass.NewList(func() time.Time { return now })
	for i := range 100 {
		add(t, l, of(fmt.Sprint("b", i), now, time.Minute))
	}
	add(t, l, of("b99", now, time.Minute)) // exists already
	if _, err := l.Add(of("more", now, time.Minute)); err == nil || !strings.Contains(err.Error(), "namespace shop have 100 bypasses and blocks, of at most 100") {
		t.Errorf("%v", err)
	}
	other := of("other", now, time.Minute)
	other.Policy = "bank/daily"
	add(t, l, other)
	l.End("b7", "joe")
	add(t, l, of("more", now, time.Minute))
	now = now.Add(time.Minute)
	add(t, l, of("later", now, time.Minute))
	if all := l.All(); len(all) != 1 {
		t.Errorf("expired bypasses remain: %d", len(all))
	}
}

func TestFind_LetsTheIdentifierPassUntilTheEnd(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	l := bypass.NewList(func() time.Time { return now })
	short, long := of("short", now, time.Minute), of("long", now, time.Hour)
	each := of("all", now, 2*time.Minute)
	each.Identifier, each.AllIdentifiers = "", true
	for _, b := range []bypass.Bypass{long, short, each} {
		add(t, l, b)
	}
	name := func(policy, identifier string) string {
		if b := l.Active().Find(policy, identifier); b != nil {
			return b.Name
		}
		return ""
	}
	for _, step := range []struct {
		after                time.Duration
		acme, globex, others string
	}{{0, "all", "all", ""}, {2*time.Minute - 1, "all", "all", ""}, {2 * time.Minute, "long", "", ""}, {time.Hour - 1, "long", "", ""}, {time.Hour, "", "", ""}} {
		at := now
		now = now.Add(step.after)
		if a, g, o := name("shop/daily", "acme"), name("shop/daily", "globex"), name("shop/other", "acme"); a != step.acme || g != step.globex || o != step.others {
			t.Errorf("after %v: %q %q %q, want %+v", step.after, a, g, o, step)
		}
		now = at
	}
	if n := l.Active().Len(); n != 2 {
		t.Errorf("%d policies and identifiers", n)
	}
	l.End("all", "joe")
	if got := name("shop/daily", "globex"); got != "" {
		t.Errorf("an ended bypass is active: %s", got)
	}
	if b, found := l.End("all", "ann"); !found || b.EndedBy != "joe" {
		t.Errorf("%+v %v, want the user that has ended it first", b, found)
	}
	if _, found := l.End("none", "joe"); found {
		t.Error("an unknown bypass was found")
	}
}

func TestAdd_EndedBypassesOfANamespaceLeaveRoomForOthers(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	l := bypass.NewList(func() time.Time { return now })
	for i := range 500 {
		name := fmt.Sprint("b", i)
		add(t, l, of(name, now, 24*time.Hour))
		l.End(name, "jane")
	}
	now = now.Add(23 * time.Hour)
	urgent := of("urgent", now, time.Hour)
	if _, err := l.Add(urgent); err == nil || !strings.Contains(err.Error(), "namespace shop have 500 bypasses and blocks, of at most 500, with those that have ended") {
		t.Errorf("%v", err)
	}
	urgent.Policy = "bank/daily"
	add(t, l, urgent)
	now = now.Add(time.Hour)
	urgent = of("later", now, time.Hour)
	add(t, l, urgent)
}

// With weir serve, the caller chooses the name.
func TestAdd_ReportsAnotherBypassOfTheSameName(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	l := bypass.NewList(func() time.Time { return now })
	one := of("one", now, time.Hour)
	add(t, l, one)
	l.End("one", "joe")
	for name, change := range map[string]func(*bypass.Bypass){
		"policy": func(b *bypass.Bypass) { b.Policy = "bank/daily" }, "identifier": func(b *bypass.Bypass) { b.Identifier = "globex" },
		"all": func(b *bypass.Bypass) { b.Identifier, b.AllIdentifiers = "", true }, "reason": func(b *bypass.Bypass) { b.Reason = "INC-2" },
		"user": func(b *bypass.Bypass) { b.CreatedBy = "ann" }, "expiry": func(b *bypass.Bypass) { b.ExpiresAt = b.ExpiresAt.Add(time.Second) },
		"creation": func(b *bypass.Bypass) { b.CreatedAt = b.CreatedAt.Add(time.Second) },
	} {
		other := one
		change(&other)
		if got, err := l.Add(other); err == nil || !strings.Contains(err.Error(), "the name one belongs to another bypass") {
			t.Errorf("another %s: %+v (%v)", name, got, err)
		}
	}
	if got, err := l.Add(one); err != nil || got.EndedBy != "joe" {
		t.Errorf("again: %+v (%v)", got, err)
	}
	now = now.Add(time.Hour)
	add(t, l, of("one", now, time.Hour))
}

func TestEnd_KeepsTheEntryValid(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	l := bypass.NewList(func() time.Time { return now })
	add(t, l, of("one", now, time.Hour))
	if b, found := l.End("one", strings.Repeat("x", 2000)); !found || len(b.EndedBy) != 1000 {
		t.Errorf("%d bytes %v", len(b.EndedBy), found)
	}
}

func TestHasPassed_LastsTenMinutesAfterTheEnd(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	l := bypass.NewList(func() time.Time { return now })
	each := of("each", now, time.Minute)
	each.Policy, each.Identifier, each.AllIdentifiers = "bank/daily", "", true
	add(t, l, of("one", now, 24*time.Hour))
	add(t, l, each)
	passed := func(want string) {
		t.Helper()
		got := fmt.Sprintf("acme %v, globex %v, all %v", l.HasPassed("shop/daily", "acme"), l.HasPassed("shop/daily", "globex"), l.HasPassed("bank/daily", "globex"))
		if got != want {
			t.Errorf("at %v: %s, want %s", now, got, want)
		}
	}
	passed("acme true, globex false, all true")
	now = now.Add(time.Minute)
	l.End("one", "joe")
	passed("acme true, globex false, all true")
	now = now.Add(10*time.Minute - 1)
	passed("acme true, globex false, all true")
	now = now.Add(1)
	passed("acme false, globex false, all false")
	if (*bypass.List)(nil).HasPassed("shop/daily", "acme") {
		t.Error("without a list")
	}
}

// server is a Store that can be unavailable or lose everything.
type server struct {
	mu      sync.Mutex
	entries map[string]bypass.Bypass
	err     error
}

func (s *server) Load(context.Context) (all []bypass.Bypass, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.entries {
		all = append(all, b)
	}
	return all, s.err
}

func (s *server) Save(_ context.Context, entries []bypass.Bypass) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range entries {
		s.entries[b.Name] = b
	}
	return s.err
}

func (s *server) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries, s.err = map[string]bypass.Bypass{}, err
}

// states returns the names of the bypasses of a list, with "-" before those that have ended.
func states(l *bypass.List) (names []string) {
	for _, b := range l.All() {
		if b.EndedBy != "" {
			b.Name = "-" + b.Name
		}
		names = append(names, b.Name)
	}
	slices.Sort(names)
	return names
}

func TestRun_MergesTheListsOfProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{entries: map[string]bypass.Bypass{}}
		ctx, cancel := context.WithCancel(t.Context())
		run := func() *bypass.List {
			l := bypass.NewList(time.Now)
			go l.Run(ctx, s, slog.New(slog.DiscardHandler))
			return l
		}
		a, b := run(), run()
		expect := func(step string, want ...string) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			for name, l := range map[string]*bypass.List{"a": a, "b": b} {
				if got := states(l); !slices.Equal(got, want) {
					t.Errorf("%s: %s has %q, want %q", step, name, got, want)
				}
			}
		}
		add(t, a, of("one", time.Now(), time.Hour))
		expect("created", "one")
		if b.Active().Find("shop/daily", "acme") == nil {
			t.Error("not active in the other process")
		}
		b.End("one", "joe")
		expect("ended", "-one")
		if a.Active() != nil {
			t.Error("active in the other process")
		}
		add(t, a, of("two", time.Now(), time.Hour))
		expect("a second one", "-one", "two")
		s.set(nil)
		expect("the store has lost everything", "-one", "two")
		s.set(errors.New("unavailable"))
		add(t, a, of("three", time.Now(), time.Minute))
		b.End("two", "joe")
		time.Sleep(time.Second)
		if got := states(a); !slices.Equal(got, []string{"-one", "three", "two"}) {
			t.Errorf("during an outage: %q", got)
		}
		s.set(nil)
		expect("after the outage", "-one", "-two", "three")
		late := run()
		time.Sleep(time.Second)
		if got := states(late); !slices.Equal(got, states(a)) {
			t.Errorf("a process that started later has %q", got)
		}
		s.set(errors.New("unavailable"))
		time.Sleep(time.Minute)
		if a.Failures() == 0 {
			t.Error("no failure of an exchange is counted")
		}
		expect("expired during an outage", "-one", "-two")
		if a.Active() != nil {
			t.Error("an expired bypass is active")
		}
		cancel()
		synctest.Wait()
	})
}

// Replicas with different revisions of a policy count the identifier in different ways, for example while its header becomes a secret.
func TestRun_ListsWithDifferentEntriesOfOneNameConverge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{entries: map[string]bypass.Bypass{}}
		ctx, cancel := context.WithCancel(t.Context())
		old, updated := bypass.NewList(time.Now), bypass.NewList(time.Now)
		go old.Run(ctx, s, slog.New(slog.DiscardHandler))
		go updated.Run(ctx, s, slog.New(slog.DiscardHandler))
		now := time.Now()
		plain, hashed := of("one", now, time.Hour), of("one", now, time.Hour)
		plain.Identifier, hashed.Identifier = "Bearer sk-1", "5f3a"
		add(t, old, plain)
		add(t, updated, hashed)
		converged := func(want string) {
			t.Helper()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			for _, l := range []*bypass.List{old, updated} {
				b := l.All()[0]
				if got := b.Identifier + " " + b.EndedBy; got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			}
		}
		converged("5f3a ")
		if !old.HasPassed("shop/daily", "5f3a") {
			t.Error("the winner can have been active in the other process")
		}
		old.End("one", "joe")
		updated.End("one", "ann")
		converged("5f3a ann")
		cancel()
		synctest.Wait()
	})
}

// slowServer is a Store whose entries take half a second to read, because another program has filled it.
type slowServer struct {
	server

	loads int
}

func (s *slowServer) Load(ctx context.Context) ([]bypass.Bypass, error) {
	s.loads++
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(500 * time.Millisecond):
		return s.server.Load(ctx)
	}
}

func TestRun_ReadsALargeStoreLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowServer{server: server{entries: map[string]bypass.Bypass{}}}
		ctx, cancel := context.WithCancel(t.Context())
		l := bypass.NewList(time.Now)
		go l.Run(ctx, s, slog.New(slog.DiscardHandler))
		time.Sleep(time.Minute)
		cancel()
		synctest.Wait()
		if s.loads < 5 || s.loads > 7 {
			t.Errorf("%d reads in a minute, want one in ten seconds", s.loads)
		}
	})
}

// Another process, or another program, can have written anything.
func TestRun_IgnoresInvalidEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forever, unnamed := of("forever", time.Now(), 25*time.Hour), of("unnamed", time.Now(), time.Hour)
		unnamed.CreatedBy = ""
		s := &server{entries: map[string]bypass.Bypass{"forever": forever, "unnamed": unnamed}}
		ctx, cancel := context.WithCancel(t.Context())
		l := bypass.NewList(time.Now)
		go l.Run(ctx, s, slog.New(slog.DiscardHandler))
		synctest.Wait()
		if got := states(l); len(got) > 0 || l.Active() != nil {
			t.Errorf("%q", got)
		}
		cancel()
		synctest.Wait()
	})
}
