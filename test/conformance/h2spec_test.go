// Package conformance tests the gRPC port of a limiter with the suites of other projects: h2spec for HTTP/2, and the interoperability
// tests of gRPC. Their libraries need a module of their own.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/server/envoy"
)

// h2specCases is the number of cases of h2spec 2.2.1, strict ones included.
const h2specCases = 146

// An exception is a case of h2spec that the limiter does not pass.
type exception struct {
	outcome string // "failed" or "skipped"
	reason  string
}

const (
	noBody = "h2spec sends a call with GET. The response of a gRPC server has a status and no DATA. test/http2 has the same cases with calls that have DATA"
	short  = "h2spec sends calls with GET. They end immediately, so 1024 of them are never open at the same time. test/http2 has the same case with POST"
)

// exceptions has an entry for exactly those cases that do not pass.
func exceptions() map[string]exception {
	return map[string]exception{
		"generic/2/2":   {"failed", noBody},
		"generic/2/3":   {"failed", noBody},
		"http2/5.1.2/1": {"failed", short},
		"http2/6.5.3/1": {"skipped", noBody},
		"http2/6.9.1/1": {"skipped", noBody},
		"http2/6.9.2/1": {"skipped", noBody},
		"http2/6.9.2/2": {"skipped", noBody},
	}
}

func TestH2spec_PassesAllCasesExceptTheListed(t *testing.T) {
	address := relay(t, serveLimiter(t))
	results := runAll(t, address, generic.Spec(), http2.Spec(), hpack.Spec())
	if len(results) != h2specCases {
		t.Errorf("%d cases ran, want %d", len(results), h2specCases)
	}
	listed := exceptions()
	for id, got := range results {
		want, isListed := listed[id]
		delete(listed, id)
		switch {
		case got.outcome == want.outcome, got.outcome == passed && !isListed:
		case isListed:
			t.Errorf("%s: %s, but listed as %s because %s", id, got, want.outcome, want.reason)
		default:
			t.Errorf("%s: %s", id, got)
		}
	}
	for id := range listed {
		t.Errorf("%s is listed, but h2spec has no such case", id)
	}
}

const passed = "passed"

// A result is what became of a case.
type result struct{ outcome, description, detail string }

func (r result) String() string { return fmt.Sprintf("%s %s: %s", r.outcome, r.description, r.detail) }

// runAll runs the cases of the groups, several at the same time because many wait until the server has sent nothing for some time.
func runAll(t *testing.T, address *net.TCPAddr, groups ...*spec.TestGroup) map[string]result {
	t.Helper()
	var mu sync.Mutex
	results := map[string]result{}
	var running sync.WaitGroup
	slots := make(chan struct{}, 16)
	each(groups, func(id string, test *spec.TestCase) {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			r := run(address, test)
			mu.Lock()
			defer mu.Unlock()
			results[id] = r
		})
	})
	running.Wait()
	return results
}

// each calls f for the cases of groups, with IDs as h2spec prints them, for example http2/5.1/1.
func each(groups []*spec.TestGroup, f func(id string, test *spec.TestCase)) {
	for _, group := range groups {
		for i, test := range append(group.Tests, group.StrictTests...) {
			f(fmt.Sprintf("%s/%d", group.ID(), i+1), test)
		}
		each(group.Groups, f)
	}
}

func run(address *net.TCPAddr, test *spec.TestCase) result {
	c := &config.Config{
		Host: address.IP.String(), Port: address.Port, Path: "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
		Timeout: 2 * time.Second, MaxHeaderLen: 4000, Strict: true,
	}
	conn, err := spec.Dial(c)
	if err != nil {
		return result{"failed", test.Desc, err.Error()}
	}
	defer conn.Close()
	switch err := test.Run(c, conn); {
	case err == nil:
		return result{passed, test.Desc, ""}
	case errors.Is(err, spec.ErrSkipped):
		return result{"skipped", test.Desc, ""}
	default:
		return result{"failed", test.Desc, err.Error()}
	}
}

// serveLimiter runs the gRPC port of a limiter until the test ends.
func serveLimiter(t *testing.T) net.Addr {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	decide := engine.New(memstore.New(time.Now), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	server := envoy.NewServer(envoy.Options{Engine: decide, Log: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- server.Run(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr()
}

// relay forwards connections to target and closes each one gracefully, even if target resets it. h2spec accepts a closed connection
// where a server may close it, but does not recognize a reset.
func relay(t *testing.T, target net.Addr) *net.TCPAddr {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.AcceptTCP()
			if err != nil {
				return
			}
			running.Go(func() { forward(t.Context(), client, target) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		running.Wait()
	})
	address, _ := listener.Addr().(*net.TCPAddr)
	return address
}

// forward forwards a connection until one side closes it, or until ctx is done: h2spec leaves some connections open.
func forward(ctx context.Context, client *net.TCPConn, target net.Addr) {
	defer client.Close()
	defer context.AfterFunc(ctx, func() { client.Close() })()
	server, err := net.Dial(target.Network(), target.String())
	if err != nil {
		return
	}
	var down sync.WaitGroup
	down.Go(func() {
		_, _ = io.Copy(client, server) // the end of the connection, whatever its reason
		_ = client.CloseWrite()
	})
	_, _ = io.Copy(server, client)
	_, _ = io.Copy(io.Discard, client) // if the server has closed the connection
	server.Close()
	down.Wait()
}
