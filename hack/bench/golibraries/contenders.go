package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/go-chi/httprate"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	golimiter "github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
	"golang.org/x/time/rate"

	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/go/weir"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
)

const (
	baselineHTTP  = "ulule"
	baselineRedis = "redis_rate"
	limit         = 100_000_000 // per hour; it is not reached
)

// quiet drops the warning that a FixedWindow admits bursts.
func quiet() weir.Option { return weir.Log(slog.New(slog.DiscardHandler)) }

var errDenied = errors.New("a request is denied")

// policies returns one policy that limits each client by an algorithm.
func policies(algorithm string) (*weir.Policies, error) {
	return weir.Parse(fmt.Appendf(nil, `{apiVersion: weir.dev/v1alpha1, kind: RateLimitPolicy, metadata: {namespace: shop, name: per-client}, `+
		`spec: {axis: IP, limit: %d, window: 1h, algorithm: %s}}`, limit, algorithm))
}

// response discards what is written to it, except for the header of the last request.
type response struct {
	header http.Header
	status int
}

func (w *response) Header() http.Header         { return w.header }
func (w *response) Write(b []byte) (int, error) { return len(b), nil }
func (w *response) WriteHeader(status int)      { w.status = status }

// handlers returns a contender that is middleware of net/http.
func handlers(name string, middleware func() (func(http.Handler) http.Handler, func(), error)) contender {
	return contender{name, func() (func() decide, func(), error) {
		wrap, closes, err := middleware()
		if err != nil {
			return nil, nil, err
		}
		handler := wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
		requests := make([]*http.Request, keys)
		for i := range requests {
			requests[i] = httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/v1/search", nil)
			requests[i].RemoteAddr = addressOf(i) + ":4711"
		}
		return func() decide {
			w := &response{header: http.Header{}}
			return func(_ context.Context, client int) error {
				clear(w.header)
				handler.ServeHTTP(w, requests[client])
				if w.status != http.StatusOK {
					return errDenied
				}
				return nil
			}
		}, closes, nil
	}}
}

func addressOf(client int) string { return fmt.Sprintf("192.0.%d.%d", client>>8, client&0xff) }

func nothing() {}

func httpContenders() []contender {
	return []contender{
		handlers("x/time/rate", func() (func(http.Handler) http.Handler, func(), error) { return perClientRate, nothing, nil }),
		handlers(baselineHTTP, func() (func(http.Handler) http.Handler, func(), error) {
			return stdlib.NewMiddleware(ulule.New(ululememory.NewStore(), ulule.Rate{Period: time.Hour, Limit: limit})).Handler, nothing, nil
		}),
		handlers("go-limiter", func() (func(http.Handler) http.Handler, func(), error) {
			store, err := memorystore.New(&memorystore.Config{Tokens: limit, Interval: time.Hour})
			if err != nil {
				return nil, nil, err
			}
			middleware, err := golimiter.NewMiddleware(store, golimiter.IPKeyFunc())
			if err != nil {
				return nil, nil, err
			}
			return middleware.Handle, func() { _ = store.Close(context.Background()) }, nil
		}),
		handlers("throttled", func() (func(http.Handler) http.Handler, func(), error) {
			store, err := memstore.NewCtx(2 * keys)
			if err != nil {
				return nil, nil, err
			}
			limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerHour(limit), MaxBurst: limit})
			if err != nil {
				return nil, nil, err
			}
			return (&throttled.HTTPRateLimiterCtx{RateLimiter: limiter, VaryBy: &throttled.VaryBy{RemoteAddr: true}}).RateLimit, nothing, nil
		}),
		handlers("httprate", func() (func(http.Handler) http.Handler, func(), error) {
			return httprate.LimitBy(limit, time.Hour, func(r *http.Request) (string, error) {
				host, _, err := net.SplitHostPort(r.RemoteAddr)
				return httprate.CanonicalizeIP(host), err
			}), nothing, nil
		}),
		handlers("weir, headers as ulule", weirHandler("FixedWindow", weir.Gate(httplimit.Style(reply.GitHubHeaders)))),
		handlers("weir", weirHandler("FixedWindow")),
		handlers("weir SlidingWindowCounter", weirHandler("SlidingWindowCounter")),
	}
}

func weirHandler(algorithm string, options ...weir.Option) func() (func(http.Handler) http.Handler, func(), error) {
	return func() (func(http.Handler) http.Handler, func(), error) {
		p, err := policies(algorithm)
		if err != nil {
			return nil, nil, err
		}
		limiter, err := weir.NewMemory(p, append(options, quiet())...)
		if err != nil {
			return nil, nil, err
		}
		return httplimit.Middleware(limiter.Gate()), func() { _ = limiter.Close() }, nil
	}
}

// perClientRate is what programs write with golang.org/x/time/rate. It has no header for the time of the reset.
func perClientRate(next http.Handler) http.Handler {
	var clients sync.Map
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		found, ok := clients.Load(host)
		if !ok {
			found, _ = clients.LoadOrStore(host, rate.NewLimiter(limit/rate.Limit(time.Hour.Seconds()), limit))
		}
		limiter := found.(*rate.Limiter) //nolint:forcetypeassert // all values have this type
		if !limiter.Allow() {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		w.Header().Set("X-Ratelimit-Limit", strconv.Itoa(limit))
		w.Header().Set("X-Ratelimit-Remaining", strconv.Itoa(int(limiter.Tokens())))
		next.ServeHTTP(w, r)
	})
}

func redisContenders(url string) []contender {
	names := make([]string, keys)
	for i := range names {
		names[i] = addressOf(i)
	}
	return []contender{
		{baselineRedis, func() (func() decide, func(), error) {
			client, err := open(url)
			if err != nil {
				return nil, nil, err
			}
			limiter := redis_rate.NewLimiter(client)
			each := func(ctx context.Context, i int) error {
				result, err := limiter.Allow(ctx, names[i], redis_rate.PerHour(limit))
				if err == nil && result.Allowed == 0 {
					err = errDenied
				}
				return err
			}
			return func() decide { return each }, func() { _ = client.Close() }, nil
		}},
		{"ulule", func() (func() decide, func(), error) {
			client, err := open(url)
			if err != nil {
				return nil, nil, err
			}
			store, err := ululeredis.NewStore(client)
			if err != nil {
				return nil, nil, err
			}
			limiter := ulule.New(store, ulule.Rate{Period: time.Hour, Limit: limit})
			each := func(ctx context.Context, i int) error {
				result, err := limiter.Get(ctx, names[i])
				if err == nil && result.Reached {
					err = errDenied
				}
				return err
			}
			return func() decide { return each }, func() { _ = client.Close() }, nil
		}},
		{"weir TokenBucket", weirDecisions(url, "TokenBucket")},
		{"weir FixedWindow", weirDecisions(url, "FixedWindow")},
	}
}

func open(url string) (*redis.Client, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return redis.NewClient(options), nil
}

func weirDecisions(url, algorithm string) func() (func() decide, func(), error) {
	return func() (func() decide, func(), error) {
		p, err := policies(algorithm)
		if err != nil {
			return nil, nil, err
		}
		limiter, err := weir.NewRedis(url, p, weir.Prefix("weir:"+algorithm+":"), weir.Timeout(time.Second), quiet())
		if err != nil {
			return nil, nil, err
		}
		addresses := make([]netip.Addr, keys)
		for i := range addresses {
			addresses[i] = netip.MustParseAddr(addressOf(i))
		}
		each := func(ctx context.Context, i int) error {
			check := engine.Check{Cost: 1}
			check.Request.Domain, check.Request.Method, check.Request.Path = "shop", http.MethodGet, "/v1/search"
			check.Request.ClientIP = addresses[i]
			answer, err := limiter.Check(ctx, &check)
			if err == nil && !answer.Allowed {
				err = errDenied
			}
			return err
		}
		return func() decide { return each }, func() { _ = limiter.Close() }, nil
	}
}
