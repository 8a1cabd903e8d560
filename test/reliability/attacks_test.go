package reliability

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"
)

// attackTally is what an attack has sent.
type attackTally struct{ sent, connections atomic.Int64 }

// attack is what an attacker sends on each of its connections. It connects again as soon as the limiter closes one.
type attack struct {
	name     string
	settings []http2.Setting
	// begin is sent first. Nil sends nothing.
	begin func() []byte
	// next returns what is sent then, again and again: n counts from 0.
	next func(n int) []byte
	// same is true if what is sent is always the same. Otherwise each round is on new streams.
	same bool
	// decided is true if Redis decides each call. Then the queue of calls to Redis, which all connections share, can be full for a moment.
	decided bool
	// deaf attackers read nothing.
	deaf bool
}

const (
	rlsMethod    = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
	authMethod   = "/envoy.service.auth.v3.Authorization/Check"
	healthMethod = "/grpc.health.v1.Health/Check"
)

// run attacks until ctx is done.
func (a *attack) run(ctx context.Context, address string, tally *attackTally) {
	pace := attackRate / attackConnections // bytes a second
	began, sent := time.Now(), 0
	script := a.script()
	preface := append([]byte(http2.ClientPreface), frames(func(f *http2.Framer) { _ = f.WriteSettings(a.settings...) })...)
	if a.begin != nil {
		preface = append(preface, a.begin()...)
	}
	for ctx.Err() == nil {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		tally.connections.Add(1)
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		if !a.deaf {
			go func() {
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close() // the limiter has closed it
			}()
		}
		write := func(b []byte) bool {
			if ahead := time.Duration(sent)*time.Second/time.Duration(pace) - time.Since(began); ahead > 20*time.Millisecond {
				time.Sleep(ahead)
			}
			n, err := conn.Write(b)
			sent += n
			tally.sent.Add(int64(n))
			return err == nil && ctx.Err() == nil
		}
		for open, round := write(preface), 0; open; round++ {
			open = write(script.round(round))
		}
		stop()
		_ = conn.Close()
	}
}

// script is what an attack sends in a round. To send it again costs the attacker little: only the numbers of the streams change.
type script struct {
	bytes   []byte
	streams []int // where the frames have the number of a stream
	step    uint32
}

// scriptSize is the least that is written at a time, in bytes.
const scriptSize = 8 << 10

func (a *attack) script() *script {
	s := &script{}
	for n := 0; len(s.bytes) < scriptSize; n++ {
		s.bytes = append(s.bytes, a.next(n)...)
		s.step = stream(n+1) - 1
	}
	if a.same {
		return s
	}
	for at := 0; at < len(s.bytes); {
		if binary.BigEndian.Uint32(s.bytes[at+5:]) != 0 {
			s.streams = append(s.streams, at+5)
		}
		at += 9 + int(s.bytes[at])<<16 + int(s.bytes[at+1])<<8 + int(s.bytes[at+2])
	}
	return s
}

// round returns the bytes of a round on new streams.
func (s *script) round(n int) []byte {
	if n > 0 {
		for _, at := range s.streams {
			binary.BigEndian.PutUint32(s.bytes[at:], binary.BigEndian.Uint32(s.bytes[at:])+s.step)
		}
	} else {
		s.rewind()
	}
	return s.bytes
}

// rewind makes the first stream of the script that of a new connection.
func (s *script) rewind() {
	if len(s.streams) == 0 {
		return
	}
	first := binary.BigEndian.Uint32(s.bytes[s.streams[0]:]) - 1
	for _, at := range s.streams {
		binary.BigEndian.PutUint32(s.bytes[at:], binary.BigEndian.Uint32(s.bytes[at:])-first)
	}
}

// frames returns what write sends.
func frames(write func(f *http2.Framer)) []byte {
	var b bytes.Buffer
	f := http2.NewFramer(&b, nil)
	f.AllowIllegalWrites = true
	write(f)
	return b.Bytes()
}

// block returns the header block of a call. It uses no dynamic table.
func block(path string, more ...string) []byte {
	var b bytes.Buffer
	encoder := hpack.NewEncoder(&b)
	fields := append([]string{":method", "POST", ":scheme", "http", ":path", path, ":authority", "a", "content-type", "application/grpc", "te", "trailers"}, more...)
	for i := 0; i < len(fields); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: true}) // a bytes.Buffer does not fail
	}
	return b.Bytes()
}

func stream(n int) uint32 { return uint32(2*n + 1) }

// openStream sends a header block, in several frames if it is long.
func openStream(f *http2.Framer, id uint32, headers []byte, end bool) {
	part := headers[:min(len(headers), 16<<10)]
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: part, EndHeaders: len(part) == len(headers), EndStream: end})
	for rest := headers[len(part):]; len(rest) > 0; {
		part := rest[:min(len(rest), 16<<10)]
		rest = rest[len(part):]
		_ = f.WriteContinuation(id, len(rest) == 0, part)
	}
}

// whole sends a call with a message.
func whole(headers, message []byte) func(n int) []byte {
	body := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	body = append(body, message...)
	return func(n int) []byte {
		return frames(func(f *http2.Framer) {
			openStream(f, stream(n), headers, false)
			for rest := body; len(rest) > 0; {
				part := rest[:min(len(rest), 16<<10)]
				rest = rest[len(part):]
				_ = f.WriteData(stream(n), len(rest) == 0, part)
			}
		})
	}
}

func lengthPrefixed(number protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
}

func rlsMessage(descriptors []byte) []byte {
	return append(lengthPrefixed(1, []byte("shop")), descriptors...)
}

// nest wraps content in messages.
func nest(content []byte, numbers ...protowire.Number) []byte {
	for _, number := range slices.Backward(numbers) {
		content = lengthPrefixed(number, content)
	}
	return content
}

// flood returns an attack of one frame.
func flood(write func(f *http2.Framer, n int)) func(n int) []byte {
	return func(n int) []byte { return frames(func(f *http2.Framer) { write(f, n) }) }
}

// opened sends the headers of streams.
func opened(streams int) func() []byte {
	return func() []byte {
		return frames(func(f *http2.Framer) {
			for n := range streams {
				openStream(f, stream(n), block(rlsMethod), false)
			}
		})
	}
}

func attacks() []attack {
	const message = 256<<10 - 64
	empty := func(tag byte) []byte { return bytes.Repeat([]byte{tag, 0}, message/2) }
	rls, auth := block(rlsMethod), block(authMethod)
	entries := bytes.Repeat(nest([]byte("a"), 1, 1), 64)
	entries = bytes.Repeat(lengthPrefixed(2, entries), 64)
	payload := append(lengthPrefixed(1, []byte("k")), nest(empty(0x0a), 2, 6)...)
	claims := nest(append(lengthPrefixed(1, []byte("envoy.filters.http.jwt_authn")), nest(payload, 2, 1)...), 1, 11, 1)
	var windows []byte
	for i := range 2730 {
		windows = binary.BigEndian.AppendUint16(windows, uint16(http2.SettingInitialWindowSize))
		windows = binary.BigEndian.AppendUint32(windows, uint32(65535+i%2))
	}
	small := rlsMessage(nest(append(lengthPrefixed(1, []byte("tenant")), lengthPrefixed(2, []byte("x"))...), 2, 1))
	bomb := append(block(rlsMethod), 0x40, 1, 'a', 0x7f, 0xb9, 0x16)
	bomb = append(bomb, make([]byte, 3000)...)
	bomb = append(bomb, bytes.Repeat([]byte{0x80 | 62}, 12000)...)
	zero := []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}}
	return []attack{
		{name: "empty descriptors", next: whole(rls, rlsMessage(empty(0x12)))},
		{name: "empty entries", next: whole(rls, rlsMessage(lengthPrefixed(2, empty(0x0a))))},
		{name: "the most descriptors", next: whole(rls, rlsMessage(entries))},
		{name: "empty claims", next: whole(auth, claims)},
		{name: "empty lines of headers", next: whole(auth, nest(empty(0x0a), 1, 4, 2, 13))},
		{name: "a long value", next: whole(rls, rlsMessage(nest(append(lengthPrefixed(1, []byte("tenant")), lengthPrefixed(2, make([]byte, message-64))...), 2, 1)))},
		{name: "calls", decided: true, next: whole(rls, small)},
		{name: "incomplete messages", next: flood(func(f *http2.Framer, n int) {
			openStream(f, stream(n), rls, false)
			_ = f.WriteData(stream(n), false, append([]byte{0, 0, 3, 0xff, 0xff}, make([]byte, 16<<10-5)...))
			_ = f.WriteData(stream(n), false, make([]byte, 16<<10))
		})},
		{name: "streams without a message", next: flood(func(f *http2.Framer, n int) { openStream(f, stream(n), rls, false) })},
		{name: "SETTINGS of many windows", same: true, begin: opened(1000), next: flood(func(f *http2.Framer, _ int) { _ = f.WriteRawFrame(http2.FrameSettings, 0, 0, windows) })},
		{name: "SETTINGS", same: true, begin: opened(1000), next: flood(func(f *http2.Framer, n int) {
			_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(65535 + n%2)})
		})},
		{name: "PING", same: true, next: flood(func(f *http2.Framer, _ int) { _ = f.WritePing(false, [8]byte{}) })},
		{name: "PRIORITY", same: true, next: flood(func(f *http2.Framer, n int) { _ = f.WritePriority(stream(n%1000), http2.PriorityParam{}) })},
		{name: "WINDOW_UPDATE", same: true, begin: opened(100), next: flood(func(f *http2.Framer, n int) { _ = f.WriteWindowUpdate(stream(n%100), 1) })},
		{name: "unknown frames", same: true, next: flood(func(f *http2.Framer, _ int) { _ = f.WriteRawFrame(0x77, 0, 0, nil) })},
		{name: "calls that are reset", decided: true, next: func(n int) []byte {
			return append(whole(rls, small)(n), frames(func(f *http2.Framer) { _ = f.WriteRSTStream(stream(n), http2.ErrCodeCancel) })...)
		}},
		{name: "calls that the server resets", decided: true, next: func(n int) []byte {
			return append(whole(rls, small)(n), frames(func(f *http2.Framer) { _ = f.WriteWindowUpdate(stream(n), 0) })...)
		}},
		{name: "streams that are reset", next: flood(func(f *http2.Framer, n int) {
			openStream(f, stream(n), rls, false)
			_ = f.WriteRSTStream(stream(n), http2.ErrCodeCancel)
		})},
		{name: "HEADERS of a stream that is reset", same: true, begin: func() []byte {
			return frames(func(f *http2.Framer) {
				openStream(f, 1, rls, true)
				_ = f.WriteData(1, true, []byte{0})
			})
		}, next: flood(func(f *http2.Framer, _ int) { openStream(f, 1, rls, true) })},
		{name: "DATA of one byte", same: true, begin: opened(1000), next: flood(func(f *http2.Framer, n int) { _ = f.WriteData(stream(n%1000), false, []byte{0}) })},
		{name: "empty DATA", same: true, begin: opened(1), next: flood(func(f *http2.Framer, _ int) { _ = f.WriteData(1, false, nil) })},
		{name: "DATA of padding", same: true, begin: opened(1), next: flood(func(f *http2.Framer, _ int) { _ = f.WriteDataPadded(1, false, nil, []byte{0}) })},
		{name: "CONTINUATION", next: flood(func(f *http2.Framer, n int) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream(n), BlockFragment: rls, EndStream: true})
			for range 60 {
				_ = f.WriteContinuation(stream(n), false, nil)
			}
			_ = f.WriteContinuation(stream(n), true, nil)
		})},
		{name: "header blocks that do not end", same: true, begin: func() []byte {
			return frames(func(f *http2.Framer) { _ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: rls}) })
		}, next: flood(func(f *http2.Framer, _ int) {
			_ = f.WriteContinuation(1, false, append([]byte{0, 1, 'a', 0x7f, 0x81, 0x7f}, make([]byte, 16<<10)...))
		})},
		{name: "large header lists", next: whole(block(rlsMethod, "x", strings.Repeat("~", 200<<10)), small)},
		{name: "HPACK bombs", next: whole(bomb, small)},
		{name: "health", next: whole(block(healthMethod), nil)},
		{name: "health with a long name", next: whole(block(healthMethod), lengthPrefixed(1, make([]byte, message)))},
		{name: "watches of the health", next: whole(block("/grpc.health.v1.Health/Watch"), nil)},
		{name: "reflection", same: true, begin: func() []byte {
			return frames(func(f *http2.Framer) {
				openStream(f, 1, block("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"), false)
			})
		}, next: flood(func(f *http2.Framer, _ int) {
			_ = f.WriteData(1, false, append([]byte{0, 0, 0, 0, 2}, lengthPrefixed(7, nil)...))
		})},
		{name: "unknown methods", next: flood(func(f *http2.Framer, n int) { openStream(f, stream(n), block("/a/b"), true) })},
		{name: "unknown methods with a long name", next: flood(func(f *http2.Framer, n int) { openStream(f, stream(n), block("/a/"+strings.Repeat("~", 8<<10)), true) })},
		{name: "responses without a window", settings: zero, next: whole(rls, rlsMessage(entries))},
		{name: "responses that are not read", deaf: true, next: whole(rls, rlsMessage(entries))},
		{name: "connections", same: true, next: flood(func(f *http2.Framer, n int) { _ = f.WriteRawFrame(http2.FrameData, 0, 0, []byte(strconv.Itoa(n))) })},
	}
}
