package rlsload

import (
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
)

// overallCode is the number of that field of a RateLimitResponse.
const overallCode = 1

// isDenied reads whether the request is over its limit from an encoded RateLimitResponse, without decoding the rest. ok is false if the
// message has no code that decides.
func isDenied(answer []byte) (denied, ok bool) {
	if len(answer) < framePrefix {
		return false, false
	}
	for message := answer[framePrefix:]; len(message) > 0; {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return false, false
		}
		message = message[n:]
		if number == overallCode && kind == protowire.VarintType {
			code, n := protowire.ConsumeVarint(message)
			denied = code == uint64(ratelimitv3.RateLimitResponse_OVER_LIMIT)
			return denied, n > 0 && (denied || code == uint64(ratelimitv3.RateLimitResponse_OK))
		}
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return false, false
		}
		message = message[n:]
	}
	return false, false
}
