package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/test/cluster/journal"
)

const (
	beat      = time.Millisecond
	keptAlive = 64 // connections
	// keptIdle is less than limiters drain for, 5 s: whatever is still open at the end has been asked to close meanwhile. A
	// caller that keeps connections for longer may find one closed just as it asks.
	keptIdle = 3 * time.Second
)

// generator asks.
type generator struct {
	url, domain string
	rate        int // per second
	requests    int // 0: no end
	patience    time.Duration
	leave       float64
	questions   []question
}

// run asks until ctx is done, or as often as it should, and then until the last answer is there.
func (g *generator) run(ctx context.Context, out io.Writer) error {
	var dialed atomic.Int64
	var dialer net.Dialer
	web := &http.Client{Timeout: g.patience, Transport: &http.Transport{
		MaxIdleConnsPerHost: keptAlive,
		IdleConnTimeout:     keptIdle,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			dialed.Add(1)
			return dialer.DialContext(ctx, network, address)
		},
	}}
	answers := make(chan journal.Answer, g.rate)
	go func() {
		defer close(answers)
		g.askAll(ctx, web, answers)
	}()
	return write(out, answers, &dialed)
}

// askAll holds the rate: who waits for an answer holds up no other.
func (g *generator) askAll(ctx context.Context, web *http.Client, answers chan<- journal.Answer) {
	var asking sync.WaitGroup
	defer asking.Wait()
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	began := time.Now()
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for sent := 0; g.requests == 0 || sent < g.requests; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for ; time.Since(began) >= time.Duration(sent)*time.Second/time.Duration(g.rate); sent++ {
			if g.requests > 0 && sent == g.requests {
				return
			}
			body, last := g.draw(random), random.Float64() < g.leave
			asking.Go(func() { answers <- g.ask(web, body, last) })
		}
	}
}

// ask does not end with the load: what is on its way is to be answered. It is the last request on its connection, or not.
func (g *generator) ask(web *http.Client, body string, last bool) journal.Answer {
	began := time.Now()
	a, err := g.send(web, body, last)
	a.At, a.Took = time.Now(), time.Since(began)
	if err != nil {
		a.Failure = failure(err)
	}
	return a
}

func (g *generator) send(web *http.Client, body string, last bool) (a journal.Answer, err error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, g.url+"/v1/check", strings.NewReader(body))
	if err != nil {
		return a, err
	}
	request.Close = last
	request.Header.Set("Content-Type", "application/json")
	reply, err := web.Do(request)
	if err != nil {
		return a, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return a, fmt.Errorf("HTTP %d: %w", reply.StatusCode, err)
	}
	if reply.StatusCode != http.StatusOK && reply.StatusCode != http.StatusTooManyRequests {
		return a, fmt.Errorf("HTTP %d: %s", reply.StatusCode, text)
	}
	var decision struct {
		Policy string `json:"policy"`
		Limit  int64  `json:"limit"`
		Source string `json:"source"`
	}
	if err := json.Unmarshal(text, &decision); err != nil {
		return a, fmt.Errorf("%w in %s", err, text)
	}
	return journal.Answer{Status: reply.StatusCode, Source: decision.Source, Policy: decision.Policy, Limit: decision.Limit}, nil
}

// failure names an error so that equal ones can be counted: without ports, which differ from one connection to the next.
func failure(err error) string {
	var late interface{ Timeout() bool }
	if errors.As(err, &late) && late.Timeout() {
		return "no answer in time"
	}
	if op, is := errors.AsType[*net.OpError](err); is {
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

// write makes seconds of the answers, until there are no more.
func write(out io.Writer, answers <-chan journal.Answer, dialed *atomic.Int64) error {
	lines := json.NewEncoder(out)
	second := time.NewTicker(time.Second)
	defer second.Stop()
	now := journal.Second{From: time.Now()}
	end := func() error {
		now.To = time.Now()
		now.Connections = int(dialed.Swap(0))
		err := lines.Encode(now)
		now = journal.Second{From: now.To}
		return err
	}
	for {
		select {
		case a, more := <-answers:
			if !more {
				return end()
			}
			now.Add(a)
		case <-second.C:
			if err := end(); err != nil {
				return err
			}
		}
	}
}
