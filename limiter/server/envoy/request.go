package envoy

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"

	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/clientip"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/server/envoy/wire"
)

// maxDomain bounds the domain of a request, in bytes, as in the HTTP check.
const maxDomain = 253

// remoteAddress is the descriptor key of the client address.
const remoteAddress = "remote_address"

// intent is the operation that a descriptor requests.
type intent int

const (
	spend  intent = iota // spend the hits
	peek                 // 0 hits: report whether one hit would pass
	refund               // negative hits: refund them
)

// batch has the checks of the descriptors of a request, in their order.
type batch struct {
	checks  []engine.Check
	intents []intent
	entries []rules.Descriptor // of the checks
	defects wire.Defects
}

// uniform reports whether all descriptors have the same intent.
func (q *batch) uniform() bool {
	for _, i := range q.intents[1:] {
		if i != q.intents[0] {
			return false
		}
	}
	return true
}

// parse sets q to the checks of a request. The error has the code INVALID_ARGUMENT and names the field. Only the configuration of Envoy can cause one.
func (q *batch) parse(in *wire.RateLimitRequest) error {
	domain, descriptors := in.Domain, in.Descriptors
	switch {
	case domain == "":
		return invalid("domain is empty: set it to the domain whose policies apply, for example a namespace")
	case len(domain) > maxDomain:
		return invalid("domain is longer than %d bytes", maxDomain)
	case len(descriptors) == 0:
		return invalid("descriptors is empty: add at least one descriptor")
	}
	q.defects = in.Defects
	n := len(descriptors)
	q.checks, q.intents, q.entries = slices.Grow(q.checks[:0], n)[:n], slices.Grow(q.intents[:0], n)[:n], slices.Grow(q.entries[:0], n)[:n]
	for i := range descriptors {
		d := &descriptors[i]
		q.findDefects(d)
		q.entries[i] = d.Entries
		c := &q.checks[i]
		*c = engine.Check{
			Request:  rules.Request{Domain: domain, Descriptors: q.entries[i : i+1 : i+1], NoHTTP: true},
			Endpoint: "rls", NoDelay: true, Override: parseOverride(d),
		}
		if d.HasLimit && c.Override == nil {
			q.defects.Add(wire.DefectLimit)
		}
		c.Request.ClientIP, c.Request.InvalidClientIP = clientAddress(d.Entries)
		q.intents[i] = parseHits(c, in.Hits, d)
	}
	return nil
}

// findDefects records what no policy can use of a descriptor.
func (q *batch) findDefects(d *wire.Descriptor) {
	if len(d.Entries) == 0 {
		q.defects.Add(wire.DefectEmptyDescriptor)
	}
	for j := range d.Entries {
		if d.Entries[j].Key == "" {
			q.defects.Add(wire.DefectEmptyKey)
		}
	}
}

// withoutRefunds takes the refunds out of q, which forbids them: their descriptors match nothing. It reports whether something else is left.
func (q *batch) withoutRefunds() bool {
	i := slices.IndexFunc(q.intents, func(i intent) bool { return i != refund })
	if i < 0 {
		return false
	}
	q.defects.Add(wire.DefectRefund)
	other := q.intents[i]
	for i := range q.intents {
		if q.intents[i] == refund {
			q.checks[i].Request.Descriptors, q.checks[i].Peek, q.intents[i] = nil, other == peek, other
		}
	}
	return true
}

// parseHits sets the cost of a check: the hits of the descriptor, else of the request, else 1.
func parseHits(c *engine.Check, ofRequest uint32, d *wire.Descriptor) intent {
	hits := uint64(max(ofRequest, 1))
	if d.HasHits {
		hits = d.Hits
	}
	c.Cost = int64(min(hits, math.MaxInt64)) // the engine limits the cost
	switch {
	case d.Negative:
		return refund
	case hits == 0:
		c.Cost, c.Peek = 1, true
		return peek
	default:
		return spend
	}
}

// parseOverride returns the limit in a descriptor. It returns nil, so that the limits of the policies apply, if there is no limit or
// if its window is not supported.
func parseOverride(d *wire.Descriptor) *engine.Override {
	if !d.HasLimit {
		return nil
	}
	var unit time.Duration
	switch typev3.RateLimitUnit(d.Limit.Unit) {
	case typev3.RateLimitUnit_SECOND:
		unit = time.Second
	case typev3.RateLimitUnit_MINUTE:
		unit = time.Minute
	case typev3.RateLimitUnit_HOUR:
		unit = time.Hour
	case typev3.RateLimitUnit_DAY:
		unit = day
	case typev3.RateLimitUnit_MONTH:
		unit = month
	default: // a year is longer than the maximum window of all algorithms but FixedWindow
		return nil
	}
	units := int64(1)
	if d.Limit.HasMultiplier {
		units = int64(d.Limit.Multiplier)
	}
	if units > int64(limiter.MaxWindow/unit) { // the engine rejects a window of 0
		return nil
	}
	window := time.Duration(units * int64(unit))
	return &engine.Override{Units: int64(d.Limit.Requests), Window: window}
}

// clientAddress returns the client address in the descriptor, the zero Addr if there is no address. The result invalid is true if there
// is another text instead.
func clientAddress(d rules.Descriptor) (ip netip.Addr, invalid bool) {
	for _, e := range d {
		if e.Key == remoteAddress {
			ip, known := clientip.Parse(e.Value) // the zero Addr if it is invalid
			return ip, !known && e.Value != ""
		}
	}
	return netip.Addr{}, false
}

func invalid(format string, a ...any) error {
	return status.Error(codes.InvalidArgument, fmt.Sprintf(format, a...))
}
