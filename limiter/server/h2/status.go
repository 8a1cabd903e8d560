package h2

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The header blocks of all responses. They use only the static table and literals that are not indexed. An encoder has no state then, so that
// responses of several goroutines can be encoded in any order.
var (
	headerOK  = appendLiteral([]byte{statusOK}, "content-type", "application/grpc") //nolint:gochecknoglobals // constant
	trailerOK = appendLiteral(nil, "grpc-status", "0")                              //nolint:gochecknoglobals // constant
)

// statusOK is ":status: 200" in the static table of HPACK.
const statusOK = 0x88

// appendLiteral appends a field that is not indexed, without compression.
func appendLiteral(b []byte, name, value string) []byte {
	b = append(b, 0)
	b = append(hpackLength(b, len(name)), name...)
	return append(hpackLength(b, len(value)), value...)
}

// hpackLength appends the length of a string that is not compressed: an integer with a prefix of 7 bits.
func hpackLength(b []byte, n int) []byte {
	if n < 127 {
		return append(b, byte(n))
	}
	b = append(b, 127)
	for n -= 127; n >= 128; n >>= 7 {
		b = append(b, byte(n)|128)
	}
	return append(b, byte(n))
}

// statusOf returns the status of an error of a call, as grpc-go does.
func statusOf(err error) *status.Status {
	if s, ok := status.FromError(err); ok {
		return s
	}
	return status.FromContextError(err)
}

// appendTrailer appends the fields of a status.
func appendTrailer(b []byte, code codes.Code, message string) []byte {
	b = appendLiteral(b, "grpc-status", strconv.Itoa(int(code)))
	if message == "" {
		return b
	}
	return appendLiteral(b, "grpc-message", percentEncode(message))
}

// trailersOnly returns the header block of a response without a message.
func trailersOnly(s *status.Status) []byte {
	return appendTrailer(slices.Clip(headerOK), s.Code(), s.Message())
}

// percentEncode encodes a message of a status: all but the printable ASCII characters, and "%".
func percentEncode(message string) string {
	var b strings.Builder
	for _, c := range []byte(strings.ToValidUTF8(message, "\uFFFD")) {
		if c >= ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// parseTimeout parses the value of grpc-timeout: at most 8 digits and a unit.
func parseTimeout(value string) (time.Duration, bool) {
	last := len(value) - 1
	if last < 1 || last > 8 {
		return 0, false
	}
	i := strings.IndexByte("HMSmun", value[last])
	n, err := strconv.ParseUint(value[:last], 10, 32)
	if i < 0 || err != nil {
		return 0, false
	}
	unit := [...]time.Duration{time.Hour, time.Minute, time.Second, time.Millisecond, time.Microsecond, time.Nanosecond}[i]
	if n > uint64(math.MaxInt64/unit) {
		return math.MaxInt64, true
	}
	return time.Duration(n) * unit, true
}
