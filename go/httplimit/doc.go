// Package httplimit limits the requests of a Go program: net/http requests here, gRPC calls in package grpclimit.
//
// Package weir makes the Limiters of most programs, and their gates. Here, a [Gate] lets a [Decider] decide every request, and applies the
// decision. The Decider is a Limiter of package weir, or a [Remote]: a limiter that is called over HTTP.
//
//	remote, err := httplimit.NewRemote("http://weir:8080")
//	…
//	gate := httplimit.NewGate(remote, "shop")
//	http.ListenAndServe(":8000", httplimit.Middleware(gate)(mux))
package httplimit
