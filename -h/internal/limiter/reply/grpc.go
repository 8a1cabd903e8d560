package reply

import (
	"strings"
	"unicode/utf8"
)

// maxGRPCMessage is the length of the longest message of a gRPC status as it is sent, in bytes. The header list of a response, which has the
// message, can often have 8 KiB: a client reports a response with more as INTERNAL.
const maxGRPCMessage = 1024

// GRPCMessage shortens text so that it has at most 1 KiB as the message of a gRPC status. gRPC sends a byte that is not printable ASCII, and "%",
// as three bytes. A text that is shortened ends with "…".
func GRPCMessage(text string) string {
	const more = "…"
	size, end := 0, 0 // end is where text is cut to have room for more
	for rest := text; rest != ""; {
		c, n := utf8.DecodeRuneInString(rest)
		rest = rest[n:]
		if c >= ' ' && c <= '~' && c != '%' {
			size++
		} else {
			size += 3 * n
		}
		if size <= maxGRPCMessage-3*len(more) {
			end = len(text) - len(rest)
		}
	}
	if size <= maxGRPCMessage {
		return text
	}
	return strings.ToValidUTF8(text[:end], "") + more
}
