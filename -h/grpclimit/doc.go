// Package grpclimit limits the calls of a gRPC server with a [httplimit.Gate].
//
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(grpclimit.UnaryServerInterceptor(gate)),
//		grpc.ChainStreamInterceptor(grpclimit.StreamServerInterceptor(gate)))
//
// Policies see a call as the HTTP/2 request that it is, as Envoy in front of the same server does: method POST, the full method as path
// ("/shop.v1.Search/Query"), the authority as host, metadata as headers. Binary metadata ("-bin") is omitted.
package grpclimit
