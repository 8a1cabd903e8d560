package grpclimit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/limiter/rules"
)

// Clients of several languages accept 8 KiB of header fields by default. What exceeds that is INTERNAL for them.
func TestUnaryServerInterceptor_ADenialFitsTheHeaderListOfClients(t *testing.T) {
	own := tenantRule("a", 1)
	own.Denial = &rules.Denial{Message: strings.Repeat("é%", 1024)}
	var several []rules.Rule
	for i := range 16 {
		several = append(several, tenantRule(fmt.Sprintf("%02d-%s", i, strings.Repeat("x", 50)), 1))
	}
	for name, test := range map[string]struct {
		rules      []rules.Rule
		tenant     string
		message    string // its beginning
		violations int    // at least
	}{
		"the message of the policy": {[]rules.Rule{own}, "acme", "é%é%", 1},
		"a long identifier":         {[]rules.Rule{tenantRule("a", 1)}, strings.Repeat("z", 6000), "over the limit of shop/a; retry in 60 s", 1},
		"several policies":          {several, "acme", "over the limit of shop/00-", 5},
	} {
		for way, decider := range deciders() {
			t.Run(name+", "+way, func(t *testing.T) {
				_, address := serve(t, httplimit.NewGate(decider(t, newEngine(t, func() time.Time { return noon }, test.rules...)), "shop"))
				client := dial(t, address, grpc.WithMaxHeaderListSize(8<<10))
				if _, err := client.EmptyCall(callOf(t, test.tenant), &grpc_testing.Empty{}); err != nil {
					t.Fatal(err)
				}
				_, err := client.EmptyCall(callOf(t, test.tenant), &grpc_testing.Empty{})
				got := status.Convert(err)
				if got.Code() != codes.ResourceExhausted || !strings.HasPrefix(got.Message(), test.message) || len(got.Details()) != 2 {
					t.Fatalf("%v", err)
				}
				quotas, is := got.Details()[1].(*errdetails.QuotaFailure)
				if !is || len(quotas.GetViolations()) < test.violations {
					t.Errorf("%d violations, want at least %d: %v", len(quotas.GetViolations()), test.violations, got.Details())
				}
			})
		}
	}
}
