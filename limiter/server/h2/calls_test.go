package h2

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/test/fixture"
)

func TestServer_ServesItsMethodsAlone(t *testing.T) {
	s, address := serve(t, settings())
	c := dial(t, address)
	c.wantEcho(1)
	c.call(3, "/a/Now", 3)
	c.want("HEADERS 3", "DATA 3 8", "HEADERS 3 grpc-status=0")
	c.call(5, "/b/Other", 3)
	c.want("HEADERS 5 grpc-status=12 grpc-message=unknown method Other of service b: this port has no streams and no reflection")
	c.call(7, "other", 3)
	c.want("HEADERS 7 grpc-status=12 grpc-message=malformed method name: \"other\"")
	c.call(9, "/a/Small", 101)
	c.want("HEADERS 9 grpc-status=8 grpc-message=received message larger than max (101 vs. 100)")
	c.wantEcho(11)
	wantIdle(t, s)
}

func TestServer_RefusesRequestsThatAreNotCalls(t *testing.T) {
	for name, test := range map[string]struct {
		fields []string
		want   string
	}{
		"compressed": {callFields("grpc-encoding", "gzip"), "grpc-accept-encoding=identity grpc-status=12 grpc-message=the message is compressed"},
		"an invalid timeout": {
			callFields("grpc-timeout", "soon"), ":status=400 grpc-status=13 grpc-message=grpc-timeout is invalid",
		},
		"no time": {callFields("grpc-timeout", "0n"), "grpc-status=4 grpc-message=context deadline exceeded"},
		"GET": {
			append([]string{":method", "GET"}, callFields()[2:]...),
			":status=405 allow=POST grpc-status=13 grpc-message=the method of a call must be POST",
		},
		"another content-type": {
			append(callFields()[:8], "content-type", "application/grpc-web"),
			":status=415 grpc-status=3 grpc-message=the content-type of a call must be application/grpc",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, address := serve(t, settings())
			c := dial(t, address)
			c.header(1, false, test.fields...)
			c.want("HEADERS 1 " + test.want)
			c.must(c.WriteData(1, true, message(100)))
			c.header(3, true, test.fields...)
			c.want("HEADERS 3 " + test.want)
			c.wantEcho(5)
			wantIdle(t, s)
		})
	}
}

func TestServer_TheContentLengthIsThatOfTheMessage(t *testing.T) {
	for length, want := range map[string]string{"7": "RST_STREAM 1 PROTOCOL_ERROR", "9": "RST_STREAM 1 PROTOCOL_ERROR", "8": "HEADERS 1"} {
		t.Run(length, func(t *testing.T) {
			s, address := serve(t, settings())
			c := dial(t, address)
			c.header(1, false, callFields("content-length", length)...)
			c.must(c.WriteData(1, true, message(3)))
			c.want(want)
			wantIdle(t, s)
		})
	}
}

func TestServer_ServesCallsInOtherForms(t *testing.T) {
	_, address := serve(t, settings())
	c := dial(t, address)
	for i, fields := range [][]string{
		callFields("grpc-encoding", "identity", "x-bin", "%", "host", "a", "content-length", "8", "content-length", "8"),
		append(callFields()[:6], "content-type", "application/grpc+proto"), // without :authority
		append(callFields()[:8], "content-type", "application/grpc;x"),
	} {
		id := uint32(2*i + 1)
		c.header(id, false, fields...)
		c.must(c.WriteData(id, true, message(3)))
		c.want(fmt.Sprint("HEADERS ", id), fmt.Sprintf("DATA %d 8", id), fmt.Sprintf("HEADERS %d grpc-status=0", id))
	}
}

func TestServer_CallsHaveTheirPeerMetadataAndTimeout(t *testing.T) {
	o := settings()
	o.Metadata = []string{"traceparent"}
	var got context.Context
	o.Methods["/a/Context"] = Method{Serve: func(ctx context.Context, _, _ []byte) ([]byte, error) {
		got = ctx //nolint:fatcontext // no loop
		return nil, errors.New("an error without a status")
	}}
	_, address := serve(t, o)
	c := dial(t, address)
	c.open(1, "/a/Context", false, "traceparent", "00-1", "other", "x", "grpc-timeout", "1H")
	c.must(c.WriteData(1, true, message(0)))
	c.want("HEADERS 1 grpc-status=2 grpc-message=an error without a status")
	md, _ := metadata.FromIncomingContext(got)
	p, _ := peer.FromContext(got)
	_, timed := got.Deadline()
	if len(md) != 1 || md["traceparent"][0] != "00-1" || p.Addr.String() != c.LocalAddr().String() || !timed {
		t.Errorf("%d fields of metadata, peer %v, with a deadline: %v", len(md), p.Addr, timed)
	}
	c.open(3, "/a/Wait", false, "grpc-timeout", "1m")
	c.must(c.WriteData(3, true, message(0)))
	c.want("HEADERS 3 grpc-status=4 grpc-message=context deadline exceeded")
}

func TestServer_ARejectedCallHasItsStatusBeforeItsMessage(t *testing.T) {
	o := settings()
	o.Methods["/a/No"] = rejecting()
	s, address := serve(t, o)
	c := dial(t, address)
	for i := range uint32(2 * o.MaxStreams) {
		id := 2*i + 1
		c.open(id, "/a/No", false)
		c.want(fmt.Sprintf("HEADERS %d grpc-status=14 grpc-message=50 %%25 %%0A", id))
		c.must(c.WriteData(id, true, message(100)))
	}
	wantIdle(t, s)
}

// The streams of clients that do not end their rejected calls are reset when there are no others.
func TestServer_RejectedCallsThatDoNotEndTakeNoStreams(t *testing.T) {
	o := settings()
	o.Methods["/a/No"] = rejecting()
	_, address := serve(t, o)
	c := dial(t, address)
	for i := range uint32(o.MaxStreams) {
		c.open(2*i+1, "/a/No", false)
		c.want(fmt.Sprintf("HEADERS %d grpc-status=14 grpc-message=50 %%25 %%0A", 2*i+1))
	}
	last := uint32(2*o.MaxStreams + 1)
	c.call(last, "/a/Echo", 3)
	for range o.MaxStreams {
		if got := c.read(); !strings.HasPrefix(got, "RST_STREAM") || !strings.HasSuffix(got, "NO_ERROR") {
			t.Fatalf("the server sent %q", got)
		}
	}
	c.want(fmt.Sprint("HEADERS ", last), fmt.Sprintf("DATA %d 8", last), fmt.Sprintf("HEADERS %d grpc-status=0", last))
	c.must(c.WriteData(1, true, message(3))) // was on its way: not an error
	c.wantEcho(last + 2)
}

func TestServer_MessagesThatCannotBeReadFail(t *testing.T) {
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"none":                 {nil, "13 grpc-message=the request has no complete message"},
		"a part of its header": {message(0)[:4], "13 grpc-message=the request has no complete message"},
		"a part":               {message(9)[:13], "13 grpc-message=the request has no complete message"},
		"two":                  {append(message(1), message(1)...), "13 grpc-message=the request has more than one message"},
		"one and a byte":       {append(message(1), 0), "13 grpc-message=the request has more than one message"},
		"compressed":           {[]byte{1, 0, 0, 0, 0}, "13 grpc-message=the message has a flag, but the call has no grpc-encoding"},
		"an unknown flag":      {[]byte{2, 0, 0, 0, 0}, "13 grpc-message=the message has a flag, but the call has no grpc-encoding"},
		"too large":            {[]byte{0, 0, 16, 0, 1}, "8 grpc-message=received message larger than max (1048577 vs. 1048576)"},
	} {
		t.Run(name, func(t *testing.T) {
			o := settings()
			failures := make(chan error, 9)
			echo := o.Methods["/a/Echo"]
			echo.Fail = func(_ context.Context, err error) { failures <- err }
			o.Methods["/a/Echo"] = echo
			s, address := serve(t, o)
			c := dial(t, address)
			c.open(1, "/a/Echo", false)
			c.must(c.WriteData(1, true, test.data))
			c.want("HEADERS 1 grpc-status=" + test.want)
			if err := <-failures; status.Code(err) == codes.OK || len(failures) > 0 {
				t.Errorf("%v, and %d more failures", err, len(failures))
			}
			c.wantEcho(3)
			wantIdle(t, s)
		})
	}
}

func TestServer_CallsThatAreResetFail(t *testing.T) {
	o := settings()
	ended := make(chan error, 9)
	wait := o.Methods["/a/Wait"]
	wait.Fail = func(_ context.Context, err error) { ended <- fmt.Errorf("failed: %w", err) }
	serveWait := wait.Serve
	wait.Serve = func(ctx context.Context, message, out []byte) ([]byte, error) {
		_, err := serveWait(ctx, message, out)
		ended <- err
		return nil, err
	}
	o.Methods["/a/Wait"] = wait
	s, address := serve(t, o)
	c := dial(t, address)
	c.call(1, "/a/Wait", 9)
	c.must(c.WriteRSTStream(1, http2.ErrCodeCancel))
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a call that runs ended with %v", err)
	}
	c.open(3, "/a/Wait", false)
	c.must(c.WriteData(3, false, message(9)[:7]))
	c.must(c.WriteRSTStream(3, http2.ErrCodeCancel))
	if err := <-ended; status.Code(errors.Unwrap(err)) != codes.Canceled {
		t.Errorf("a call that is not complete ended with %v", err)
	}
	wantIdle(t, s)
}

// The server reset a stream whose handler still runs: what the client sent before it knew is ignored.
func TestServer_IgnoresWhatFollowsAReset(t *testing.T) {
	o := settings()
	running, leave := make(chan struct{}, 9), make(chan struct{})
	o.Methods["/a/Stuck"] = Method{Serve: stuck(running, leave)}
	s, address := serve(t, o)
	c := dial(t, address)
	c.call(1, "/a/Stuck", 1)
	<-running
	for range 3 {
		c.must(c.WriteData(1, true, message(1)))
	}
	c.want("RST_STREAM 1 STREAM_CLOSED")
	c.open(1, "/a/Stuck", true)
	c.wantEcho(3)
	close(leave)
	wantIdle(t, s)
	c.must(c.WriteData(1, true, message(1)))
	c.wantEcho(5)
}

// wantIdle waits until no call of the only connection is in progress, and checks that nothing is left of the calls before.
func wantIdle(t *testing.T, s *Server) {
	t.Helper()
	fixture.Await(t, "no call is left", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			c.mu.Lock()
			idle := len(c.streams)+c.resets+c.held+len(c.blocked) == 0
			c.mu.Unlock()
			if !idle {
				return false
			}
		}
		return s.buffers.Used() == 0
	})
}

func TestServer_FieldsAfterTheMessageEndARequest(t *testing.T) {
	s, address := serve(t, settings())
	c := dial(t, address)
	for i, test := range []struct {
		fields []string
		end    bool
		want   []string
	}{
		{[]string{"x", "y"}, true, []string{"HEADERS %d", "DATA %d 8", "HEADERS %d grpc-status=0"}},
		{[]string{"x", "y"}, false, []string{"RST_STREAM %d PROTOCOL_ERROR"}},
		{[]string{"X", "y"}, true, []string{"RST_STREAM %d PROTOCOL_ERROR"}},
		{[]string{":path", "/a/Echo"}, true, []string{"RST_STREAM %d PROTOCOL_ERROR"}},
		{[]string{"x", strings.Repeat("y", 3<<10)}, true, []string{"RST_STREAM %d FRAME_SIZE_ERROR"}},
	} {
		id := uint32(2*i + 1)
		c.open(id, "/a/Echo", false)
		c.must(c.WriteData(id, false, message(3)))
		c.header(id, test.end, test.fields...)
		for _, want := range test.want {
			c.want(strings.Replace(want, "%d", strconv.Itoa(int(id)), 1))
		}
	}
	c.call(101, "/a/Wait", 3)
	c.header(101, true, "x", "y")
	c.want("RST_STREAM 101 STREAM_CLOSED")
	wantIdle(t, s)
}
