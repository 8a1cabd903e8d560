package envoy

import (
	"fmt"
	"math"
	"net/netip"
	"time"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
)

// Bounds of a request, as at the HTTP endpoint.
const (
	maxDomain      = 253 // bytes
	maxDescriptors = 64
	maxEntries     = 64 // of one descriptor
)

// remoteAddress is the descriptor key under which Envoy gives the client's address.
const remoteAddress = "remote_address"

// intent is what a descriptor is sent for.
type intent int

const (
	spend  intent = iota // hits are counted if they pass
	look                 // 0 hits: asks whether one would pass
	refund               // negative hits are taken back
)

// questions are what the descriptors of a request ask, in their order.
type questions struct {
	checks  []engine.Check
	intents []intent
}

// uniform says whether all descriptors are sent for the same.
func (q *questions) uniform() bool {
	for _, i := range q.intents[1:] {
		if i != q.intents[0] {
			return false
		}
	}
	return true
}

// readRateLimit reads what a request asks. The error is INVALID_ARGUMENT and names the field.
func readRateLimit(in *ratelimitv3.RateLimitRequest) (questions, error) {
	domain, descriptors := in.GetDomain(), in.GetDescriptors()
	switch {
	case domain == "":
		return questions{}, invalid("domain is empty: name the domain whose policies apply, a namespace")
	case len(domain) > maxDomain:
		return questions{}, invalid("domain is longer than %d bytes", maxDomain)
	case len(descriptors) == 0:
		return questions{}, invalid("descriptors is empty: there is nothing to limit by")
	case len(descriptors) > maxDescriptors:
		return questions{}, invalid("descriptors has more than %d descriptors", maxDescriptors)
	}
	q := questions{checks: make([]engine.Check, len(descriptors)), intents: make([]intent, len(descriptors))}
	for i, d := range descriptors {
		descriptor, err := readEntries(i, d.GetEntries())
		if err != nil {
			return questions{}, err
		}
		c := &q.checks[i]
		c.Request = rules.Request{Domain: domain, Descriptors: []rules.Descriptor{descriptor}, ClientIP: clientOf(descriptor)}
		c.NoDelay = true
		c.Override = readOverride(d.GetLimit())
		q.intents[i] = readHits(c, in.GetHitsAddend(), d)
	}
	return q, nil
}

func readEntries(i int, entries []*descriptorv3.RateLimitDescriptor_Entry) (rules.Descriptor, error) {
	switch {
	case len(entries) == 0:
		return nil, invalid("descriptors[%d].entries is empty", i)
	case len(entries) > maxEntries:
		return nil, invalid("descriptors[%d].entries has more than %d entries", i, maxEntries)
	}
	descriptor := make(rules.Descriptor, len(entries))
	for j, e := range entries {
		if e.GetKey() == "" {
			return nil, invalid("descriptors[%d].entries[%d].key is empty", i, j)
		}
		descriptor[j] = rules.Entry{Key: e.GetKey(), Value: e.GetValue()}
	}
	return descriptor, nil
}

// readHits sets how often the descriptor counts: as often as it says itself, else the request, else once.
func readHits(c *engine.Check, ofRequest uint32, d *descriptorv3.RateLimitDescriptor) intent {
	hits := uint64(max(ofRequest, 1))
	if own := d.GetHitsAddend(); own != nil {
		hits = own.GetValue()
	}
	c.Cost = int64(min(hits, math.MaxInt64)) // the engine bounds what that comes to
	switch {
	case d.GetIsNegativeHits():
		return refund
	case hits == 0:
		c.Cost, c.Peek = 1, true
		return look
	default:
		return spend
	}
}

// readOverride is the limit that comes with a descriptor, nil for none or one whose window no limiter has: then the
// policies' own hold.
func readOverride(o *descriptorv3.RateLimitDescriptor_RateLimitOverride) *engine.Override {
	if o == nil {
		return nil
	}
	var unit time.Duration
	switch o.GetUnit() {
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
	default: // a year is longer than limits can be
		return nil
	}
	units := int64(1)
	if m := o.GetUnitMultiplier(); m != nil {
		units = int64(m.GetValue())
	}
	if units < 1 || units > int64(limiter.MaxWindow/unit) {
		return nil
	}
	window := time.Duration(units * int64(unit))
	return &engine.Override{Units: int64(o.GetRequestsPerUnit()), Window: window}
}

// clientOf is the client's address if Envoy gives it in the descriptor.
func clientOf(d rules.Descriptor) netip.Addr {
	for _, e := range d {
		if e.Key == remoteAddress {
			ip, _ := netip.ParseAddr(e.Value) // what is none is unknown
			return ip
		}
	}
	return netip.Addr{}
}

func invalid(format string, a ...any) error {
	return status.Error(codes.InvalidArgument, fmt.Sprintf(format, a...))
}
