package main

import (
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-dev/weir/cmd/weir/flags"
)

func TestServe_CountsTheResponsesOfEachEndpoint(t *testing.T) {
	base, ops, address := serveTraced(t, flags.Tracing{})
	for range 3 { // the limit is 2
		checkTraced(t, base)
		callTraced(t, address)
	}
	get(t, base+"/v1/auth/unlimited?deny=500") // is invalid
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	if _, err := authv3.NewAuthorizationClient(connection).Check(t.Context(), &authv3.CheckRequest{}); err != nil {
		t.Error(err)
	}
	_, metrics := get(t, ops+"/metrics")
	for _, want := range []string{
		`{code="200",endpoint="check"} 2`, `{code="429",endpoint="check"} 1`, `{code="400",endpoint="auth"} 1`, `{code="OK",endpoint="rls"} 2`,
		`{code="OVER_LIMIT",endpoint="rls"} 1`, `{code="OK",endpoint="ext_authz"} 1`,
	} {
		if !strings.Contains(metrics, "weir_requests_total"+want+"\n") {
			t.Errorf("%s is not in the metrics", want)
		}
	}
}
