package weir_test

import (
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/go/weir"
)

// A program that has a go-redis client already. In this example Redis is unavailable: each instance decides on its share of the limits.
func ExampleNewRedisClient() {
	policies, err := weir.Parse([]byte(perClient))
	if err != nil {
		panic(err)
	}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", PoolSize: 50})
	defer client.Close()
	limiter, err := weir.NewRedisClient(client, policies, weir.Replicas(1), weir.Log(slog.New(slog.DiscardHandler)))
	if err != nil {
		panic(err)
	}
	defer limiter.Close()
	w := httptest.NewRecorder()
	limiter.Handler(http.HandlerFunc(search)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/search", nil))
	fmt.Println(w.Code)
	// Output: 200
}

const perClient = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {namespace: shop, name: per-client}
spec: {axis: IP, limit: 2, window: 1m, algorithm: SlidingWindowLog}
`

// A program that limits its requests by policies, with counters in its memory. With weir.NewRedis("redis://redis:6379", policies) instead,
// the instances of the program share their counters.
func Example() {
	policies, err := weir.Parse([]byte(perClient)) // or weir.LoadDir("policies")
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := weir.NewMemory(policies)
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close()
	handler := limiter.Handler(http.HandlerFunc(search)) // for http.ListenAndServe(":8000", handler)

	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/search", nil))
		fmt.Println(w.Code, w.Header().Get("RateLimit")) //nolint:canonicalheader // as the draft spells it
	}
	// Output:
	// 200 "shop/per-client";r=1;t=60
	// 200 "shop/per-client";r=0;t=60
	// 429 "shop/per-client";r=0;t=60
}

func search(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "found") }
