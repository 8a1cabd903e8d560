// Package grpclimit limits the calls of a gRPC server with a [middleware.Gate].
//
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(grpclimit.UnaryServerInterceptor(gate)),
//		grpc.ChainStreamInterceptor(grpclimit.StreamServerInterceptor(gate)))
//
// To policies a call is what it is on the wire, and so what Envoy in front of the same server sees: method POST, the full
// method as path ("/shop.v1.Search/Query"), the authority as host, metadata as headers. Binary metadata ("-bin") is left out.
package grpclimit
