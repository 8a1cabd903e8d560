package decisionlog

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/limiter/engine"
)

const (
	// maxFollowers bounds what following costs.
	maxFollowers = 16
	// followed is the number of records that wait for one follower.
	followed = 1024
	// followedPerSecond is the number of denials that one follower receives in a second.
	followedPerSecond = 1000
)

// ErrTooManyFollowers is the error of Follow.
var ErrTooManyFollowers = errors.New("too many callers follow the decisions of this process: end one of them")

// Filter selects denials. Empty fields select all.
type Filter struct {
	Policy string
	// Identifier as it appears in records.
	Identifier string
	Endpoint   string
}

// Follower receives the denials that its filter selects.
type Follower struct {
	filter  Filter
	records chan Record
	rate    *shares
	dropped atomic.Int64
}

// Records returns the denials.
func (f *Follower) Records() <-chan Record { return f.records }

// Dropped returns the number of denials that the follower has missed since the last call, because there were too many.
func (f *Follower) Dropped() int64 { return f.dropped.Swap(0) }

// HasIdentifiers reports whether records have identifiers. If not, a filter with an identifier selects nothing.
func (l *Log) HasIdentifiers() bool { return l.options.Identifiers != Omitted }

// Follow begins to send denials. The caller ends it with Unfollow.
func (l *Log) Follow(filter Filter) (*Follower, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	var followers []*Follower
	if following := l.followers.Load(); following != nil {
		followers = *following
	}
	if len(followers) >= maxFollowers {
		return nil, ErrTooManyFollowers
	}
	f := &Follower{filter: filter, records: make(chan Record, followed), rate: newShares(followedPerSecond)}
	followers = append(slices.Clip(followers), f)
	l.followers.Store(&followers)
	return f, nil
}

// Unfollow ends Follow.
func (l *Log) Unfollow(f *Follower) {
	l.lock.Lock()
	defer l.lock.Unlock()
	rest := slices.DeleteFunc(slices.Clone(*l.followers.Load()), func(other *Follower) bool { return other == f })
	if len(rest) == 0 {
		l.followers.Store(nil)
		return
	}
	l.followers.Store(&rest)
}

// sendTo sends a denial to the followers whose filters select it.
func (l *Log) sendTo(following []*Follower, c *engine.Check, a *engine.Answer) {
	for _, f := range following {
		if f.filter.Endpoint != "" && f.filter.Endpoint != c.Endpoint {
			continue
		}
		one, selected := l.selected(&f.filter, a)
		if !selected {
			continue
		}
		if !f.rate.admit(c.Request.Domain, time.Now()) {
			f.dropped.Add(1)
			continue
		}
		select {
		case f.records <- l.record(c, one, true):
		default:
			f.dropped.Add(1)
		}
	}
}

// selected returns the answer that a follower sees: with the first denial that its filter selects as the first result.
func (l *Log) selected(filter *Filter, a *engine.Answer) (*engine.Answer, bool) {
	for i := range a.Results {
		r := &a.Results[i]
		if r.Allowed || filter.Policy != "" && !r.Rule.IsNamed(filter.Policy) || filter.Identifier != "" && filter.Identifier != l.shown(r) {
			continue
		}
		if i == 0 {
			return a, true
		}
		one := *a
		one.Results = append([]engine.Result{*r}, append(slices.Clone(a.Results[:i]), a.Results[i+1:]...)...)
		return &one, true
	}
	return nil, false
}
