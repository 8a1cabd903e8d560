// Package h2 serves unary calls of gRPC over HTTP/2.
//
// An empty server of grpc-go takes more processor time for a call than a decision of Weir does. This package reads frames with the parser of
// golang.org/x/net/http2, and it serves only one kind of call: one message, one response, no metadata. Other methods are unimplemented.
// docs/adr/0064 has the measurements, and docs/adr/0074 the bounds.
package h2
