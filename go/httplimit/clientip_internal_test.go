package httplimit

import (
	"net/http"
	"testing"

	"github.com/weir-dev/weir/limiter/clientip"
)

// The short way to an address is the same as the way for texts of middlewares.
func TestPeerIP_IsTheAddressThatAllPartsRead(t *testing.T) {
	for _, text := range []string{
		"192.0.2.1:4711", "192.0.2.1", "[2001:db8::1]:4711", "2001:db8::1", "[2001:db8::1]", "[::ffff:192.0.2.1]:1", "[fe80::1%eth0]:1", "[::ffff:192.0.2.1%a]:1",
		"192.0.2.1:99999", "192.0.2.1:", ":80", "", "@", "unix", "192.0.2.1:_x", "[2001:db8::1]:_x", "192.0.2.1:00080", "192.0.2.01:80", "\"192.0.2.1:80\"", " 192.0.2.1:80",
		"2001:db8::1:80", "[192.0.2.1]:80",
	} {
		want, _ := clientip.Parse(text)
		if got := peerIP(&http.Request{RemoteAddr: text}); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
