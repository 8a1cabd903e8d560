package address

import (
	"net/http"
	"net/netip"
	"testing"
)

func trusted(t testing.TB, field Field, entries ...string) *Trusted {
	t.Helper()
	return NewTrusted(field, networks(t, entries...))
}

func TestTrusted_ClientIsTheLastUntrustedAddress(t *testing.T) {
	const peer = "10.0.0.1"
	proxies := []string{"10.0.0.0/8", "2001:db8:1::/48"}
	tests := map[string]struct {
		peer  string
		field Field
		lines []string
		want  string
	}{
		"no header":   {peer, XForwardedFor, nil, peer},
		"one address": {peer, XForwardedFor, []string{"203.0.113.7"}, "203.0.113.7"},
		"entries from the client are on the left":  {peer, XForwardedFor, []string{"6.6.6.6, 203.0.113.7"}, "203.0.113.7"},
		"through two proxies":                      {peer, XForwardedFor, []string{"6.6.6.6, 203.0.113.7, 10.9.9.9"}, "203.0.113.7"},
		"several lines are one list":               {peer, XForwardedFor, []string{"6.6.6.6", "203.0.113.7", "10.9.9.9,10.8.8.8"}, "203.0.113.7"},
		"only trusted proxies":                     {peer, XForwardedFor, []string{"10.7.7.7, 10.9.9.9"}, "10.7.7.7"},
		"a peer that is not trusted":               {"192.0.2.9", XForwardedFor, []string{"203.0.113.7"}, "192.0.2.9"},
		"an invalid entry ends the search":         {peer, XForwardedFor, []string{"203.0.113.7, junk, 10.9.9.9"}, "10.9.9.9"},
		"an invalid last entry":                    {peer, XForwardedFor, []string{"203.0.113.7, unknown"}, peer},
		"an obfuscated entry":                      {peer, XForwardedFor, []string{"203.0.113.7, _hidden, 10.9.9.9"}, "10.9.9.9"},
		"a port":                                   {peer, XForwardedFor, []string{"203.0.113.7:4711"}, "203.0.113.7"},
		"an invalid port":                          {peer, XForwardedFor, []string{"203.0.113.7:65536"}, peer},
		"a port with a letter":                     {peer, XForwardedFor, []string{"203.0.113.7:4a"}, peer},
		"an obfuscated port without a name":        {peer, XForwardedFor, []string{"203.0.113.7:_"}, peer},
		"an obfuscated port with a sign":           {peer, XForwardedFor, []string{"203.0.113.7:_a+b"}, peer},
		"brackets":                                 {peer, XForwardedFor, []string{"[2001:db8::7]"}, "2001:db8::7"},
		"brackets and a port":                      {peer, XForwardedFor, []string{"[2001:db8::7]:4711"}, "2001:db8::7"},
		"brackets around IPv4":                     {peer, XForwardedFor, []string{"[203.0.113.7]"}, peer},
		"an unclosed bracket":                      {peer, XForwardedFor, []string{"[2001:db8::7"}, peer},
		"text after a bracket":                     {peer, XForwardedFor, []string{"[2001:db8::7]x"}, peer},
		"IPv6 without brackets":                    {peer, XForwardedFor, []string{"2001:db8::7"}, "2001:db8::7"},
		"a zone is ignored":                        {peer, XForwardedFor, []string{"fe80::7%eth0"}, "fe80::7"},
		"IPv4 within IPv6":                         {peer, XForwardedFor, []string{"203.0.113.7, ::ffff:10.9.9.9"}, "203.0.113.7"},
		"a peer that is IPv4 within IPv6":          {"::ffff:10.0.0.1", XForwardedFor, []string{"::ffff:203.0.113.7"}, "203.0.113.7"},
		"an IPv6 proxy":                            {"2001:db8:1::1", XForwardedFor, []string{"203.0.113.7,2001:db8:1::2"}, "203.0.113.7"},
		"empty entries are skipped":                {peer, XForwardedFor, []string{" , 203.0.113.7 ,, ", ""}, "203.0.113.7"},
		"quotes":                                   {peer, XForwardedFor, []string{`"203.0.113.7"`}, "203.0.113.7"},
		"quotes, brackets and a port":              {peer, XForwardedFor, []string{`6.6.6.6, "[2001:db8::7]:4711"`}, "2001:db8::7"},
		"a quote that the client has opened":       {peer, XForwardedFor, []string{`"6.6.6.6, 203.0.113.7`}, "203.0.113.7"},
		"a quote around the address of the proxy":  {peer, XForwardedFor, []string{`"6.6.6.6, 203.0.113.7"`}, peer},
		"a network is no address":                  {peer, XForwardedFor, []string{"203.0.113.0/24"}, peer},
		"NAT64 is not the proxy in it":             {peer, XForwardedFor, []string{"203.0.113.7, 64:ff9b::10.9.9.9"}, "64:ff9b::a09:909"},
		"the other field is never read":            {peer, Forwarded, nil, peer},
		"Forwarded":                                {peer, Forwarded, []string{`for=203.0.113.7;proto=https;by=10.0.0.1`}, "203.0.113.7"},
		"Forwarded in any case":                    {peer, Forwarded, []string{`Proto=https; FOR=203.0.113.7`}, "203.0.113.7"},
		"Forwarded, quoted":                        {peer, Forwarded, []string{`for="[2001:db8::7]:4711"`}, "2001:db8::7"},
		"Forwarded, an escape":                     {peer, Forwarded, []string{`for="203.0.113\.7"`}, "203.0.113.7"},
		"Forwarded through two proxies":            {peer, Forwarded, []string{`for=6.6.6.6, for="203.0.113.7:80"`, `for=10.9.9.9`}, "203.0.113.7"},
		"Forwarded, an obfuscated port":            {peer, Forwarded, []string{`for="203.0.113.7:_web1"`}, "203.0.113.7"},
		"Forwarded, unknown":                       {peer, Forwarded, []string{`for=203.0.113.7, for=unknown, for=10.9.9.9`}, "10.9.9.9"},
		"Forwarded, an element without for=":       {peer, Forwarded, []string{`for=203.0.113.7, proto=https`}, peer},
		"Forwarded, an element with two for=":      {peer, Forwarded, []string{`for=203.0.113.7;for=203.0.113.8`}, peer},
		"Forwarded, a comma in quotes":             {peer, Forwarded, []string{`for=203.0.113.7;host="a,for=6.6.6.6"`}, "203.0.113.7"},
		"Forwarded, an escaped quote":              {peer, Forwarded, []string{`for=203.0.113.7;host="a\",for=6.6.6.6"`}, "203.0.113.7"},
		"Forwarded, an unclosed quote":             {peer, Forwarded, []string{`for="203.0.113.7`}, peer},
		"Forwarded, an unclosed quote in a line":   {peer, Forwarded, []string{`for=6.6.6.6`, `for="203.0.113.7`}, peer},
		"Forwarded, an escaped closing quote":      {peer, Forwarded, []string{`for="203.0.113.7\"`}, peer},
		"Forwarded, an unclosed quote of a client": {peer, Forwarded, []string{`for=6.6.6.6;x=", for="203.0.113.7"`}, "203.0.113.7"},
		"Forwarded, a backslash of a client":       {peer, Forwarded, []string{`for=6.6.6.6;x="\, for="[2001:db8::7]"`}, "2001:db8::7"},
		"Forwarded, a quote in a name":             {peer, Forwarded, []string{`a"=1;for=203.0.113.7`}, peer},
		"Forwarded, a quoted name":                 {peer, Forwarded, []string{`"a"=1;for=203.0.113.7`}, peer},
		"Forwarded, a quoted name in an element":   {peer, Forwarded, []string{`"a",for=203.0.113.7`}, "203.0.113.7"},
		"Forwarded, an escaped backslash":          {peer, Forwarded, []string{`for=203.0.113.7;host="a,b\\"`}, "203.0.113.7"},
		"Forwarded, only a quote":                  {peer, Forwarded, []string{`for=203.0.113.7,"`}, peer},
		"Forwarded, text after a quoted address":   {peer, Forwarded, []string{`for="203.0.113.7"x`}, peer},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := http.Header{string(test.field): test.lines}
			other := XForwardedFor
			if test.field == XForwardedFor {
				other = Forwarded
			}
			h[string(other)] = []string{"for=6.6.6.6", "6.6.6.6"}
			got := trusted(t, test.field, proxies...).Client(netip.MustParseAddr(test.peer), h)
			if got != netip.MustParseAddr(test.want) {
				t.Errorf("client %v, want %s", got, test.want)
			}
		})
	}
}

func TestTrusted_WithoutProxiesUsesTheLastEntry(t *testing.T) {
	h := http.Header{"X-Forwarded-For": {"6.6.6.6, 127.0.0.1, 10.0.0.5"}}
	if got := trusted(t, XForwardedFor).Client(netip.MustParseAddr("198.51.100.1"), h); got != netip.MustParseAddr("10.0.0.5") {
		t.Errorf("client %v", got)
	}
}

func TestTrusted_ClientOfSource(t *testing.T) {
	for name, test := range map[string]struct {
		proxies      []string
		source, line string
		want         string
	}{
		"without proxies, the source":               {nil, "203.0.113.7", "6.6.6.6", "203.0.113.7"},
		"without proxies, IPv4 within IPv6":         {nil, "::ffff:203.0.113.7", "6.6.6.6", "203.0.113.7"},
		"an untrusted source":                       {[]string{"10.0.0.0/8"}, "203.0.113.7", "6.6.6.6, 10.0.0.1", "203.0.113.7"},
		"a trusted source":                          {[]string{"10.0.0.0/8"}, "10.0.0.1", "6.6.6.6, 203.0.113.7", "203.0.113.7"},
		"a trusted source that the proxy appended":  {[]string{"10.0.0.0/8"}, "10.0.0.1", "6.6.6.6, 203.0.113.7, 10.0.0.1", "203.0.113.7"},
		"a trusted source, IPv4 within IPv6":        {[]string{"10.0.0.0/8"}, "::ffff:10.0.0.1", "203.0.113.7", "203.0.113.7"},
		"a trusted source that reports no client":   {[]string{"10.0.0.0/8"}, "10.0.0.1", "", "10.0.0.1"},
		"a trusted source, and an invalid address":  {[]string{"10.0.0.0/8"}, "10.0.0.1", "203.0.113.7, junk", "10.0.0.1"},
		"a trusted source, and only trusted others": {[]string{"10.0.0.0/8"}, "10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{"X-Forwarded-For": {test.line}}
			got := trusted(t, XForwardedFor, test.proxies...).ClientOfSource(netip.MustParseAddr(test.source), h)
			if got != netip.MustParseAddr(test.want) {
				t.Errorf("client %v, want %s", got, test.want)
			}
		})
	}
	if got := trusted(t, XForwardedFor).ClientOfSource(netip.Addr{}, http.Header{"X-Forwarded-For": {"6.6.6.6"}}); got.IsValid() {
		t.Errorf("client %v of an unknown source, want no address", got)
	}
}

func TestTrusted_IgnoresTheFieldOfAnUntrustedPeer(t *testing.T) {
	h := http.Header{"X-Forwarded-For": {"203.0.113.7"}}
	in, out := netip.MustParseAddr("::ffff:10.0.0.1"), netip.MustParseAddr("192.0.2.1")
	some, all := trusted(t, XForwardedFor, "10.0.0.0/8"), trusted(t, XForwardedFor)
	for name, test := range map[string]struct {
		got, want bool
	}{
		"a trusted peer":                 {some.Ignores(in, h), false},
		"an untrusted peer":              {some.Ignores(out, h), true},
		"an untrusted peer, no field":    {some.Ignores(out, http.Header{}), false},
		"any peer, without a list":       {all.Ignores(out, h), false},
		"an untrusted peer, other field": {trusted(t, Forwarded, "10.0.0.0/8").Ignores(out, h), false},
	} {
		if test.got != test.want {
			t.Errorf("%s: %v", name, test.got)
		}
	}
}

func TestParseField_AcceptsTheNamesOfBothFields(t *testing.T) {
	for _, name := range []string{"X-Forwarded-For", "x-forwarded-for", "forwarded"} {
		if f, err := ParseField(name); err != nil || f == "" {
			t.Errorf("%s: %q, %v", name, f, err)
		}
	}
	const want = `"X-Real-IP" is invalid: must be X-Forwarded-For or Forwarded`
	if _, err := ParseField("X-Real-IP"); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
