package overload

import (
	"errors"

	"github.com/weir-dev/weir/go/internal/limiter"
)

// Counter counts requests.
type Counter interface{ Inc() }

// Endpoint is the part of a Gate that one endpoint uses. It counts the requests of the endpoint that are shed. A nil Endpoint
// admits everything.
type Endpoint struct {
	gate *Gate
	shed Counter
}

// Endpoint returns the part of the Gate for an endpoint, whose shed requests it counts.
func (g *Gate) Endpoint(shed Counter) *Endpoint { return &Endpoint{gate: g, shed: shed} }

// Enter is [Gate.Enter].
func (e *Endpoint) Enter() bool { return e == nil || e.count(e.gate.Enter()) }

// Share is [Gate.Share].
func (e *Endpoint) Share() *Share {
	if e == nil {
		return nil
	}
	return e.gate.Share()
}

// Announce is [Gate.Announce].
func (e *Endpoint) Announce() (Announcement, bool) { return e.AnnounceOf(nil) }

// AnnounceOf is [Gate.AnnounceOf].
func (e *Endpoint) AnnounceOf(share *Share) (Announcement, bool) {
	if e == nil {
		return Announcement{}, true
	}
	a, admitted := e.gate.AnnounceOf(share)
	return a, e.count(admitted)
}

func (e *Endpoint) count(admitted bool) bool {
	if !admitted {
		e.shed.Inc()
	}
	return admitted
}

// Begin is [Gate.Begin].
func (e *Endpoint) Begin(a Announcement) bool { return e == nil || e.count(e.gate.Begin(a)) }

// BeginHeavy is [Gate.BeginHeavy].
func (e *Endpoint) BeginHeavy(a *Announcement, weight int64) bool {
	return e == nil || e.count(e.gate.BeginHeavy(a, weight))
}

// End is [Gate.End].
func (e *Endpoint) End(a Announcement) {
	if e != nil {
		e.gate.End(a)
	}
}

// Withdraw is [Gate.Withdraw].
func (e *Endpoint) Withdraw(a Announcement) {
	if e != nil {
		e.gate.Withdraw(a)
	}
}

// Leave is [Gate.Leave].
func (e *Endpoint) Leave() {
	if e != nil {
		e.gate.Leave()
	}
}

// Failed counts a request without a decision if err, an error of the engine, shows that the store did not make its call because
// this process is overloaded.
func (e *Endpoint) Failed(err error) {
	if e != nil && errors.Is(err, limiter.ErrOverloaded) {
		e.shed.Inc()
	}
}
