package bypass_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-dev/weir/limiter/bypass"
)

// slowly is a Store whose entries take some time to read. It records when entries are written.
type slowly struct {
	server

	takes time.Duration
	saved []time.Time
}

func (s *slowly) Load(ctx context.Context) ([]bypass.Bypass, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(s.takes):
		return s.server.Load(ctx)
	}
}

func (s *slowly) Save(ctx context.Context, entries []bypass.Bypass) error {
	s.saved = append(s.saved, time.Now())
	return s.server.Save(ctx, entries)
}

// start runs a list with a store until the test calls stop. It also returns the time since then.
func start(t *testing.T, s bypass.Store, log *slog.Logger) (l *bypass.List, since func(time.Time) time.Duration, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	began := time.Now()
	l = bypass.NewList(time.Now)
	go l.Run(ctx, s, log)
	synctest.Wait()
	return l, func(at time.Time) time.Duration { return at.Sub(began) }, func() {
		cancel()
		synctest.Wait()
	}
}

func TestRun_WritesChangesImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowly{server: server{entries: map[string]bypass.Bypass{}}}
		l, since, stop := start(t, s, slog.New(slog.DiscardHandler))
		defer stop()
		time.Sleep(50 * time.Millisecond)
		add(t, l, of("one", time.Now(), time.Hour))
		time.Sleep(50 * time.Millisecond)
		l.End("one", "joe")
		synctest.Wait()
		if len(s.saved) != 2 || since(s.saved[0]) != 50*time.Millisecond || since(s.saved[1]) != 100*time.Millisecond {
			t.Errorf("written after %v", s.saved)
		}
		if ended := s.entries["one"]; ended.EndedBy != "joe" {
			t.Errorf("%+v", ended)
		}
	})
}

// The pause after a long exchange must not delay what the user wants.
func TestRun_WritesChangesWhileItRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowly{server: server{entries: map[string]bypass.Bypass{}}, takes: 300 * time.Millisecond}
		l, since, stop := start(t, s, slog.New(slog.DiscardHandler))
		defer stop()
		time.Sleep(350 * time.Millisecond)
		add(t, l, of("one", time.Now(), time.Hour))
		time.Sleep(time.Second)
		synctest.Wait()
		if len(s.saved) != 1 || since(s.saved[0]) != 650*time.Millisecond {
			t.Errorf("written at %v, want 300ms after the change", s.saved)
		}
	})
}

// A rest is 20 times as long as the exchange.
func TestRun_RestsInProportion(t *testing.T) {
	for takes, want := range map[time.Duration]int{200 * time.Millisecond: 120, 250 * time.Millisecond: 120, 300 * time.Millisecond: 10, time.Second: 6} {
		synctest.Test(t, func(t *testing.T) {
			s := &counted{slowly: slowly{server: server{entries: map[string]bypass.Bypass{}}, takes: takes}}
			_, _, stop := start(t, s, slog.New(slog.DiscardHandler))
			time.Sleep(time.Minute - time.Millisecond)
			synctest.Wait()
			if s.loads != want {
				t.Errorf("%d reads of %v in a minute, want %d", s.loads, takes, want)
			}
			stop()
		})
	}
}

// counted counts the reads of a Store.
type counted struct {
	slowly

	loads int
}

func (s *counted) Load(ctx context.Context) ([]bypass.Bypass, error) {
	s.loads++
	return s.slowly.Load(ctx)
}

// A store that never answers must not keep expired entries in the list.
func TestRun_BoundsTheTimeOfAnExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowly{server: server{entries: map[string]bypass.Bypass{}}, takes: time.Hour}
		l := bypass.NewList(time.Now)
		add(t, l, of("one", time.Now(), time.Second))
		ctx, cancel := context.WithCancel(t.Context())
		go l.Run(ctx, s, slog.New(slog.DiscardHandler))
		time.Sleep(2*time.Second - time.Millisecond)
		if l.Active() == nil {
			t.Error("the exchange ended before two seconds")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if l.Active() != nil {
			t.Error("the expired bypass remains")
		}
		cancel()
		synctest.Wait()
	})
}

func TestRun_WithoutAStoreRemovesWhatHasExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, stop := start(t, nil, slog.New(slog.DiscardHandler))
		defer stop()
		add(t, l, of("one", time.Now(), time.Second))
		time.Sleep(time.Second)
		synctest.Wait()
		if l.Active() != nil {
			t.Error("the expired bypass remains")
		}
	})
}

func TestRun_LogsAnOutageOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		s := &server{entries: map[string]bypass.Bypass{}}
		_, _, stop := start(t, s, slog.New(slog.NewTextHandler(&text, nil)))
		expect := func(step string, warnings, ends int) {
			t.Helper()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			if w, e := strings.Count(text.String(), "not exchanged"), strings.Count(text.String(), "exchanged with other processes again"); w != warnings || e != ends {
				t.Errorf("%s: %s", step, &text)
			}
		}
		expect("available", 0, 0)
		s.set(errors.New("unavailable"))
		expect("unavailable", 1, 0)
		s.set(nil)
		expect("again available", 1, 1)
		stop()
	})
}

func TestRun_WritesWhatTheStoreMissesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirs := of("theirs", time.Now(), time.Hour)
		s := &slowly{server: server{entries: map[string]bypass.Bypass{"theirs": theirs}}}
		l, _, stop := start(t, s, slog.New(slog.DiscardHandler))
		defer stop()
		add(t, l, of("own", time.Now(), time.Hour))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(s.saved) != 1 {
			t.Errorf("written %d times, want once", len(s.saved))
		}
	})
}

func TestRun_ReadsValidEntriesBetweenInvalidOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{entries: many(40, "b", time.Now(), time.Hour)}
		for i := range 20 {
			b := s.entries[fmt.Sprint("b", i)]
			b.CreatedBy = ""
			s.entries[b.Name] = b
		}
		l, _, stop := start(t, s, slog.New(slog.DiscardHandler))
		defer stop()
		if n := len(l.All()); n != 20 {
			t.Errorf("%d entries, want 20", n)
		}
	})
}

// Another process can have let requests pass with a bypass that has ended before this process has seen it.
func TestRun_ABypassThatHasEndedElsewhereHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := of("one", time.Now(), time.Hour)
		ended.EndedBy = "joe"
		s := &server{entries: map[string]bypass.Bypass{"one": ended}}
		l, _, stop := start(t, s, slog.New(slog.DiscardHandler))
		defer stop()
		for after, want := range []bool{true, false} {
			if got := l.HasPassed("shop/daily", "acme"); got != want {
				t.Errorf("%d minutes later: %v, want %v", 10*after, got, want)
			}
			time.Sleep(10 * time.Minute)
		}
	})
}
