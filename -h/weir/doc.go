// Package weir limits the requests of a Go program by rate-limit policies: those of a directory, or of the program itself. They are the
// RateLimitPolicy objects of a cluster, with the same validation, and the same decisions.
//
//	policies, err := weir.LoadDir("policies")
//	// …
//	limiter, err := weir.NewMemory(policies) // or weir.NewRedis("redis://redis:6379", policies)
//	// …
//	defer limiter.Close()
//	http.ListenAndServe(":8000", limiter.Handler(mux))
//
// A [Limiter] counts in this process, in a Redis that the instances of the program share, or in a limiter that it calls. While Redis is unavailable,
// each instance decides on its share of the limits, as the policies set with onStoreFailure.
package weir
