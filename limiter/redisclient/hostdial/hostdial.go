// Package hostdial dials names that can have several addresses, in the time of one dial.
package hostdial

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// failureMemory is how long an address of a name to which a dial failed comes after its others.
const failureMemory = 30 * time.Second

// Dialer dials names that can have several addresses, for example those of a load balancer or of a headless Service. The dialer of package net gives
// the first one at least two seconds, which is more than a dial has here: a name whose first address is dead would never connect.
type Dialer struct {
	Net    net.Dialer                                                   // to one address, with a Timeout for all of them
	lookup func(ctx context.Context, host string) ([]net.IPAddr, error) // nil: that of the system

	mu     sync.Mutex
	failed map[string]time.Time // by address
}

// Dial connects to the first address of a name that answers. It divides the time of a dial among the addresses: when the part of one has passed, it
// dials the next one as well.
func (h *Dialer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || net.ParseIP(host) != nil {
		return h.Net.DialContext(ctx, network, address)
	}
	ctx, cancel := context.WithTimeout(ctx, h.Net.Timeout)
	defer cancel()
	lookup := h.lookup
	if lookup == nil {
		lookup = net.DefaultResolver.LookupIPAddr
	}
	found, err := lookup(ctx, host)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	addresses := make([]string, len(found))
	for i := range found {
		addresses[i] = net.JoinHostPort(found[i].String(), port)
	}
	return h.dialAny(ctx, network, h.inOrder(addresses))
}

// inOrder returns the addresses with those last to which a dial failed recently.
func (h *Dialer) inOrder(addresses []string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortStableFunc(addresses, func(a, b string) int { return h.rank(a) - h.rank(b) })
	return addresses
}

func (h *Dialer) rank(address string) int {
	if failed, ok := h.failed[address]; ok && time.Since(failed) < failureMemory {
		return 1
	}
	return 0
}

// note records whether a dial to an address failed.
func (h *Dialer) note(address string, failed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !failed {
		delete(h.failed, address)
		return
	}
	if h.failed == nil {
		h.failed = map[string]time.Time{}
	}
	for other, at := range h.failed {
		if time.Since(at) >= failureMemory {
			delete(h.failed, other)
		}
	}
	h.failed[address] = time.Now()
}

// attempt is the outcome of the dial to one address.
type attempt struct {
	conn    net.Conn
	err     error
	address string
}

// dialAny dials addresses one after the other, each after its part of the time, or after the one before has failed. It returns the first connection, and
// closes the others.
func (h *Dialer) dialAny(ctx context.Context, network string, addresses []string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	outcomes := make(chan attempt, len(addresses))
	begin := func(address string) {
		go func() {
			conn, err := h.Net.DialContext(ctx, network, address)
			outcomes <- attempt{conn, err, address}
		}()
	}
	next := time.NewTimer(0)
	defer next.Stop()
	var errs []error
	for begun, ended := 0, 0; ended < len(addresses); {
		var due <-chan time.Time
		if begun < len(addresses) {
			due = next.C
		}
		select {
		case <-due:
			if begun > 0 { // it has not connected in its part of the time
				h.note(addresses[begun-1], true)
			}
			begin(addresses[begun])
			begun++
			next.Reset(h.part(ctx, len(addresses)-begun+1))
		case outcome := <-outcomes:
			ended++
			if outcome.err == nil {
				h.note(outcome.address, false)
				go closeRest(outcomes, begun-ended)
				return outcome.conn, nil
			}
			h.note(outcome.address, true)
			errs = append(errs, outcome.err)
			next.Reset(0)
		}
	}
	return nil, errors.Join(errs...)
}

// part is the time of one of n addresses, of the time that is left.
func (h *Dialer) part(ctx context.Context, n int) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(h.Net.Timeout)
	}
	return time.Until(deadline) / time.Duration(n)
}

// closeRest closes the connections of the n dials that have not ended.
func closeRest(outcomes <-chan attempt, n int) {
	for range n {
		if outcome := <-outcomes; outcome.conn != nil {
			_ = outcome.conn.Close()
		}
	}
}
