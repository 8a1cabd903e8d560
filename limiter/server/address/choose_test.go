package address

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter/clientip"
)

// anyHeader generates a header value from a client: any value that HTTP accepts, with many that resemble entries.
func anyHeader() *rapid.Generator[string] {
	part := rapid.SampledFrom([]string{
		`"`, `\`, ",", ";", "=", " ", "for=", `for="`, "6.6.6.6", "10.0.0.3", "[::1]", "[", "]", ":80", "unknown", "_x", "FOR=", "by=10.0.0.2", "é", "\t",
	})
	return rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(part, 0, 12).Draw(t, "parts"), "") })
}

// spell generates an entry for ip, in one of the notations of proxies.
func spell(t *rapid.T, field Field, ip netip.Addr) string {
	text := ip.String()
	port := rapid.SampledFrom([]string{"", ":4711"}).Draw(t, "port")
	if ip.Is6() && (field == Forwarded || port != "" || rapid.Bool().Draw(t, "brackets")) {
		text = "[" + text + "]"
	}
	text += port
	if field == XForwardedFor {
		return text
	}
	if strings.Contains(text, ":") || rapid.Bool().Draw(t, "quoted") {
		text = `"` + text + `"`
	}
	element := rapid.SampledFrom([]string{"for=%s", "For=%s;proto=https", `by="[2001:db8:1::5]";for=%s;host="a,b\"c;for=9.9.9.9"`}).Draw(t, "element")
	return fmt.Sprintf(element, text)
}

func TestTrusted_NoClientCanChooseItsAddress(t *testing.T) {
	for _, field := range []Field{XForwardedFor, Forwarded} {
		t.Run(string(field), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { clientCannotChoose(t, field) })
		})
	}
}

// clientCannotChoose sends a header of a client through one to three proxies. Each proxy appends the address of its caller, to the
// line or on a new line. The result must be the real address of the client, anyHeader value the client sent.
func clientCannotChoose(t *rapid.T, field Field) {
	proxies := []netip.Addr{
		netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8:1::2"), netip.MustParseAddr("10.0.0.3"),
	}
	list, err := ParseNetworks([]string{"10.0.0.0/8", "2001:db8:1::/48"})
	if err != nil {
		t.Fatal(err)
	}
	client := netip.MustParseAddr(rapid.SampledFrom([]string{"203.0.113.7", "2001:db8:2::7"}).Draw(t, "client"))
	lines := rapid.SliceOfN(anyHeader(), 0, 3).Draw(t, "client's lines")
	chain := append([]netip.Addr{client}, proxies[:rapid.IntRange(0, 2).Draw(t, "proxies between")]...)
	for _, hop := range chain {
		entry := spell(t, field, hop)
		if len(lines) == 0 || rapid.Bool().Draw(t, "line of its own") {
			lines = append(lines, entry)
			continue
		}
		lines[len(lines)-1] += ", " + entry
	}
	header := http.Header{string(field): lines}
	if got := NewTrusted(field, list).Client(proxies[2], header); got != client {
		t.Fatalf("client %v, want %v, from %q", got, client, lines)
	}
}

// FuzzXForwardedFor checks the invariant of the package with a separate parser, which reads from the left.
func FuzzXForwardedFor(f *testing.F) {
	for _, seed := range []string{
		"203.0.113.7", "6.6.6.6, 203.0.113.7,10.0.0.2", "[2001:db8::7]:4711,unknown", ",,_x", "::ffff:10.0.0.2, 1.1.1.1:1", "a\n10.0.0.1",
	} {
		f.Add("10.0.0.1", seed, true)
		f.Add("192.0.2.1", seed, false)
	}
	f.Fuzz(func(t *testing.T, from, value string, list bool) {
		entries := []string{}
		for line := range strings.SplitSeq(value, "\n") {
			entries = append(entries, strings.Split(line, ",")...)
		}
		checkInvariant(t, XForwardedFor, from, value, list, entries)
	})
}

// FuzzForwarded is FuzzXForwardedFor for the other field. It treats all text between separators as a possible address, so that it
// misses no address that Client can return.
func FuzzForwarded(f *testing.F) {
	for _, seed := range []string{
		"for=203.0.113.7", `for=6.6.6.6, for="[2001:db8::7]:4711";proto=https`, `for="a\",for=1.1.1.1"`, `x=", for=203.0.113.7`, "for=10.0.0.2\nfor=10.0.0.3",
		`for="10.0.0\.2"`, `for=1.1.1.1;for=2.2.2.2`,
	} {
		f.Add("10.0.0.1", seed, true)
		f.Add("192.0.2.1", seed, false)
	}
	f.Fuzz(func(t *testing.T, from, value string, list bool) {
		unescaped := strings.ReplaceAll(value, `\`, "") // escapes
		entries := strings.FieldsFunc(unescaped, func(r rune) bool { return strings.ContainsRune("=,;\" \t\n", r) })
		checkInvariant(t, Forwarded, from, value, list, entries)
	})
}

func checkInvariant(t *testing.T, field Field, from, value string, list bool, entries []string) {
	t.Helper()
	peer, err := netip.ParseAddr(from)
	if err != nil {
		return
	}
	trust := trusted(t, field)
	if list {
		trust = trusted(t, field, "10.0.0.0/8")
	}
	got := trust.Client(peer, http.Header{string(field): strings.Split(value, "\n")})
	if got == clientip.Plain(peer) {
		return
	}
	if list && !trust.proxies.Contains(peer) {
		t.Fatalf("client %v from peer %v, which is not trusted", got, peer)
	}
	for _, entry := range slices.Backward(entries) {
		ip, known := clientip.Parse(strings.Trim(entry, " \t"))
		if known && ip == got {
			return
		}
		if field == XForwardedFor && strings.Trim(entry, " \t") == "" {
			continue
		}
		if field == XForwardedFor && (!known || !trust.proxies.Contains(ip)) {
			t.Fatalf("client %v, with %q to its right in %q", got, entry, value)
		}
	}
	t.Fatalf("client %v, which is not in %q", got, value)
}
