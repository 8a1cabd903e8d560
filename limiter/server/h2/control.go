package h2

import (
	"time"

	"golang.org/x/net/http2"
)

// budget bounds the frames of a client that are no part of a call, for example SETTINGS or empty DATA. They cost processor time and often a reply.
type budget struct {
	spent    int
	refilled time.Time
}

const (
	maxSpent = 1024
	// A client renews two windows for the response to a call, and it renews windows for a part of a large message.
	earnedByCall, earnedByData = 8, 2
	// refill is how often a client has the whole budget again, without calls.
	refill = 10 * time.Second
)

// spend accounts for a frame of the client, after the calls that have ended.
func (c *conn) spend() error {
	c.mu.Lock()
	completed := c.completed
	c.completed = 0
	c.mu.Unlock()
	c.budget.earn(completed * earnedByCall)
	return c.budget.spend()
}

// spend accounts for a frame.
func (b *budget) spend() error {
	if b.spent++; b.spent <= maxSpent {
		return nil
	}
	now := time.Now()
	if now.Sub(b.refilled) < refill {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	b.spent, b.refilled = 1, now
	return nil
}

// earn accounts for n frames that the client may send, because of something that it has sent.
func (b *budget) earn(n int) { b.spent = max(0, b.spent-n) }

// pings bound the pings of a client.
type pings struct {
	last    time.Time
	strikes int
}

// maxStrikes is how many pings of a client may come too early, as in grpc-go.
const maxStrikes = 2

// drainPing is the ping after the first GOAWAY. When its reply arrives, the client has seen that GOAWAY.
var drainPing = [8]byte{'d', 'r', 'a', 'i', 'n'} //nolint:gochecknoglobals // constant

func (c *conn) onPing(f *http2.PingFrame) error {
	if f.IsAck() {
		if f.Data == drainPing {
			c.refuse()
		}
		return nil
	}
	c.mu.Lock()
	c.out = appendFrame(c.out, len(f.Data), http2.FramePing, http2.FlagPingAck, 0, f.Data[:]...)
	responded := c.responded
	c.responded = false
	c.mu.Unlock()
	now := time.Now()
	early := now.Sub(c.pings.last) < c.server.options.MinPing
	c.pings.last = now
	switch {
	case responded: // clients measure the latency with pings after responses
		c.pings.strikes = 0
	case early:
		c.pings.strikes++
	}
	if c.pings.strikes > maxStrikes {
		c.goAway(http2.ErrCodeEnhanceYourCalm, "too_many_pings")
		return errTooManyPings
	}
	return nil
}
