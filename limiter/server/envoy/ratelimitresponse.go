package envoy

import (
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/server/envoy/wire"
)

// The field numbers of the messages of an envoy.service.ratelimit.v3.RateLimitResponse.
const (
	responseOverallCode protowire.Number = 1
	responseStatuses    protowire.Number = 2
	responseHeaders     protowire.Number = 3
	responseRawBody     protowire.Number = 5
	responseMetadata    protowire.Number = 6

	statusCode      protowire.Number = 1
	statusLimit     protowire.Number = 2
	statusRemaining protowire.Number = 3
	statusReset     protowire.Number = 4

	currentRequests   protowire.Number = 1
	currentUnit       protowire.Number = 2
	currentName       protowire.Number = 3
	currentMultiplier protowire.Number = 4

	durationSeconds protowire.Number = 1
	durationNanos   protowire.Number = 2
)

// appendStatus appends the status of a descriptor. It describes the strictest enforced policy of the descriptor, and has no limit if no
// policy matched.
func appendStatus(b []byte, a *engine.Answer, multiplier bool) []byte {
	b, begin := beginMessage(b, responseStatuses)
	b = appendEnum(b, statusCode, code(a.Allowed))
	if strictest := a.Strictest(); strictest != nil {
		b = appendLimit(b, strictest, multiplier)
		b = appendVarint(b, statusRemaining, uint64(clampUint32(strictest.Remaining)))
		b = appendDuration(b, statusReset, untilReset(a.Allowed, strictest.Decision))
	}
	return endMessage(b, begin)
}

func appendLimit(b []byte, r *engine.Result, multiplier bool) []byte {
	b, begin := beginMessage(b, statusLimit)
	b = appendVarint(b, currentRequests, uint64(clampUint32(r.Decision.Limit)))
	unit, times := unitOf(r.Window, multiplier)
	b = appendEnum(b, currentUnit, unit)
	b = appendString(b, currentName, r.Rule.Policy)
	if times != 1 {
		var wrapped int
		b, wrapped = beginMessage(b, currentMultiplier)
		b = endMessage(appendVarint(b, wire.WrapperValue, uint64(times)), wrapped)
	}
	return endMessage(b, begin)
}

// appendDuration appends a google.protobuf.Duration, which must not be negative.
func appendDuration(b []byte, number protowire.Number, d time.Duration) []byte {
	b, begin := beginMessage(b, number)
	b = appendVarint(b, durationSeconds, uint64(d/time.Second))
	b = appendVarint(b, durationNanos, uint64(d%time.Second))
	return endMessage(b, begin)
}

func appendHeader(b []byte, key, value string) []byte {
	b, begin := beginMessage(b, responseHeaders)
	b = appendString(b, wire.HeaderKey, key)
	b = appendString(b, wire.HeaderValue, value)
	return endMessage(b, begin)
}

// appendVarint appends a field, unless it has the default value.
func appendVarint(b []byte, number protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), v)
}

func appendEnum[E ~int32](b []byte, number protowire.Number, v E) []byte {
	return appendVarint(b, number, uint64(v))
}

// appendString appends a field, unless it has the default value.
func appendString(b []byte, number protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), s)
}

func code(allowed bool) ratelimitv3.RateLimitResponse_Code {
	if allowed {
		return ratelimitv3.RateLimitResponse_OK
	}
	return ratelimitv3.RateLimitResponse_OVER_LIMIT
}
