package endpoints_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weir-dev/weir/go/grpclimit"
	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/limiter/engine"
)

// program is a server with a Gate. It adds to the next request the parts that proxies do not send: verified claims, the cost and descriptors.
type program struct {
	next   *row
	claims map[string]any
	answer engine.Answer
	err    error
}

func (p *program) gate(d httplimit.Decider) *httplimit.Gate {
	return httplimit.NewGate(d, "shop", httplimit.Log(quiet()), httplimit.Observe(
		func(_ context.Context, _ *engine.Check, a engine.Answer, err error) { p.answer, p.err = a, err }))
}

func (p *program) describe(c *engine.Check) {
	c.Request.Domain, c.Peek = p.next.domain, p.next.peek
	c.Request.Descriptors = p.next.descriptors
}

// expect makes r the next request.
func (p *program) expect(t *testing.T, r *row) {
	t.Helper()
	*p = program{next: r, claims: claimsOf(t, r)}
}

// observed returns the result that the Gate reported to the program.
func (p *program) observed(t *testing.T, fields http.Header, allowed bool, text string) result {
	t.Helper()
	if p.err != nil {
		t.Errorf("line %d: %s: got error %v instead of a decision", p.next.line, p.next.sentence, p.err)
	}
	if p.answer.Allowed != allowed {
		t.Errorf("line %d: %s: the Gate reports allowed %v, the response has %v", p.next.line, p.next.sentence, p.answer.Allowed, allowed)
	}
	return result{allowed: allowed, fields: fields, outcomes: outcomesOf(&p.answer), text: text}
}

func remote(t *testing.T, l *testLimiter) httplimit.Decider {
	t.Helper()
	r, err := httplimit.NewRemote(serveHTTP(t, l).URL, httplimit.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func unsupportedByMiddleware(r *row) string {
	switch {
	case strings.Contains(r.target, "%zz"):
		return "an invalid escape, which net/http rejects"
	case strings.Contains(r.target, "#"):
		return "a fragment, which net/http treats as a part of the path"
	default:
		return ""
	}
}

func openMiddleware(t *testing.T, l *testLimiter) sender { return openHTTPServer(t, l.engine) }

func openRemote(t *testing.T, l *testLimiter) sender { return openHTTPServer(t, remote(t, l)) }

// openHTTPServer serves net/http with the middleware.
func openHTTPServer(t *testing.T, d httplimit.Decider) sender {
	t.Helper()
	p := &program{}
	handler := httplimit.Middleware(p.gate(d),
		httplimit.ClientIP(httplimit.ForwardedFor(trustedPrefixes()...)),
		httplimit.Claims(func(*http.Request) map[string]any { return p.claims }),
		httplimit.Cost(func(*http.Request) int64 { return p.next.cost }),
		httplimit.Describe(func(_ *http.Request, c *engine.Check) { p.describe(c) }),
	)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	return func(t *testing.T, r *row) result {
		t.Helper()
		p.expect(t, r)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, serverRequest(t, r))
		if w.Code != http.StatusNoContent && w.Code != http.StatusTooManyRequests {
			t.Errorf("line %d: %s: got status %d, want 204 or 429: %s", r.line, r.sentence, w.Code, w.Body)
		}
		return p.observed(t, w.Header(), w.Code == http.StatusNoContent, w.Body.String()+fmt.Sprint(w.Header()))
	}
}

// serverRequest returns the row as net/http reads it from a connection.
func serverRequest(t *testing.T, r *row) *http.Request {
	t.Helper()
	method, host, target := r.method, r.host, r.target
	if !r.isHTTP() {
		method, host, target = http.MethodGet, "app.example", "/"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, target, host)
	for _, h := range r.headers {
		fmt.Fprintf(&text, "%s: %s\r\n", h.name, h.value)
	}
	text.WriteString("\r\n")
	request, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text.String())))
	if err != nil {
		t.Fatalf("line %d: %s: %v", r.line, r.sentence, err)
	}
	request.RemoteAddr = "@"
	if r.peer().IsValid() {
		request.RemoteAddr = netip.AddrPortFrom(r.peer(), 4711).String()
	}
	return request.WithContext(t.Context())
}

func unsupportedByCall(r *row) string {
	switch {
	case r.isHTTP() && !r.grpc:
		return "a request that is not a gRPC call"
	case r.via.IsValid():
		return "a client address in a header"
	case !r.isText():
		return "metadata that is not valid UTF-8"
	default:
		return ""
	}
}

func openCalls(t *testing.T, l *testLimiter) sender { return openGRPCServer(t, l.engine) }

func openRemoteCalls(t *testing.T, l *testLimiter) sender { return openGRPCServer(t, remote(t, l)) }

// openGRPCServer serves gRPC with the interceptor. The server implements every method.
func openGRPCServer(t *testing.T, d httplimit.Decider) sender {
	t.Helper()
	p := &program{}
	conn := serveCalls(t, grpclimit.StreamServerInterceptor(p.gate(d),
		grpclimit.ClientIP(func(context.Context) netip.Addr { return p.next.client }),
		grpclimit.Claims(func(context.Context) map[string]any { return p.claims }),
		grpclimit.Cost(func(context.Context, string, any) int64 { return p.next.cost }),
		grpclimit.Describe(func(_ context.Context, c *engine.Check) { p.describe(c) })))
	return func(t *testing.T, r *row) result {
		t.Helper()
		p.expect(t, r)
		method, host := r.target, r.host
		if !r.isHTTP() {
			method, host = "/shop.v1.Any/Call", "app.example"
		}
		sent := metadata.MD{}
		for _, h := range r.headers {
			sent.Append(h.name, h.value)
		}
		var fields, trailer metadata.MD
		err := conn.Invoke(metadata.NewOutgoingContext(t.Context(), sent), method, &emptypb.Empty{}, &emptypb.Empty{},
			grpc.Header(&fields), grpc.Trailer(&trailer), grpc.CallAuthority(host))
		if code := status.Code(err); code != codes.OK && code != codes.ResourceExhausted {
			t.Errorf("line %d: %s: %v", r.line, r.sentence, err)
		}
		return p.observed(t, http.Header(fields), err == nil, fmt.Sprint(err, status.Convert(err).Proto(), fields, trailer))
	}
}

func serveCalls(t *testing.T, interceptor grpc.StreamServerInterceptor) *grpc.ClientConn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.ChainStreamInterceptor(interceptor), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		return errors.Join(stream.RecvMsg(&emptypb.Empty{}), stream.SendMsg(&emptypb.Empty{}))
	}))
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close() // all calls have ended
		s.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return conn
}
