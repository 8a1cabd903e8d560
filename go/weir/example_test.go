package weir_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/go/weir"
)

// A program that has a go-redis client already.
func ExampleNewRedisClient() {
	policies, err := weir.Parse([]byte(perClient))
	if err != nil {
		log.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: "redis:6379", PoolSize: 50})
	defer client.Close()
	limiter, err := weir.NewRedisClient(client, policies, weir.Replicas(3))
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close()
	http.Handle("/", limiter.Handler(http.HandlerFunc(search)))
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
