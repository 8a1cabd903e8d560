package http2_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// A deviation is a call that is not as it must be, and what the peer gets.
type deviation struct {
	send func(p *peer) error // on stream 1
	want string              // the response: "grpc-status 0", "reset CANCEL", …; several are separated by |
	http string              // :status, if there is a response
	// ends are the allowed ends of the connection. None means that the next call on the connection is served.
	ends []string
}

// without returns the fields of a call without one, and with others in its place.
func without(name string, extra ...field) []byte {
	var fields []field
	for _, f := range call(rlsPath) {
		if f.name != name {
			fields = append(fields, f)
			continue
		}
		fields, extra = append(fields, extra...), nil
	}
	return encode(append(fields, extra...)...)
}

// sending sends the headers and the message of a call.
func sending(block []byte, body ...byte) func(p *peer) error {
	return func(p *peer) error {
		if body == nil {
			body = p.body
		}
		return errors.Join(p.headers(1, block, false), p.framer.WriteData(1, true, body))
	}
}

func withField(name, value string) []byte { return encode(call(rlsPath, field{name, value})...) }

func deviations() map[string]deviation {
	const protocol = "GOAWAY PROTOCOL_ERROR"
	tooLarge := []byte{0, 0, 16, 0, 1}
	return map[string]deviation{
		"a complete call":                             {send: sending(encode(call(rlsPath)...)), want: "grpc-status 0", http: "200"},
		"GET":                                         {send: sending(without(":method", field{":method", "GET"})), want: "grpc-status 13", http: "405"},
		"a call without content-type":                 {send: sending(without("content-type")), want: "grpc-status 3", http: "415"},
		"a call of JSON":                              {send: sending(without("content-type", field{"content-type", "application/json"})), want: "grpc-status 3", http: "415"},
		"application/grpc+proto":                      {send: sending(without("content-type", field{"content-type", "application/grpc+proto"})), want: "grpc-status 0", http: "200"},
		"application/grpc;x":                          {send: sending(without("content-type", field{"content-type", "application/grpc;x"})), want: "grpc-status 0", http: "200"},
		"application/grpc-web":                        {send: sending(without("content-type", field{"content-type", "application/grpc-web"})), want: "grpc-status 3", http: "415"},
		"a call without te":                           {send: sending(without("te")), want: "grpc-status 0", http: "200"},
		"a call without :authority":                   {send: sending(without(":authority")), want: "grpc-status 0", http: "200"},
		"a call with host instead of :authority":      {send: sending(without(":authority", field{"host", "limiter"})), want: "grpc-status 0", http: "200"},
		"a call with two hosts":                       {send: sending(withField("host", "a")), want: "grpc-status 0", http: "200"},
		"a call with host twice":                      {send: sending(encode(call(rlsPath, field{"host", "a"}, field{"host", "b"})...)), want: "grpc-status 0", http: "200"},
		"a call with connection":                      {send: sending(withField("connection", "close")), want: "reset PROTOCOL_ERROR"},
		"a call with transfer-encoding":               {send: sending(withField("transfer-encoding", "chunked")), want: "reset PROTOCOL_ERROR"},
		"a field name in upper case":                  {send: sending(withField("Upper", "x")), want: "reset PROTOCOL_ERROR"},
		"a field value with NUL":                      {send: sending(withField("x", "a\x00b")), want: "reset PROTOCOL_ERROR"},
		"an unknown pseudo-header":                    {send: sending(encode(append([]field{{":unknown", "x"}}, call(rlsPath)...)...)), want: "reset PROTOCOL_ERROR"},
		"a pseudo-header after others":                {send: sending(encode(append(call(rlsPath)[1:], field{":method", "POST"})...)), want: "reset PROTOCOL_ERROR"},
		":path twice":                                 {send: sending(encode(append([]field{{":path", rlsPath}}, call(rlsPath)...)...)), want: "reset PROTOCOL_ERROR"},
		"a call without :path":                        {send: sending(without(":path")), want: "reset PROTOCOL_ERROR"},
		"a call without :method":                      {send: sending(without(":method")), want: "reset PROTOCOL_ERROR"},
		"a path without a slash":                      {send: sending(encode(call("envoy")...)), want: "grpc-status 12", http: "200"},
		"an unknown method":                           {send: sending(encode(call("/envoy.service.ratelimit.v3.RateLimitService/Other")...)), want: "grpc-status 12", http: "200"},
		"an unknown service":                          {send: sending(encode(call("/a.B/C")...)), want: "grpc-status 12", http: "200"},
		"a time-out that is no time-out":              {send: sending(withField("grpc-timeout", "soon")), want: "grpc-status 13", http: "400"},
		"a time-out of zero":                          {send: sending(withField("grpc-timeout", "0n")), want: "grpc-status 4", http: "200"},
		"a time-out of hours":                         {send: sending(withField("grpc-timeout", "99999999H")), want: "grpc-status 0", http: "200"},
		"binary metadata that is not base64":          {send: sending(withField("x-bin", "%%%")), want: "grpc-status 0", http: "200"},
		"a message over 1 MiB":                        {send: sending(encode(call(rlsPath)...), tooLarge...), want: "grpc-status 8", http: "200"},
		"a message that is cut off":                   {send: sending(encode(call(rlsPath)...), 0, 0, 0, 0, 9, 1), want: "grpc-status 13", http: "200"},
		"half of a prefix":                            {send: sending(encode(call(rlsPath)...), 0, 0), want: "grpc-status 13", http: "200"},
		"no message":                                  {send: func(p *peer) error { return p.headers(1, p.block, true) }, want: "grpc-status 13", http: "200"},
		"two messages":                                {send: func(p *peer) error { return sending(p.block, append(prefixed(p.body[5:]), p.body...)...)(p) }, want: "grpc-status 13", http: "200"},
		"a message of no fields":                      {send: sending(encode(call(rlsPath)...), 0, 0, 0, 0, 0), want: "grpc-status 3", http: "200"},
		"a message that is no RateLimitRequest":       {send: sending(encode(call(rlsPath)...), prefixed([]byte{0xff, 0xff})...), want: "grpc-status 13", http: "200"},
		"a compressed message without an encoding":    {send: sending(encode(call(rlsPath)...), 1, 0, 0, 0, 0), want: "grpc-status 13", http: "200"},
		"a compressed message of an unknown encoding": {send: sending(withField("grpc-encoding", "zap"), 1, 0, 0, 0, 0), want: "grpc-status 12", http: "200"},
		"a message that is not compressed, with an unknown encoding": {send: sending(withField("grpc-encoding", "zap")), want: "grpc-status 12", http: "200"},
		"the encoding identity":                  {send: sending(withField("grpc-encoding", "identity")), want: "grpc-status 0", http: "200"},
		"a flag of compression that is reserved": {send: sending(encode(call(rlsPath)...), 2, 0, 0, 0, 0), want: "grpc-status 13", http: "200"},
		"fields over 256 KiB":                    {send: func(p *peer) error { return p.fields(1, withField("x", strings.Repeat("x", maxHeaders)), true) }, want: "reset FRAME_SIZE_ERROR"},
		"fields just under 256 KiB": {send: func(p *peer) error {
			return errors.Join(p.fields(1, withField("x", strings.Repeat("x", maxHeaders-1000)), false), p.framer.WriteData(1, true, p.body))
		}, want: "grpc-status 0", http: "200"},
		"padding": {send: func(p *peer) error {
			return errors.Join(p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.block, EndHeaders: true, PadLength: 100}), p.framer.WriteDataPadded(1, true, p.body, make([]byte, 255)))
		}, want: "grpc-status 0", http: "200"},
		"a message in many frames": {send: func(p *peer) error {
			err := p.open(1, false)
			for _, b := range p.body {
				err = errors.Join(err, p.framer.WriteData(1, false, []byte{b}), p.framer.WriteData(1, false, nil))
			}
			return errors.Join(err, p.framer.WriteData(1, true, nil))
		}, want: "grpc-status 0", http: "200"},
		"trailers": {send: func(p *peer) error {
			return errors.Join(p.open(1, false), p.framer.WriteData(1, false, p.body), p.headers(1, encode(field{"x", "y"}), true))
		}, want: "grpc-status 0", http: "200"},
		"priorities": {send: func(p *peer) error {
			return errors.Join(p.framer.WritePriority(5, http2.PriorityParam{StreamDep: 3, Weight: 1}), p.framer.WriteHeaders(http2.HeadersFrameParam{
				StreamID: 1, BlockFragment: p.block, EndHeaders: true, Priority: http2.PriorityParam{StreamDep: 5, Exclusive: true, Weight: 200},
			}), p.framer.WriteData(1, true, p.body))
		}, want: "grpc-status 0", http: "200"},
		"frames of an unknown type": {send: func(p *peer) error {
			return errors.Join(p.framer.WriteRawFrame(0xbe, 0xff, 1, nil), p.open(1, false), p.framer.WriteRawFrame(0xbe, 0xff, 1, []byte{1}), p.framer.WriteData(1, true, p.body))
		}, want: "grpc-status 0", http: "200"},
		"a dynamic table of another size": {send: func(p *peer) error {
			return errors.Join(p.headers(1, append([]byte{0x20, 0x3f, 0xe1, 0x1f}, p.block...), false), p.framer.WriteData(1, true, p.body))
		}, want: "grpc-status 0", http: "200"},
		"GOAWAY of the client": {send: func(p *peer) error {
			return errors.Join(p.open(1, false), p.framer.WriteGoAway(0, http2.ErrCodeNo, nil), p.framer.WriteData(1, true, p.body))
		}, want: "grpc-status 0", http: "200", ends: []string{"open", "GOAWAY NO_ERROR", "closed"}},
		"a dynamic table over 4096": {send: func(p *peer) error { return p.headers(1, append([]byte{0x3f, 0xe2, 0x1f}, p.block...), false) }, want: "nothing", ends: []string{"GOAWAY COMPRESSION_ERROR"}},
		"an index without a field":  {send: func(p *peer) error { return p.headers(1, append([]byte{0xff, 0x70}, p.block...), false) }, want: "nothing", ends: []string{"GOAWAY COMPRESSION_ERROR"}},
		"DATA after the end": {send: func(p *peer) error {
			return errors.Join(p.open(1, true), p.framer.WriteData(1, true, p.body))
		}, want: "grpc-status 13|reset STREAM_CLOSED", http: "200"},
		"DATA on a stream that was never opened": {send: func(p *peer) error { return p.framer.WriteData(1, true, p.body) }, want: "nothing", ends: []string{protocol}},
		"a stream with an even number":           {send: func(p *peer) error { return p.open(2, true) }, want: "nothing", ends: []string{protocol}},
		"a stream with a lower number":           {send: func(p *peer) error { return errors.Join(p.open(3, false), p.open(1, true)) }, want: "nothing", ends: []string{protocol, "GOAWAY STREAM_CLOSED"}},
		"PUSH_PROMISE": {send: func(p *peer) error {
			return p.framer.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, BlockFragment: p.block, EndHeaders: true})
		}, want: "nothing", ends: []string{protocol}},
		"a window over 2³¹-1 of the connection": {send: func(p *peer) error {
			return errors.Join(p.framer.WriteWindowUpdate(0, 1<<31-1), p.framer.WriteWindowUpdate(0, 1<<31-1))
		}, want: "nothing", ends: []string{"GOAWAY FLOW_CONTROL_ERROR"}},
		"a window over 2³¹-1 of a stream": {send: func(p *peer) error {
			return errors.Join(p.open(1, false), p.framer.WriteWindowUpdate(1, 1<<31-1))
		}, want: "reset FLOW_CONTROL_ERROR"},
		"a window over 2³¹-1 by SETTINGS": {send: func(p *peer) error {
			return errors.Join(p.open(1, false), p.framer.WriteWindowUpdate(1, 1<<30), p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1}))
		}, want: "nothing", ends: []string{"GOAWAY FLOW_CONTROL_ERROR"}},
		"more DATA than the window": {send: func(p *peer) error {
			err := p.open(1, false)
			for i := 0; i < 1000 && err == nil; i++ {
				err = p.framer.WriteData(1, false, append([]byte{0, 0, 3, 0xff, 0xff}, make([]byte, 16000)...))
			}
			return nil
		}, want: "reset FLOW_CONTROL_ERROR", ends: []string{"open", "GOAWAY FLOW_CONTROL_ERROR"}},
	}
}

// fields sends a header block that may need several frames.
func (p *peer) fields(stream uint32, block []byte, end bool) error {
	const size = 16 << 10
	first := block[:min(size, len(block))]
	p.whole.Lock()
	defer p.whole.Unlock()
	err := p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndHeaders: len(first) == len(block), EndStream: end})
	for rest := block[len(first):]; len(rest) > 0 && err == nil; {
		part := rest[:min(size, len(rest))]
		rest = rest[len(part):]
		err = p.framer.WriteContinuation(stream, len(rest) == 0, part)
	}
	return err
}

func TestServer_RespondsToCallsThatDeviate(t *testing.T) {
	e := serve(t, unchanged)
	for name, test := range deviations() {
		t.Run(name, func(t *testing.T) {
			p := e.connect(t)
			p.record(1)
			p.must(test.send(p))
			if len(test.ends) == 0 {
				r := p.await(1)
				p.wantServed(99)
				test.check(t, r)
				return
			}
			if test.want != "nothing" {
				test.check(t, p.await(1))
			}
			p.sync()
			for _, end := range test.ends {
				if end == p.end() {
					return
				}
			}
			t.Errorf("the connection is %q, want one of %q", p.end(), test.ends)
		})
	}
}

func (d deviation) check(t *testing.T, r *response) {
	t.Helper()
	if r.resets > 1 {
		t.Errorf("the server reset the stream %d times", r.resets)
	}
	if !slices.Contains(strings.Split(d.want, "|"), r.String()) || r.fields[":status"] != d.http && !strings.HasPrefix(r.String(), "reset") {
		t.Errorf("got %v with HTTP status %q: %s, want %s with %q", r, r.fields[":status"], r.fields["grpc-message"], d.want, d.http)
	}
}
