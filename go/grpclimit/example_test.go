package grpclimit_test

import (
	"fmt"

	"google.golang.org/grpc"

	"github.com/weir-dev/weir/go/grpclimit"
	"github.com/weir-dev/weir/go/httplimit"
)

// One gate limits unary calls, streams, and HTTP requests. A stream is charged for each message that it receives.
func Example() {
	remote, err := httplimit.NewRemote("http://weir.weir-system:8080")
	if err != nil {
		panic(err)
	}
	defer remote.Close()
	gate := httplimit.NewGate(remote, "shop")
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(grpclimit.UnaryServerInterceptor(gate)),
		grpc.ChainStreamInterceptor(grpclimit.StreamServerInterceptor(gate, grpclimit.EachMessage())))
	defer server.Stop()
	fmt.Println(len(server.GetServiceInfo()), "services yet")
	// Output: 0 services yet
}
