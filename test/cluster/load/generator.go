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

	"github.com/weir-dev/weir/test/cluster/loadstats"
)

const (
	tickInterval = time.Millisecond
	maxIdleConns = 64
	// idleTimeout is shorter than the 5 s for which limiters drain, so that no idle connection is left when a limiter exits. A client that
	// keeps idle connections longer can send a request on a connection that the limiter is closing.
	idleTimeout = 3 * time.Second
)

// generator sends requests to a limiter, or to a gateway that calls one.
type generator struct {
	url, domain string
	gateway     bool // send the requests themselves, instead of asking a limiter about them
	rate        int  // per second
	requests    int  // 0: no limit
	timeout     time.Duration
	closeShare  float64
	targets     []target
}

// run sends requests until ctx is done or all requests are sent, and waits for the last answer.
func (g *generator) run(ctx context.Context, out io.Writer) error {
	var dialed atomic.Int64
	var dialer net.Dialer
	web := &http.Client{Timeout: g.timeout, Transport: &http.Transport{
		MaxIdleConnsPerHost: maxIdleConns,
		IdleConnTimeout:     idleTimeout,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			dialed.Add(1)
			return dialer.DialContext(ctx, network, address)
		},
	}}
	answers := make(chan loadstats.Result, g.rate)
	go func() {
		defer close(answers)
		g.sendAll(ctx, web, answers)
	}()
	return write(out, answers, &dialed)
}

// sendAll sends requests at the rate. A slow answer does not delay other requests.
func (g *generator) sendAll(ctx context.Context, web *http.Client, answers chan<- loadstats.Result) {
	var sending sync.WaitGroup
	defer sending.Wait()
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	began := time.Now()
	tick := time.NewTicker(tickInterval)
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
			next, last := g.next(random), random.Float64() < g.closeShare
			sending.Go(func() { answers <- g.request(web, next, last) })
		}
	}
}

// request sends one request. It does not end with ctx of the load, because every sent request needs an answer. If last, it closes the
// connection.
func (g *generator) request(web *http.Client, next call, last bool) loadstats.Result {
	began := time.Now()
	a, err := g.send(web, next, last)
	a.At, a.Took = time.Now(), time.Since(began)
	if err != nil {
		a.Failure = failureName(err)
	}
	return a
}

func (g *generator) send(web *http.Client, next call, last bool) (a loadstats.Result, err error) {
	request, err := g.newRequest(next)
	if err != nil {
		return a, err
	}
	request.Close = last
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
	if g.gateway {
		return loadstats.Result{Status: reply.StatusCode, Source: "gateway"}, nil
	}
	var decision struct {
		Policy string `json:"policy"`
		Limit  int64  `json:"limit"`
		Source string `json:"source"`
	}
	if err := json.Unmarshal(text, &decision); err != nil {
		return a, fmt.Errorf("%w in %s", err, text)
	}
	return loadstats.Result{Status: reply.StatusCode, Source: decision.Source, Policy: decision.Policy, Limit: decision.Limit}, nil
}

func (g *generator) newRequest(next call) (*http.Request, error) {
	if !g.gateway {
		request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, g.url+"/v1/check", strings.NewReader(next.body(g.domain)))
		if err == nil {
			request.Header.Set("Content-Type", "application/json")
		}
		return request, err
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, g.url+next.path, nil)
	if err == nil {
		request.Header.Set("X-Tenant-Id", next.tenant)
	}
	return request, err
}

// failureName returns the text of err without ports, so that equal errors can be counted.
func failureName(err error) string {
	var late interface{ Timeout() bool }
	if errors.As(err, &late) && late.Timeout() {
		return "timeout"
	}
	if op, is := errors.AsType[*net.OpError](err); is {
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

// write writes one line of statistics per second until there are no more answers.
func write(out io.Writer, answers <-chan loadstats.Result, dialed *atomic.Int64) error {
	lines := json.NewEncoder(out)
	second := time.NewTicker(time.Second)
	defer second.Stop()
	now := loadstats.Second{From: time.Now()}
	end := func() error {
		now.To = time.Now()
		now.Connections = int(dialed.Swap(0))
		err := lines.Encode(now)
		now = loadstats.Second{From: now.To}
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
