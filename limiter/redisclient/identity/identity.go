// Package identity authenticates with tokens of a provider, which expire: it fetches each one before the last one expires, and no call waits for it.
package identity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/wait"
)

const (
	// fetchTimeout is the time for one fetch.
	fetchTimeout = 10 * time.Second
	// firstWait is how long a new connection waits for the first credentials of a process. It never waits for later ones.
	firstWait = time.Second
	// The pauses after fetches that failed.
	firstRetry, maxRetry = time.Second, 30 * time.Second
	// minPause is the least time between two fetches.
	minPause = time.Second
	// checkInterval is how often a client compares the newest credentials with those of its connections.
	checkInterval = time.Second
)

// ErrPending is the error while a provider has answered no fetch since the process started.
var ErrPending = errors.New("the provider of credentials for Redis has not answered yet")

// Credentials authenticate a connection to Redis until they expire.
type Credentials struct {
	Username, Password string
	Expires            time.Time
	// Problem, if not nil, is an error that will prevent the next credentials unless it ends before these expire.
	Problem error
}

// Provider fetches credentials.
type Provider interface {
	// Fetch returns credentials. Its errors contain no secrets.
	Fetch(ctx context.Context) (Credentials, error)
	// Service describes what Redis does with the credentials.
	Service() Service
}

// Service describes a service that runs Redis.
type Service struct {
	// KeepConnections is how long connections can stay open although their credentials expire. With 0, they must be authenticated again before.
	KeepConnections time.Duration
	// DeniedAdvice is what a user checks if Redis rejects the credentials.
	DeniedAdvice string
}

// Clock is the time of a [Source].
type Clock interface {
	Now() time.Time
	// Sleep returns false if ctx ended first.
	Sleep(ctx context.Context, d time.Duration) bool
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) Sleep(ctx context.Context, d time.Duration) bool { return wait.Sleep(ctx, d) }

// Source keeps the newest credentials of a provider. Make one with [NewSource].
type Source struct {
	provider Provider
	log      *slog.Logger
	clock    Clock
	first    chan struct{} // closed after the first fetch, or firstWait

	mu      sync.Mutex
	current Credentials
	problem error // of the last fetch
}

// NewSource returns a Source that fetches nothing until [Source.Run]. It logs the first error after a success, and the end of errors.
func NewSource(provider Provider, log *slog.Logger) *Source {
	return NewSourceWithClock(provider, log, systemClock{})
}

// NewSourceWithClock is [NewSource] with another clock.
func NewSourceWithClock(provider Provider, log *slog.Logger, clock Clock) *Source {
	return &Source{provider: provider, log: log, clock: clock, first: make(chan struct{})}
}

// AddTo makes a client with the options authenticate with the newest credentials. The client runs the Source.
func (s *Source) AddTo(o *redisclient.Options) {
	service := s.provider.Service()
	o.Credentials, o.Renew = s.Credentials, s.Run
	o.RenewCredentials, o.KeepConnections, o.DeniedAdvice = checkInterval, service.KeepConnections, service.DeniedAdvice
}

// Credentials returns the newest credentials, or an error if they have expired. It waits only for the first ones, for a second at most.
func (s *Source) Credentials(ctx context.Context) (username, password string, err error) {
	select {
	case <-s.first:
	case <-ctx.Done():
		return "", "", fmt.Errorf("%w: %w", ErrPending, ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.clock.Now().Before(s.current.Expires):
		return s.current.Username, s.current.Password, nil
	case s.problem != nil:
		return "", "", fmt.Errorf("no valid credentials for Redis: %w", s.problem)
	case s.current.Expires.IsZero():
		return "", "", ErrPending
	default:
		return "", "", fmt.Errorf("the credentials for Redis have expired at %v, and the next ones are being fetched", s.current.Expires)
	}
}

// Run fetches credentials until ctx ends. Call it once.
func (s *Source) Run(ctx context.Context) {
	var once sync.Once
	fetched := func() { once.Do(func() { close(s.first) }) }
	timer := time.AfterFunc(firstWait, fetched)
	defer timer.Stop()
	defer fetched()
	for retry := firstRetry; ; {
		pause, failed := s.fetch(ctx)
		fetched()
		if failed {
			pause = min(pause, wait.Jittered(retry))
			retry = min(2*retry, maxRetry)
		} else {
			retry = firstRetry
		}
		if !s.clock.Sleep(ctx, max(pause, minPause)) {
			return
		}
	}
}

// fetch replaces the credentials, and returns the time until the next fetch: about half of the time for which they are valid. So replicas that start
// together do not fetch together, and an outage of the provider has that time to end. It also returns whether an error calls for an earlier fetch.
func (s *Source) fetch(ctx context.Context) (pause time.Duration, failed bool) {
	limited, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	fetched, err := s.provider.Fetch(limited)
	if ctx.Err() != nil {
		return 0, true // the process ends
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	problem := err
	if err == nil {
		s.current, problem = fetched, fetched.Problem
	}
	s.logChange(problem)
	s.problem = problem
	if problem != nil {
		return maxRetry, true
	}
	valid := s.current.Expires.Sub(s.clock.Now())
	return wait.Jittered(valid/10) + valid*4/10, false
}

// logChange logs the first error after a success, and the first success after an error.
func (s *Source) logChange(problem error) {
	switch {
	case problem != nil && s.problem == nil:
		s.log.Warn("credentials for Redis cannot be renewed, so the current ones are used until they expire", "error", problem, "expires", s.current.Expires)
	case problem == nil && s.problem != nil:
		s.log.Info("credentials for Redis are renewed again", "expires", s.current.Expires)
	}
}
