package envoy

import (
	"log/slog"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/server/envoy/wire"
)

// fuzzed returns a limiter whose policies match many requests.
func fuzzed(t testing.TB) *Options {
	t.Helper()
	shadow := per("shadow", 1, time.Minute, "tenant")
	shadow.Shadow = true
	all := per("all", 3, 15*time.Minute, "")
	all.Identifier = rules.Identifier{From: rules.FromClientIP}
	claims := per("claims", 3, time.Minute, "")
	claims.Identifier = rules.Identifier{From: rules.FromClaim, Name: "realm.tenant"}
	return &Options{
		Engine: newEngine(t, noon(), all, claims, shadow, per("tenant", 5, time.Minute, "tenant")),
		Style:  reply.RateLimitHeaders, Log: slog.New(slog.DiscardHandler), UnitMultiplier: true, Refunds: true,
	}
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// FuzzShouldRateLimit checks that the answer to any request has a status for each descriptor, or is an error with a reason.
func FuzzShouldRateLimit(f *testing.F) {
	for _, r := range []*ratelimitv3.RateLimitRequest{
		request(), request(describe("tenant=acme")), request(counting(0, "tenant=acme"), refunding(3, "tenant=acme"), counting(4, "a=b c=d")),
		request(describe("remote_address=203.0.113.7")),
		{Domain: "elsewhere", Descriptors: request(describe("a=b")).GetDescriptors(), HitsAddend: 7},
	} {
		f.Add(marshal(f, r))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		var in ratelimitv3.RateLimitRequest
		if proto.Unmarshal(message, &in) != nil {
			return
		}
		out, err := answerTo(t.Context(), newRateLimitEndpoint(fuzzed(t)), message)
		if err != nil {
			if status.Code(err) != codes.InvalidArgument {
				t.Fatal(err)
			}
			return
		}
		if len(out.GetStatuses()) != min(len(in.GetDescriptors()), 64) {
			t.Fatalf("%d statuses of %d descriptors", len(out.GetStatuses()), len(in.GetDescriptors()))
		}
		over := false
		for _, s := range out.GetStatuses() {
			if s.GetCode() == ratelimitv3.RateLimitResponse_UNKNOWN || s.GetDurationUntilReset().AsDuration() < 0 {
				t.Fatal(s)
			}
			over = over || s.GetCode() == ratelimitv3.RateLimitResponse_OVER_LIMIT
		}
		if (out.GetOverallCode() == ratelimitv3.RateLimitResponse_OVER_LIMIT) != over || over == (len(out.GetRawBody()) == 0) {
			t.Fatal(out)
		}
		marshal(t, out)
	})
}

// FuzzExtAuthz checks that any request is allowed, denied, or fails with a reason.
func FuzzExtAuthz(f *testing.F) {
	for _, a := range []*authv3.AttributeContext{nil, attributes("GET", "/v1/search?q=%zz"), {ContextExtensions: map[string]string{"domain": "shop", "tenant": "a"}}} {
		f.Add(marshal(f, &authv3.CheckRequest{Attributes: a}))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		var in wire.AuthRequest
		var generated authv3.CheckRequest
		switch err, errGenerated := in.Decode(message), proto.Unmarshal(message, &generated); {
		case err != nil && errGenerated == nil:
			t.Fatalf("%x: %v, and the generated code has no error", message, err)
		case err != nil:
			return
		}
		out, err := newAuthEndpoint(fuzzed(t)).check(t.Context(), &in)
		switch {
		case err != nil:
			if status.Code(err) != codes.InvalidArgument {
				t.Fatal(err)
			}
		case (out.GetOkResponse() != nil) != (out.GetStatus().GetCode() == int32(codes.OK)):
			t.Fatal(out)
		case (out.GetDeniedResponse() != nil) != (out.GetStatus().GetCode() == int32(codes.ResourceExhausted)):
			t.Fatal(out)
		default:
			marshal(t, out)
		}
	})
}
