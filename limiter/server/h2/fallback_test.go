package h2

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// grpc-go keeps a buffer for each Read.
func TestExchange_ReadsCompleteMessages(t *testing.T) {
	o := settings()
	o.MaxMessage = 100 << 10
	reads := make(chan int, 100)
	o.Fallback = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		defer close(reads)
		for p := make([]byte, 64<<10); ; {
			n, err := r.Body.Read(p)
			if err != nil {
				return
			}
			reads <- n
		}
	})
	s, address := serve(t, o)
	c := dial(t, address)
	c.open(1, "/b/Other", false)
	for _, b := range append(message(40), message(2)...) {
		c.must(c.WriteData(1, false, []byte{b}))
	}
	for granted := uint32(0); granted < 45+7; { // the next message is as large as the window
		frame, err := c.ReadFrame()
		c.must(err)
		granted += frame.(*http2.WindowUpdateFrame).Increment //nolint:forcetypeassert // the test fails then
	}
	rest := message(100 << 10)
	for len(rest) > 0 {
		n := min(len(rest), maxFrame)
		c.must(c.WriteData(1, len(rest) == n, rest[:n]))
		rest = rest[n:]
	}
	var sizes []int
	for n := range reads {
		sizes = append(sizes, n)
	}
	if fmt.Sprint(sizes) != "[45 7 65536 36869]" {
		t.Errorf("the fallback read %v", sizes)
	}
	wantIdle(t, s)
}

// An empty message is complete with its header.
func TestExchange_ReadsAnEmptyMessageBeforeTheRequestEnds(t *testing.T) {
	o := settings()
	reads := make(chan int, 1)
	o.Fallback = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := r.Body.Read(make([]byte, 100))
		reads <- n
	})
	s, address := serve(t, o)
	c := dial(t, address)
	c.open(1, "/b/Other", false)
	c.must(c.WriteData(1, false, message(0)))
	select {
	case n := <-reads:
		if n != messageHeader {
			t.Errorf("the fallback read %d bytes", n)
		}
	case <-time.After(10 * time.Second):
		t.Error("the fallback read nothing")
	}
	c.must(c.WriteRSTStream(1, http2.ErrCodeCancel))
	wantIdle(t, s)
}

// A client can reset a stream after its response, instead of ending the request.
func TestExchange_CountsNoResetAfterTheResponse(t *testing.T) {
	o := settings()
	o.Fallback = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	s, address := serve(t, o)
	c := dial(t, address)
	c.open(1, "/b/Other", false)
	c.want("HEADERS 1", "DATA 1 0")
	c.must(c.WriteRSTStream(1, http2.ErrCodeCancel))
	wantIdle(t, s)
}

// Otherwise grpc-go would collect what its handler does not take.
func TestExchange_ReadsNothingWhileItsResponsesWait(t *testing.T) {
	o := settings()
	reads := make(chan int, 100)
	o.Fallback = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		go func() { // as grpc-go
			for p := make([]byte, 100); ; {
				n, err := r.Body.Read(p)
				if err != nil {
					close(reads)
					return
				}
				reads <- n
			}
		}()
		_, _ = w.Write(message(1))
		w.(http.Flusher).Flush() //nolint:forcetypeassert // the test fails then
		<-r.Context().Done()
	})
	s, address := serve(t, o)
	c := dial(t, address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	c.open(1, "/b/Other", false)
	c.want("HEADERS 1")
	c.must(c.WriteData(1, false, message(1)))
	c.must(c.WritePing(false, [8]byte{}))
	c.want("PING") // the message was received
	select {
	case n := <-reads:
		t.Errorf("the fallback read %d bytes", n)
	case <-time.After(20 * time.Millisecond): // long enough to see a Read that should not return
	}
	c.must(c.WriteWindowUpdate(1, 100))
	c.want("DATA 1 6")
	if n := <-reads; n != 6 {
		t.Errorf("the fallback read %d bytes", n)
	}
	c.must(c.WriteRSTStream(1, http2.ErrCodeCancel))
	<-reads
	wantIdle(t, s)
}

// A client cannot make the fallback hold more than the bound, also with streams that are within their windows.
func TestTakeBody_BoundsWhatTheFallbackHasNotRead(t *testing.T) {
	c := &conn{partial: maxPartial - 2}
	s := &stream{id: 1, exchange: &exchange{changed: sync.NewCond(&c.mu)}}
	for i, want := range []error{nil, nil, http2.StreamError{StreamID: 1, Code: http2.ErrCodeEnhanceYourCalm}} {
		if err := c.takeBody(s, []byte{'x'}); !errors.Is(err, want) {
			t.Errorf("byte %d: %v, want %v", i+1, err, want)
		}
	}
	if c.partial != maxPartial || string(s.exchange.body) != "xx" {
		t.Errorf("the connection holds %d bytes, and the body is %q", c.partial, s.exchange.body)
	}
}
