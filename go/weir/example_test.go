package weir_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/weir-dev/weir/go/weir"
)

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
	server := httptest.NewServer(limiter.Handler(http.HandlerFunc(search)))
	defer server.Close()

	for range 3 {
		response, err := server.Client().Get(server.URL + "/v1/search")
		if err != nil {
			log.Fatal(err)
		}
		response.Body.Close()
		fmt.Println(response.StatusCode, response.Header.Get("RateLimit"))
	}
	// Output:
	// 200 "shop/per-client";r=1;t=60
	// 200 "shop/per-client";r=0;t=60
	// 429 "shop/per-client";r=0;t=60
}

func search(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "found") }
