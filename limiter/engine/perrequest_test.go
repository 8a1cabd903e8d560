package engine

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// overlapping returns an Engine with n policies of a namespace that match every request of the tenant acme.
func overlapping(t testing.TB, store limiter.Store, n int) (*Engine, *prometheus.Registry) {
	t.Helper()
	var set rules.Set
	for i := range n {
		set.Rules = append(set.Rules, rules.Rule{
			Policy: fmt.Sprintf("shop/p%04d", i), Domain: "shop", Axis: "Tenant",
			Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"},
			Algorithm:  limiter.TokenBucket, Units: 1_000_000, WindowSeconds: 3600,
		})
	}
	x, err := matching.NewIndex(set, "sha256:1", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	e := New(store, SourceMemory, NewMetrics(registry))
	e.Swap(x)
	return e, registry
}

func ofAcme() *Check {
	return &Check{Cost: 1, Request: rules.Request{Domain: "shop", Path: "/", Headers: map[string]string{"x-tenant-id": "acme"}}}
}

func TestCheck_ChargesABoundedNumberOfOverlappingPolicies(t *testing.T) {
	e, registry := overlapping(t, memstore.New(time.Now), 40)
	answer, err := e.Check(t.Context(), ofAcme())
	if err != nil || len(answer.Results) != 32 {
		t.Fatalf("%d results, %v", len(answer.Results), err)
	}
	peek := ofAcme()
	peek.Peek = true
	for range 2 { // not counted
		if _, err := e.Check(t.Context(), peek); err != nil {
			t.Fatal(err)
		}
	}
	var want strings.Builder
	want.WriteString("# HELP weir_policies_left_out_total Requests that a policy matched and did not count, because more than 32 policies of its " +
		"namespace matched the request. Enforced policies count it before Shadow policies, and older ones before younger ones.\n# TYPE weir_policies_left_out_total counter\n")
	for i := 32; i < 40; i++ {
		fmt.Fprintf(&want, "weir_policies_left_out_total{policy=\"shop/p%04d\"} 1\n", i)
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want.String()), "weir_policies_left_out_total"); err != nil {
		t.Error(err)
	}
	if err := e.Refund(t.Context(), []Check{*ofAcme()}); err != nil {
		t.Fatal(err)
	}
	x, err := matching.NewIndex(rules.Set{}, "sha256:2", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	e.Swap(x)
	if n := testutil.CollectAndCount(e.metrics.leftOut); n != 0 {
		t.Errorf("%d series of policies that no longer exist", n)
	}
}

// TestCheck_NamesTheEndpointsOfChargedPoliciesOnly counts bytes: a policy that stores a new path allocates more than 100.
func TestCheck_NamesTheEndpointsOfChargedPoliciesOnly(t *testing.T) {
	const requests = 100
	allocated := func(perEndpoint bool) int {
		var set rules.Set
		for i := range 1000 {
			set.Rules = append(set.Rules, rules.Rule{
				Policy: fmt.Sprintf("shop/p%04d", i), Domain: "shop", Axis: "Tenant", Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"},
				Algorithm: limiter.FixedWindow, Units: 1_000_000, WindowSeconds: 3600, PerEndpoint: perEndpoint,
			})
		}
		e, _ := overlapping(t, memstore.New(time.Now), 0)
		x, err := matching.NewIndex(set, "sha256:1", "weir:")
		if err != nil {
			t.Fatal(err)
		}
		e.Swap(x)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range requests {
			c := ofAcme()
			c.Request.Path = "/" + strconv.Itoa(i)
			if _, err := e.Check(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		return int(after.TotalAlloc-before.TotalAlloc) / requests
	}
	usual, perEndpoint := allocated(false), allocated(true)
	t.Logf("a request allocates %d bytes, and %d with endpoints", usual, perEndpoint)
	if more := perEndpoint - usual; more > 48<<10 {
		t.Errorf("the endpoints of a request take %d bytes more, want at most 48 KiB", more)
	}
}

func BenchmarkCheckOverlappingPolicies(b *testing.B) {
	for _, n := range []int{1, 32, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			e, _ := overlapping(b, memstore.New(time.Now), n)
			c := ofAcme()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Check(b.Context(), c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
