package http2_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	_ "google.golang.org/grpc/encoding/gzip" // as the exporter of traces in the process of a limiter

	"github.com/weir-dev/weir/limiter/server/envoy"
	"github.com/weir-dev/weir/test/fixture"
)

// An exchange is what a client does on a connection, and the answer that it waits for on stream 1.
type exchange struct {
	settings []http2.Setting // of its preface
	send     func(p *peer) error
}

// exchanges are what clients of HTTP/2 may send: every setting at the start and later, sizes, encodings, deadlines, ends of streams and control
// frames.
func exchanges() map[string]exchange {
	all := map[string]exchange{}
	whole := func(p *peer) error { return p.call(1) }
	// a window is opened after the response had to wait for it
	opened := func(p *peer) error {
		return errors.Join(p.call(1), p.framer.WriteWindowUpdate(1, 1<<16), p.framer.WriteSettings(initialWindow(1<<16)))
	}
	values := map[http2.SettingID][]uint32{
		http2.SettingHeaderTableSize:       {0, 1, 64, 1024, 4095, 4096, 4097, 65536, 1<<32 - 1},
		http2.SettingEnablePush:            {0, 1},
		http2.SettingMaxConcurrentStreams:  {0, 1, 100, 1<<32 - 1},
		http2.SettingInitialWindowSize:     {0, 1, 4, 5, 16384, 65535, 1<<31 - 1},
		http2.SettingMaxFrameSize:          {16384, 16385, 1<<24 - 1},
		http2.SettingMaxHeaderListSize:     {0, 1, 100, 1 << 14, 1<<32 - 1},
		http2.SettingEnableConnectProtocol: {0, 1},
		0x99:                               {0, 1<<32 - 1},
	}
	invalid := map[http2.SettingID][]uint32{
		http2.SettingEnablePush:        {2},
		http2.SettingInitialWindowSize: {1 << 31, 1<<32 - 1},
		http2.SettingMaxFrameSize:      {0, 16383, 1 << 24},
	}
	for id, list := range values {
		for _, value := range list {
			s := http2.Setting{ID: id, Val: value}
			call := whole
			if id == http2.SettingInitialWindowSize && value < 16384 {
				call = opened
			}
			all[fmt.Sprint("preface ", s)] = exchange{[]http2.Setting{s}, call}
			all[fmt.Sprint("later ", s)] = exchange{nil, func(p *peer) error { return errors.Join(p.framer.WriteSettings(s), call(p)) }}
			all[fmt.Sprint("twice ", s)] = exchange{[]http2.Setting{s}, func(p *peer) error {
				return errors.Join(p.framer.WriteSettings(s, s), p.framer.WriteSettings(http2.Setting{ID: id, Val: list[0]}, s), call(p))
			}}
		}
	}
	for id, list := range invalid {
		for _, value := range list {
			s := http2.Setting{ID: id, Val: value}
			all[fmt.Sprint("invalid ", s)] = exchange{nil, func(p *peer) error { return errors.Join(p.framer.WriteSettings(s), p.call(1)) }}
		}
	}
	table := func(size uint32) http2.Setting { return http2.Setting{ID: http2.SettingHeaderTableSize, Val: size} }
	all["a table that shrinks and grows"] = exchange{[]http2.Setting{table(0)}, func(p *peer) error {
		return errors.Join(p.framer.WriteSettings(table(4096)), p.framer.WriteSettings(table(0), table(100)), p.call(1))
	}}
	all["a window that becomes negative"] = exchange{[]http2.Setting{initialWindow(10)}, func(p *peer) error {
		return errors.Join(p.call(1), p.framer.WriteSettings(initialWindow(0)), p.framer.WriteWindowUpdate(1, 1<<16))
	}}
	for _, size := range []int{1 << 10, 16 << 10, 33_000, 64 << 10, 96 << 10, 200 << 10} {
		for kind, value := range map[string]string{"Huffman": strings.Repeat("a", size), "literal": strings.Repeat("~", size)} {
			all[fmt.Sprintf("metadata of %d bytes, %s", size, kind)] = exchange{nil, func(p *peer) error {
				return errors.Join(p.fields(1, withField("tracestate", value), false), p.framer.WriteData(1, true, p.body))
			}}
		}
	}
	all["a thousand fields"] = exchange{nil, func(p *peer) error {
		fields := call(rlsPath)
		for i := range 1000 {
			fields = append(fields, field{fmt.Sprint("x-", i), "y"})
		}
		return errors.Join(p.fields(1, encode(fields...), false), p.framer.WriteData(1, true, p.body))
	}}
	for _, timeout := range []string{"1H", "99999999M", "10S", "5000m", "9000000u", "99999999n", "0S", "0n", "", "1", "S", "1s", "-1S", "1.5S", "123456789S", "+5S", " 5S"} {
		all[fmt.Sprintf("grpc-timeout %q", timeout)] = exchange{nil, sending(withField("grpc-timeout", timeout))}
	}
	for _, encoding := range []string{"identity", "gzip", "deflate", "snappy", "zap", ""} {
		all[fmt.Sprintf("grpc-encoding %q", encoding)] = exchange{nil, sending(withField("grpc-encoding", encoding))}
		all[fmt.Sprintf("grpc-encoding %q, compressed", encoding)] = exchange{nil, sending(withField("grpc-encoding", encoding), 1, 0, 0, 0, 1, 0)}
		all[fmt.Sprintf("grpc-accept-encoding %q", encoding)] = exchange{nil, sending(withField("grpc-accept-encoding", encoding))}
	}
	for _, kind := range []string{"application/grpc", "application/grpc+proto", "application/grpc+json", "application/grpc;charset=utf-8", "application/grpc-web", "application/grpcx", "text/plain", "", "APPLICATION/GRPC"} {
		all[fmt.Sprintf("content-type %q", kind)] = exchange{nil, sending(without("content-type", field{"content-type", kind}))}
	}
	for _, path := range []string{"/", "//", "/a", "/a/b", "/a/b/c", "a/b", "", "*", rlsPath + "/", rlsPath + "?x", "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Nothing", "/\xff/\xff"} {
		all[fmt.Sprintf("path %q", path)] = exchange{nil, sending(encode(call(path)...), 0, 0, 0, 0, 0)}
	}
	for name, d := range deviations() {
		all[name] = exchange{nil, d.send}
	}
	for _, name := range []string{"DATA after the end", "more DATA than the window"} {
		delete(all, name) // grpc-go answers or resets them, which depends on the time
	}
	for split := 1; split < 60; split += 7 {
		all[fmt.Sprintf("CONTINUATION after %d bytes", split)] = exchange{nil, func(p *peer) error {
			at := min(split, len(p.block))
			return errors.Join(
				p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.block[:at]}), p.framer.WriteContinuation(1, false, nil),
				p.framer.WriteContinuation(1, true, p.block[at:]), p.framer.WriteData(1, true, p.body))
		}}
		all[fmt.Sprintf("padding of %d bytes", 4*split)] = exchange{nil, func(p *peer) error {
			return errors.Join(
				p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.block, EndHeaders: true, PadLength: uint8(4 * split)}),
				p.framer.WriteDataPadded(1, true, p.body, make([]byte, 4*split)))
		}}
	}
	for name, more := range map[string]func(p *peer) error{
		"PING":                          func(p *peer) error { return p.framer.WritePing(false, [8]byte{1}) },
		"the reply to no PING":          func(p *peer) error { return p.framer.WritePing(true, [8]byte{1}) },
		"PRIORITY":                      func(p *peer) error { return p.framer.WritePriority(7, http2.PriorityParam{StreamDep: 1}) },
		"WINDOW_UPDATE of a connection": func(p *peer) error { return p.framer.WriteWindowUpdate(0, 1<<20) },
		"WINDOW_UPDATE of a stream":     func(p *peer) error { return p.framer.WriteWindowUpdate(1, 1<<20) },
		"an unknown frame":              func(p *peer) error { return p.framer.WriteRawFrame(0x77, 0xff, 1, []byte{1}) },
		"SETTINGS of nothing":           func(p *peer) error { return p.framer.WriteSettings() },
		"empty DATA":                    func(p *peer) error { return p.framer.WriteData(1, false, nil) },
		"a window that overflows":       func(p *peer) error { return p.framer.WriteWindowUpdate(1, 1<<31-1) },
		"a connection's that overflows": func(p *peer) error { return p.framer.WriteWindowUpdate(0, 1<<31-1) },
		"a reset and another call":      func(p *peer) error { return p.framer.WriteRSTStream(1, http2.ErrCodeCancel) },
		"DATA of a stream that is reset": func(p *peer) error {
			return errors.Join(p.framer.WriteRSTStream(1, http2.ErrCodeCancel), p.framer.WriteData(1, false, []byte{0}))
		},
	} {
		all["between: "+name] = exchange{nil, func(p *peer) error {
			return errors.Join(p.open(1, false), more(p), p.framer.WriteData(1, true, p.body))
		}}
	}
	return all
}

// differences are the exchanges that the transports answer differently, with the reason. They are errors of a client, or what Envoy does not do.
func differences() map[string]string {
	all := map[string]string{
		"a call without :path":                    "the fast transport resets what RFC 9113 calls malformed, and grpc-go answers it",
		`path ""`:                                 "the same: an empty :path",
		"a call without :method":                  "the same",
		"a call with transfer-encoding":           "the same: a field of HTTP/1.1",
		"PUSH_PROMISE":                            "the fast transport ends a connection with a frame that a client must not send, and grpc-go ignores it",
		"DATA on a stream that was never opened":  "the same",
		"invalid [ENABLE_PUSH = 2]":               "the fast transport ends a connection with an invalid setting, and grpc-go ignores the setting",
		"a call without :authority":               "the fast transport reads no host",
		"a call with host twice":                  "the same",
		"binary metadata that is not base64":      "the fast transport reads no metadata",
		"trailers":                                "grpc-go ends a connection with trailers of a client, which HTTP/2 allows",
		"between: a window that overflows":        "the fast transport resets the stream or the connection of a window over 2³¹-1, and grpc-go does not check it",
		"between: a connection's that overflows":  "the same",
		"a window over 2³¹-1 of a stream":         "the same",
		"a window over 2³¹-1 of the connection":   "the same",
		"a window over 2³¹-1 by SETTINGS":         "the same",
		"between: a reset and another call":       "the fast transport resets the stream again if DATA follows, and grpc-go ignores it",
		"between: DATA of a stream that is reset": "the same",
	}
	for _, value := range []uint32{0, 16383, 1 << 24} {
		all[fmt.Sprint("invalid ", http2.Setting{ID: http2.SettingMaxFrameSize, Val: value})] = "the same as an invalid ENABLE_PUSH"
	}
	for _, when := range []string{"preface", "later", "twice"} {
		for _, size := range []uint32{0, 1, 100} {
			all[fmt.Sprint(when, " ", http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: size})] = "grpc-go resets a call whose response has larger " +
				"headers than the client has asked for, and the fast transport takes the setting as the advice that it is"
		}
	}
	return all
}

// TestTransports_AgreeExceptForTheListedDifferences compares what a client sees of both transports: the status, HTTP's status, whether the
// connection survives, and whether the next call on it is decided.
func TestTransports_AgreeExceptForTheListedDifferences(t *testing.T) {
	t.Parallel()
	fast, standard := serveWith(t, listenUnix(t), unchanged, envoy.FastTransport), serveReference(t)
	known := differences()
	for name, test := range exchanges() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, want := test.outcome(t, fast), test.outcome(t, standard)
			reason, listed := known[name]
			switch {
			case got != want && !listed:
				t.Errorf("%s: fast: %s; standard: %s", name, got, want)
			case got == want && listed:
				t.Errorf("%s: both have the outcome %s, so remove the difference: %s", name, got, reason)
			}
		})
	}
	for name := range known {
		if _, is := exchanges()[name]; !is {
			t.Errorf("there is no exchange %q", name)
		}
	}
}

// outcome plays an exchange on a new connection.
func (x exchange) outcome(t *testing.T, e *endpoint) string {
	t.Helper()
	p := e.connect(t, x.settings...)
	p.refill = !slices.ContainsFunc(x.settings, func(s http2.Setting) bool { return s.ID == http2.SettingInitialWindowSize })
	p.record(1)
	_ = x.send(p) // fails if the server has closed the connection
	p.sync()
	answered := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		r := p.streams[1]
		return p.closed != nil || r.ended || r.resets > 0
	}
	for deadline := time.Now().Add(300 * time.Millisecond); !answered() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond) // some exchanges have no answer
	}
	p.mu.Lock()
	r := p.streams[1]
	first := fmt.Sprintf("%v, HTTP %s", r, r.fields[":status"])
	p.mu.Unlock()
	next := "not decided"
	p.record(99)
	if p.call(99) == nil {
		fixture.Await(t, "the next call ends", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			r := p.streams[99]
			return p.closed != nil || r.ended || r.resets > 0 || r.headers > 0 // it can wait for a window
		})
		p.mu.Lock()
		if p.streams[99].headers > 0 && p.streams[99].resets == 0 {
			next = "decided"
		}
		p.mu.Unlock()
	}
	end := "open"
	if p.end() != "open" {
		end = "ended"
	}
	return fmt.Sprintf("%s; %s; the next call is %s", first, end, next)
}
