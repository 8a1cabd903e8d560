package identity_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/redisclient/identity"
	"github.com/weir-dev/weir/test/fixture"
)

const secret = "the-secret-token"

// fakeProvider is a provider whose credentials are valid for an hour.
type fakeProvider struct {
	clock   identity.Clock
	away    atomic.Bool
	hangs   atomic.Bool
	problem atomic.Bool
	fetches atomic.Int64
}

func (*fakeProvider) Service() identity.Service { return identity.Service{} }

func (p *fakeProvider) Fetch(ctx context.Context) (identity.Credentials, error) {
	p.fetches.Add(1)
	if p.hangs.Load() {
		<-ctx.Done()
		return identity.Credentials{}, ctx.Err()
	}
	if p.away.Load() {
		return identity.Credentials{}, errors.New("the provider is unavailable")
	}
	c := identity.Credentials{Username: "weir", Password: secret, Expires: p.clock.Now().Add(time.Hour)}
	if p.problem.Load() {
		c.Problem = errors.New("the session cannot be renewed")
	}
	return c, nil
}

func run(t *testing.T, p *fakeProvider, factor int64) (*identity.Source, *fixture.LockedBuffer) {
	t.Helper()
	clock, log := newFastClock(factor), &fixture.LockedBuffer{}
	p.clock = clock
	source := identity.NewSourceWithClock(p, slog.New(slog.NewTextHandler(log, nil)), clock)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		source.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		if strings.Contains(log.String(), secret) {
			t.Errorf("a secret in the log:\n%s", log)
		}
	})
	return source, log
}

// An outage of ten minutes costs nothing. One that outlasts the credentials makes them an error, which names the cause, until the provider is back.
func TestSource_SurvivesAnOutageOfTheProviderUntilTheCredentialsExpire(t *testing.T) {
	p := &fakeProvider{}
	source, log := run(t, p, 36_000) // an hour in 100 ms
	valid := func() bool {
		username, password, err := source.Credentials(t.Context())
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("a secret in %v", err)
		}
		return err == nil && username == "weir" && password == secret
	}
	if !valid() {
		t.Fatal("no credentials after the first fetch")
	}
	for range 3 {
		p.away.Store(true)
		for ended := time.Now().Add(10 * time.Minute / 36_000); time.Now().Before(ended); time.Sleep(time.Millisecond) {
			if !valid() {
				t.Fatal("no valid credentials during an outage of ten minutes")
			}
		}
		p.away.Store(false)
		before := p.fetches.Load()
		fixture.Await(t, "another fetch", func() bool { return p.fetches.Load() > before })
	}
	p.away.Store(true)
	fixture.Await(t, "the credentials expire", func() bool { return !valid() })
	if _, _, err := source.Credentials(t.Context()); err == nil || !strings.Contains(err.Error(), "the provider is unavailable") {
		t.Errorf("error %v, want its cause", err)
	}
	p.away.Store(false)
	fixture.Await(t, "credentials", valid)
	fixture.Await(t, "a line about the end", func() bool { return strings.Contains(log.String(), "are renewed again") })
	if lines := strings.Count(log.String(), "cannot be renewed"); lines == 0 || lines > 4 {
		t.Errorf("%d lines about outages, want one each:\n%s", lines, log)
	}
}

// A problem that does not prevent these credentials is reported, and causes fetches before half of the time is over.
func TestSource_FetchesEarlierAfterAProblem(t *testing.T) {
	p := &fakeProvider{}
	p.problem.Store(true)
	_, log := run(t, p, 1000) // a retry takes 30 ms at most, and half an hour 1.8 s
	began := time.Now()
	fixture.Await(t, "five fetches", func() bool { return p.fetches.Load() >= 5 })
	if took := time.Since(began); took > 1500*time.Millisecond {
		t.Errorf("five fetches took %v", took)
	}
	if !strings.Contains(log.String(), "the session cannot be renewed") {
		t.Errorf("log:\n%s", log)
	}
}

// A provider that hangs holds up no call: the first ones wait for a second at most, or as long as they have time, and later ones not at all.
func TestSource_NoCallWaitsForAProviderThatHangs(t *testing.T) {
	p := &fakeProvider{}
	p.hangs.Store(true)
	source, _ := run(t, p, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, _, err := source.Credentials(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, identity.ErrPending) {
		t.Errorf("the first call: %v", err)
	}
	if _, _, err := source.Credentials(t.Context()); err == nil {
		t.Error("credentials of a provider that hangs")
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the first calls waited for %v, want a second", took)
	}
	began = time.Now()
	for range 1000 {
		if _, _, err := source.Credentials(t.Context()); err == nil || !errors.Is(err, identity.ErrPending) {
			t.Fatalf("error %v", err)
		}
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("1000 calls took %v", took)
	}
}

// Replicas that start together do not fetch together forever.
func TestSource_FetchesAtAboutHalfOfTheTime(t *testing.T) {
	p := &fakeProvider{}
	run(t, p, 36_000)
	time.Sleep(time.Second) // ten hours
	if n := p.fetches.Load(); n < 12 || n > 26 {
		t.Errorf("%d fetches in ten hours, want about 22", n)
	}
}
