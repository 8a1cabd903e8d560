package bypass

import (
	"context"
	"log/slog"
	"time"
)

const (
	// interval is how often Run reads the Store: a bypass must be active in all processes within a second.
	interval = 500 * time.Millisecond
	// storeTimeout bounds one exchange with the Store.
	storeTimeout = 2 * time.Second
	// restFactor times the time of an exchange longer than longExchange is the time until the next one, up to maxRest: another program can fill
	// the Store.
	restFactor   = 20
	longExchange = interval / 2
	maxRest      = 10 * time.Second
)

// Store holds the entries of all processes that share counters. It can lose entries: each process writes those that it misses.
type Store interface {
	// Load returns the entries, also expired ones. It leaves out what is not an entry.
	Load(ctx context.Context) ([]Bypass, error)
	// Save writes entries. The Store can remove each when it expires.
	Save(ctx context.Context, entries []Bypass) error
}

// Run merges the list with the Store until ctx is done, at each change and every interval. Without a Store it only removes expired entries.
func (l *List) Run(ctx context.Context, store Store, log *slog.Logger) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	isFailing := false
	for {
		began := time.Now()
		err := l.exchange(ctx, store)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			l.failures.Add(1)
		}
		if isFailing != (err != nil) {
			isFailing = err != nil
			if isFailing {
				log.Warn("bypasses are not exchanged with other processes", "error", err)
			} else {
				log.Info("bypasses are exchanged with other processes again")
			}
		}
		if took := time.Since(began); err == nil && took > longExchange {
			l.rest(ctx, min(restFactor*took, maxRest))
		}
		select {
		case <-ctx.Done():
			return
		case <-l.changed:
		case <-tick.C:
		}
	}
}

// Failures returns the number of exchanges with the Store that failed.
func (l *List) Failures() int64 { return l.failures.Load() }

// rest waits, unless the list changes.
func (l *List) rest(ctx context.Context, lasts time.Duration) {
	timer := time.NewTimer(lasts)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-l.changed:
		l.sync()
	case <-timer.C:
	}
}

func (l *List) exchange(ctx context.Context, store Store) error {
	if store == nil {
		l.merge(nil)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	stored, err := store.Load(ctx)
	if err != nil {
		l.merge(nil) // removes what has expired
		return err   //nolint:wrapcheck // the Store names the operation
	}
	if replace := l.merge(stored); len(replace) > 0 {
		return store.Save(ctx, replace) //nolint:wrapcheck // the Store names the operation
	}
	return nil
}
