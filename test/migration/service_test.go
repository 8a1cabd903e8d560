package migration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/ratelimitservice"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/server/envoy"
)

// message returns nodes as the service receives them over xDS.
func message(nodes []*node) (list []*ratelimitv3.RateLimitDescriptor) {
	for _, n := range nodes {
		d := &ratelimitv3.RateLimitDescriptor{Key: n.key, Value: n.value, ShadowMode: n.shadow, Descriptors: message(n.children)}
		if n.limit != nil {
			d.RateLimit = &ratelimitv3.RateLimitPolicy{
				Unlimited: n.limit.unlimited, RequestsPerUnit: uint32(n.limit.requests), Unit: ratelimitv3.RateLimitUnit(ratelimitv3.RateLimitUnit_value[strings.ToUpper(n.limit.unit)]),
			}
		}
		list = append(list, d)
	}
	return list
}

// unshared removes what the message has no field for.
func unshared(nodes []*node) {
	for _, n := range nodes {
		n.shared = false
		unshared(n.children)
	}
}

// TestRateLimitService_DecidesLikeTheModelOfEnvoysService sends requests of several descriptors with any number of hits: the answers of weir
// ratelimit are those of the model, always.
func TestRateLimitService_DecidesLikeTheModelOfEnvoysService(t *testing.T) {
	var limits map[string]ratelimitservice.Limit
	w := newWeirWith(t, &envoy.Reference{CountsDenied: true, Limit: func(policy string) *envoy.ReferenceLimit {
		return &envoy.ReferenceLimit{Name: limits[policy].Name, Zero: limits[policy].Zero}
	}})
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		nodes := drawNodes(rt, 2)
		unshared(nodes)
		w.reset()
		run++
		domains := ratelimitservice.NewDomains(ratelimitservice.Options{Algorithm: v1alpha1.FixedWindow, OnStoreFailure: v1alpha1.StoreFailureDeny}, 0)
		config := &ratelimitv3.RateLimitConfig{Domain: "shop/eg/http", Descriptors: message(nodes)}
		if err := domains.Update(w.time(), []*ratelimitv3.RateLimitConfig{config}, true); err != nil {
			rt.Fatalf("%v", err)
		}
		var set rules.Set
		set, limits = domains.Rules()
		index, err := matching.NewIndex(set, "sha256:1", fmt.Sprint("run-", run, ":"))
		if err != nil {
			rt.Fatalf("%v", err)
		}
		w.engine.Swap(index)
		m := newModel(nodes)
		for range 30 {
			w.pass(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 200, 1000, 60_000}).Draw(rt, "ms")) * time.Millisecond)
			request := rapid.SliceOfN(rapid.Custom(drawDescriptor), 1, 3).Draw(rt, "request")
			var hits []int
			asked := &rlsv3.RateLimitRequest{Domain: "shop/eg/http"}
			for _, descriptor := range request {
				n := rapid.IntRange(0, 3).Draw(rt, "hits")
				hits = append(hits, n)
				d := &descriptorv3.RateLimitDescriptor{HitsAddend: wrapperspb.UInt64(uint64(n))}
				for _, e := range descriptor {
					d.Entries = append(d.Entries, &descriptorv3.RateLimitDescriptor_Entry{Key: e.key, Value: e.value})
				}
				asked.Descriptors = append(asked.Descriptors, d)
			}
			want := m.charge(w.time(), request, hits)
			got, err := w.client.ShouldRateLimit(context.Background(), asked)
			if err != nil {
				rt.Fatalf("%v", err)
			}
			if over := slices.ContainsFunc(want, func(o outcome) bool { return o.over }); isOver(got.GetOverallCode()) != over {
				rt.Fatalf("%v with %v hits: the model denies: %t, Weir answers %v with\n%v", request, hits, over, got, config)
			}
			if !m.distinct(request) { // the model decides one after the other, and Weir together
				continue
			}
			for i, o := range want {
				status := got.GetStatuses()[i]
				if isOver(status.GetCode()) != o.over || (status.GetCurrentLimit() != nil) != (o.matched != nil) {
					rt.Fatalf("%v with %v hits: the model has %+v, Weir answers %v with\n%v", request, hits, o, status, config)
				}
				if o.matched != nil && (int(status.GetLimitRemaining()) != o.remaining || int(status.GetCurrentLimit().GetRequestsPerUnit()) != o.matched.requests) {
					rt.Fatalf("%v with %v hits: the model has %d of %d left, Weir answers %v with\n%v", request, hits, o.remaining, o.matched.requests, status, config)
				}
			}
		}
	})
}

// distinct reports whether no two descriptors of the request are on one counter.
func (m *model) distinct(request [][]entry) bool {
	seen := map[string]bool{}
	for _, descriptor := range request {
		if at, key := m.find(descriptor); at != nil {
			if seen[key] {
				return false
			}
			seen[key] = true
		}
	}
	return true
}
