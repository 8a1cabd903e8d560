package socket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/weir-dev/weir/limiter/overload"
)

// serveLarge serves handler for HTTP/1.1 and HTTP/2 without TLS, and returns the address and the memory of the header lists.
func serveLarge(t *testing.T, handler http.HandlerFunc) (address string, pool *overload.Pool) {
	t.Helper()
	server := NewHTTP(handler, serving, slog.New(slog.DiscardHandler))
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := AcceptLargeHeaders(server, plain)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		if err := errors.Join(server.Close(), ignoreClosed(<-ended)); err != nil {
			t.Error(err)
		}
	})
	return plain.Addr().String(), listener.(countingListener).pool //nolint:forcetypeassert // it is one
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// client returns a client of HTTP/1.1 or HTTP/2 with connections of its own.
func client(t *testing.T, major int) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(major == 1)
	transport.Protocols.SetUnencryptedHTTP2(major == 2)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

// get sends a request with header lines of 1000 bytes, and returns the status.
func get(c *http.Client, address string, lines int) (int, error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+address+"/", http.NoBody)
	if err != nil {
		return 0, err
	}
	for i := range lines {
		request.Header.Set(fmt.Sprint("X-", i), strings.Repeat("a", 1000))
	}
	response, err := c.Do(request)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, errors.Join(err, response.Body.Close())
}

// A proxy that is a client in Go reads the bound from the settings of HTTP/2. It takes a server with a lower bound for unavailable, and can
// then admit the requests of all clients.
func TestAcceptLargeHeaders_ServesWhatProxiesPassOn(t *testing.T) {
	address, pool := serveLarge(t, func(http.ResponseWriter, *http.Request) {})
	for _, major := range []int{1, 2} {
		c := client(t, major)
		for _, lines := range []int{0, 36, 100, 240, 0} {
			if status, err := get(c, address, lines); err != nil || status != http.StatusOK {
				t.Errorf("HTTP/%d, %d KB of headers: %d, %v", major, lines, status, err)
			}
		}
		c.CloseIdleConnections()
	}
	if status, err := get(client(t, 1), address, 300); err != nil || status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("300 KB of headers: %d, %v", status, err)
	}
	awaitUnused(t, pool)
}

func awaitUnused(t *testing.T, pool *overload.Pool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); pool.Used() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are still in use", pool.Used())
		}
	}
}

// A list over the bound ends its stream. Other calls on the connection get their response.
func TestAcceptLargeHeaders_ALongerListEndsItsStreamAlone(t *testing.T) {
	address, _ := serveLarge(t, func(http.ResponseWriter, *http.Request) {})
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, err = io.WriteString(conn, http2.ClientPreface)
	if err := errors.Join(err, framer.WriteSettings(), sendFields(framer, 1, 0), sendFields(framer, 3, 8000), sendFields(framer, 5, 7000), sendFields(framer, 7, 0)); err != nil {
		t.Fatal(err)
	}
	got := map[uint32]string{}
	for len(got) < 4 {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("after the responses %v: %v", got, err)
		}
		if headers, is := frame.(*http2.MetaHeadersFrame); is {
			got[headers.StreamID] = headers.PseudoValue("status")
		}
	}
	for stream, want := range map[uint32]string{1: "200", 3: "431", 5: "200", 7: "200"} {
		if got[stream] != want {
			t.Errorf("stream %d: %s, want %s", stream, got[stream], want)
		}
	}
}

// sendFields sends a request with so many fields, each of which counts 36 bytes.
func sendFields(framer *http2.Framer, stream uint32, fields int) error {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	write := func(name, value string) {
		_ = encoder.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: true}) // a bytes.Buffer does not fail
	}
	for _, f := range [][2]string{{":method", "GET"}, {":path", "/"}, {":scheme", "http"}, {":authority", "weir"}} {
		write(f[0], f[1])
	}
	for range fields {
		write("x-a", "b")
	}
	err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Next(maxFrame), EndHeaders: block.Len() == 0, EndStream: true})
	for block.Len() > 0 && err == nil {
		part := block.Next(maxFrame)
		err = framer.WriteContinuation(stream, block.Len() == 0, part)
	}
	return err
}

// Connections that send incomplete header lists take a bounded memory together, and others are still served.
func TestAcceptLargeHeaders_IncompleteListsAreBounded(t *testing.T) {
	address, pool := serveLarge(t, func(http.ResponseWriter, *http.Request) {})
	const attackers = 60
	closed := make(chan bool, attackers)
	for range attackers {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go func() {
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: weir\r\nX-A: "+strings.Repeat("a", 250<<10)) // fails if the server has closed the connection
			_ = conn.SetReadDeadline(time.Now().Add(3 * time.Second))                                         // below readHeaderTimeout
			_, err := conn.Read(make([]byte, 1))
			var timeout net.Error
			closed <- !errors.As(err, &timeout) || !timeout.Timeout()
		}()
	}
	c := client(t, 2)
	for range 20 {
		if status, err := get(c, address, 2); err != nil || status != http.StatusOK {
			t.Errorf("another client: %d, %v", status, err)
		}
		if used := pool.Used(); used > 2*maxHeaderMemory {
			t.Errorf("%d bytes are in use", used)
		}
		time.Sleep(50 * time.Millisecond)
	}
	n := 0
	for range attackers {
		if <-closed {
			n++
		}
	}
	if n == 0 {
		t.Error("no connection was closed")
	}
}

// Requests whose headers fill the memory get 431, and those of other connections are still served.
func TestAcceptLargeHeaders_RequestsInProgressAreBounded(t *testing.T) {
	proceed := make(chan struct{})
	address, pool := serveLarge(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-0") != "" {
			<-proceed
		}
	})
	const requests = 90
	statuses := make(chan int, requests)
	many := client(t, 2)
	for range requests {
		go func() {
			status, err := get(many, address, 240)
			if err != nil {
				status = 0
			}
			statuses <- status
		}()
	}
	counts := map[int]int{}
	for counts[http.StatusRequestHeaderFieldsTooLarge] == 0 { // the others wait
		select {
		case status := <-statuses:
			counts[status]++
		case <-time.After(time.Minute):
			t.Fatalf("no request was rejected, with %d bytes in use", pool.Used())
		}
	}
	if status, err := get(client(t, 2), address, 0); err != nil || status != http.StatusOK {
		t.Errorf("another client: %d, %v", status, err)
	}
	close(proceed)
	for counts[0]+counts[200]+counts[http.StatusRequestHeaderFieldsTooLarge] < requests {
		counts[<-statuses]++
	}
	if counts[0] > 0 || counts[200] < 30 || counts[200] > 2*maxHeaderMemory/(240*1000) {
		t.Errorf("statuses %v", counts)
	}
	many.CloseIdleConnections()
	awaitUnused(t, pool)
}

// The store decides the calls of other connections before those of one that has many in progress.
func TestAcceptLargeHeaders_RequestsKnowWhatTheirConnectionHasInProgress(t *testing.T) {
	const requests = 20
	var begun atomic.Int64
	var most int64
	all := make(chan struct{})
	address, _ := serveLarge(t, func(_ http.ResponseWriter, r *http.Request) {
		if begun.Add(1) == requests {
			most = overload.InProgress(r.Context())
			close(all)
		}
		<-all
	})
	one := client(t, 2)
	statuses := make(chan int, requests)
	for range requests {
		go func() {
			status, err := get(one, address, 0)
			if err != nil {
				status = 0
			}
			statuses <- status
		}()
	}
	for range requests {
		if status := <-statuses; status != http.StatusOK {
			t.Errorf("status %d", status)
		}
	}
	if most != requests {
		t.Errorf("the last of %d requests finds %d in progress", requests, most)
	}
	if status, err := get(client(t, 1), address, 0); err != nil || status != http.StatusOK {
		t.Errorf("another client: %d, %v", status, err)
	}
}
