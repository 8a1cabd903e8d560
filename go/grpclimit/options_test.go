package grpclimit_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/go/grpclimit"
	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/limiter/rules"
)

// userOf returns the user of a call, which an earlier interceptor of a program would have verified.
func userOf(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	return strings.Join(md.Get("x-tenant-id"), "")
}

func TestKey_IsTheIdentifierOfACall(t *testing.T) {
	r := tenantRule("user", 1)
	r.Identifier = rules.Identifier{From: rules.FromClaim, Name: "sub"}
	_, client := start(t, httplimit.NewGate(newEngine(t, time.Now, r), "shop"), grpclimit.Key(userOf))
	for _, step := range []struct {
		user string
		want codes.Code
	}{{"ann", codes.OK}, {"bob", codes.OK}, {"ann", codes.ResourceExhausted}, {"bob", codes.ResourceExhausted}} {
		if _, err := client.EmptyCall(callOf(t, step.user), &grpc_testing.Empty{}); status.Code(err) != step.want {
			t.Errorf("%s: %v, want %v", step.user, err, step.want)
		}
	}
}

func TestSkip_ServesCallsAndStreamsWithoutADecision(t *testing.T) {
	for name, options := range map[string][]grpclimit.Option{
		"alone": nil, "with ChargeLater": {grpclimit.ChargeLater()}, "with EachMessage": {grpclimit.ChargeLater(), grpclimit.EachMessage()},
	} {
		skip := grpclimit.Skip(func(ctx context.Context, method string) bool {
			return userOf(ctx) == "probe" && strings.HasPrefix(method, "/grpc.testing.TestService/")
		})
		_, client := start(t, httplimit.NewGate(newEngine(t, time.Now, tenantRule("a", 1)), "shop"), append(options, skip)...)
		for _, step := range []struct {
			user string
			want codes.Code
		}{{"probe", codes.OK}, {"probe", codes.OK}, {"ann", codes.OK}, {"ann", codes.ResourceExhausted}, {"probe", codes.OK}} {
			var fields metadata.MD
			_, err := client.EmptyCall(callOf(t, step.user), &grpc_testing.Empty{}, grpc.Header(&fields))
			if status.Code(err) != step.want || (len(limits(fields)) == 0) != (step.user == "probe") {
				t.Errorf("%s, %s: %v with %v, want %v", name, step.user, err, fields, step.want)
			}
		}
		stream, err := client.FullDuplexCall(callOf(t, "probe"))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := stream.Send(&grpc_testing.StreamingOutputCallRequest{}); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		_ = stream.CloseSend()
		_, _ = stream.Recv()
	}
}

func TestPeek_CountsNothingInACall(t *testing.T) {
	implementation, client := start(t, httplimit.NewGate(newEngine(t, time.Now, tenantRule("a", 3)), "shop"), grpclimit.ChargeLater())
	var left []int64
	implementation.charge = func(ctx context.Context) {
		answer, err := httplimit.Peek(ctx)
		if err != nil || len(answer.Results) != 1 {
			t.Error(answer, err)
			return
		}
		left = append(left, answer.Results[0].Remaining)
	}
	for range 3 {
		if _, err := client.EmptyCall(callOf(t, "acme"), &grpc_testing.Empty{}); err != nil {
			t.Fatal(err)
		}
	}
	if fmt.Sprint(left) != "[2 1 0]" {
		t.Errorf("%v remain, want 2, 1, 0", left)
	}
}

// What a program forgets is an error or the default, never a panic.
func TestNil_IsAnErrorOrTheDefault(t *testing.T) {
	nothing := []grpclimit.Option{
		nil, grpclimit.ClientIP(nil), grpclimit.Claims(nil), grpclimit.Cost(nil), grpclimit.Describe(nil), grpclimit.Key(nil), grpclimit.Skip(nil),
	}
	_, client := start(t, httplimit.NewGate(newEngine(t, time.Now, tenantRule("a", 1)), "shop"), nothing...)
	for _, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
		if _, err := client.EmptyCall(callOf(t, "acme"), &grpc_testing.Empty{}); status.Code(err) != want {
			t.Errorf("%v, want %v", err, want)
		}
	}
	for _, gate := range []*httplimit.Gate{nil, httplimit.NewGate(nil, "shop", httplimit.Log(slog.New(slog.DiscardHandler)))} {
		_, client := start(t, gate, nothing...)
		if _, err := client.EmptyCall(callOf(t, "acme"), &grpc_testing.Empty{}); status.Code(err) != codes.Unavailable {
			t.Errorf("without a decider: %v", err)
		}
	}
}

// Health checks are not limited, and users are those that an earlier interceptor has verified.
func ExampleSkip() {
	type userKey struct{}
	gate := httplimit.NewGate(failing{}, "shop") // or the Gate of a weir.Limiter
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(grpclimit.UnaryServerInterceptor(gate,
		grpclimit.Skip(func(_ context.Context, method string) bool {
			return strings.HasPrefix(method, "/grpc.health.v1.Health/")
		}),
		grpclimit.Key(func(ctx context.Context) string { user, _ := ctx.Value(userKey{}).(string); return user }))))
	defer server.Stop()
	fmt.Println(len(server.GetServiceInfo()), "services yet")
	// Output: 0 services yet
}
