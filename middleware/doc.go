// Package middleware limits the requests of a Go program: net/http requests here, gRPC calls in package grpclimit.
//
// A [Gate] lets a [Decider] decide every request, and applies the decision. The Decider is an [engine.Engine] in this process, with
// counters in memory or in Redis, or a [Remote]: a limiter that is called over HTTP.
//
//	remote, err := middleware.NewRemote("http://weir:8080")
//	…
//	gate := middleware.NewGate(remote, "shop")
//	http.ListenAndServe(":8000", middleware.HTTP(gate)(mux))
package middleware
