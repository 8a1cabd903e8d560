package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/kubernetes"
)

const (
	tick = 50 * time.Millisecond
	// inProgress bounds the requests of one kind in progress: while Redis hangs, requests wait.
	inProgress = 40
	// wave is the period of the load.
	wave = 5 * time.Minute
)

// load sends requests to the limiters, as clients of several kinds.
type load struct {
	urls   []string
	client *http.Client
	cancel context.CancelFunc
	all    sync.WaitGroup
}

// traffic is one kind of requests: how many per second, and one of them.
type traffic struct {
	perSecond float64
	send      func(context.Context)
}

func startLoad(ctx context.Context, w *kubernetes.World) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{
		urls: w.CheckURLs(), cancel: cancel,
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: inProgress}},
	}
	for _, t := range l.customers() {
		l.run(ctx, t)
	}
	return l
}

// stop ends all requests.
func (l *load) stop() {
	l.cancel()
	l.all.Wait()
}

// run sends the traffic until ctx is done: between 40 % and 160 % of its rate, in a wave.
func (l *load) run(ctx context.Context, t traffic) {
	start, slots := time.Now(), make(chan struct{}, inProgress)
	l.all.Go(func() {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		due := 0.0
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			due += t.perSecond * tick.Seconds() * (1 + 0.6*math.Sin(2*math.Pi*time.Since(start).Minutes()/wave.Minutes()))
			for ; due >= 1; due-- {
				select {
				case slots <- struct{}{}:
					l.all.Go(func() { t.send(ctx); <-slots })
				default: // too many requests wait already
				}
			}
		}
	})
}

// during sends the traffic for some time, in addition.
func (l *load) during(ctx context.Context, d time.Duration, t traffic) {
	ctx, cancel := context.WithTimeout(ctx, d)
	l.run(ctx, t)
	l.all.Go(func() { <-ctx.Done(); cancel() })
}

// customers are the clients of an ordinary day.
func (l *load) customers() []traffic {
	return []traffic{
		{30, l.checks(func() fixture.CheckRequest { return shop(http.MethodGet, "/products", tenant()) })},
		{12, l.checks(func() fixture.CheckRequest { return shop(http.MethodGet, "/search", tenant()) })},
		{4, l.checks(func() fixture.CheckRequest {
			r := shop(http.MethodPost, "/checkout", tenant())
			r.Headers["x-user-id"] = fmt.Sprint("user-", rand.IntN(20))
			return r
		})},
		{3, l.checks(func() fixture.CheckRequest { return shop(http.MethodGet, "/products", "") })},
		{8, l.checks(func() fixture.CheckRequest {
			key := fmt.Sprint("key-", rand.IntN(4))
			return fixture.CheckRequest{Domain: "media", Method: http.MethodGet, Path: "/files", Headers: map[string]string{"x-api-key": key}}
		})},
		{4, l.checks(func() fixture.CheckRequest {
			return fixture.CheckRequest{Domain: "wiki", Method: http.MethodGet, Path: "/"}
		})},
		{0.5, func(ctx context.Context) { l.post(ctx, []byte(`{"domain": 7}`)) }}, // invalid
	}
}

// tenant returns a tenant. Some have much more traffic than others.
func tenant() string {
	switch n := rand.IntN(100); {
	case n < 20:
		return "acme"
	case n < 32:
		return "globex"
	case n < 45:
		return "shop-web"
	default:
		return fmt.Sprint("tenant-", int(15*rand.ExpFloat64()))
	}
}

// shop is a request of a tenant, or of no tenant, to the shop.
func shop(method, path, tenant string) fixture.CheckRequest {
	r := fixture.CheckRequest{Domain: "shop", Method: method, Path: path, Headers: map[string]string{}, ClientIP: fmt.Sprint("192.0.2.", rand.IntN(50))}
	if tenant != "" {
		r.Headers["x-tenant-id"] = tenant
	}
	return r
}

// checks returns a function that sends one of the requests to one of the limiters.
func (l *load) checks(request func() fixture.CheckRequest) func(context.Context) {
	return func(ctx context.Context) {
		body, err := json.Marshal(request())
		if err != nil {
			panic("screenshots: encode plain data: " + err.Error())
		}
		l.post(ctx, body)
	}
}

// post ignores the answer and errors: some requests fail while Redis or limiters fail.
func (l *load) post(ctx context.Context, body []byte) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.urls[rand.IntN(len(l.urls))]+"/v1/check", bytes.NewReader(body))
	if err != nil {
		panic("screenshots: a request from constants: " + err.Error())
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := l.client.Do(request)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
}

// surge sends n requests at the same time. More are in progress than limiters accept.
func (l *load) surge(ctx context.Context, n int) {
	send := l.checks(func() fixture.CheckRequest { return shop(http.MethodGet, "/products", tenant()) })
	for range n {
		l.all.Go(func() { send(ctx) })
	}
}
