// Package middleware limits the requests of a Go program: those of net/http here, those of gRPC in package grpclimit.
//
// A [Gate] asks a [Decider] about every request and does what it says. The Decider is an [engine.Engine] in this process,
// with its counters in memory or in Redis, or a [Remote]: a limiter that is asked over HTTP.
//
//	remote, err := middleware.NewRemote("http://weir:8080")
//	…
//	gate := middleware.NewGate(remote, "shop")
//	http.ListenAndServe(":8000", middleware.HTTP(gate)(mux))
package middleware
