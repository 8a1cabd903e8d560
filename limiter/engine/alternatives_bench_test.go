package engine_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

// BenchmarkCheckAll_Alternatives measures a request that can belong to several rules of routes, with policies for each, on a real Redis.
func BenchmarkCheckAll_Alternatives(b *testing.B) {
	client, err := redisclient.Open(fixture.Redis(b).URL(), timeout)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	for _, of := range []struct{ checks, policies int }{{1, 1}, {2, 1}, {4, 1}, {16, 1}, {1, 32}, {16, 32}} {
		b.Run(fmt.Sprintf("%d checks of %d policies", of.checks, of.policies), func(b *testing.B) {
			e := engine.New(redisstore.NewStore(client, timeout), engine.SourceRedis, engine.NewMetrics(prometheus.NewRegistry()))
			var list []rules.Rule
			checks := make([]engine.Check, of.checks)
			for i := range checks {
				target := rules.RouteTarget("HTTPRoute", fmt.Sprint("r", i%4), fmt.Sprint("rule", i))
				for j := range of.policies {
					r := fixed(fmt.Sprintf("shop/p%02d-%02d", i, j), 1_000_000_000)
					r.Match.Routes = []rules.Route{{Namespace: "shop", Target: target}}
					list = append(list, r)
				}
				checks[i] = *request(1, acme())
				checks[i].Alternative = true
				checks[i].Request.Descriptors = []rules.Descriptor{{{Key: rules.RouteEntry, Value: target}}}
			}
			e.Swap(index(b, list...))
			b.ReportAllocs()
			for b.Loop() {
				answers, err := e.CheckAll(b.Context(), checks)
				if err != nil || len(answers[of.checks-1].Results) != of.policies {
					b.Fatalf("%v, %v", answers, err)
				}
			}
		})
	}
}
