package source

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// BenchmarkEdit is what an edit of one of n policies costs a limiter, from the manifest to the bits of its heartbeat, without Redis. Half of the policies
// have decided requests.
func BenchmarkEdit(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("policies=%d", n), func(b *testing.B) {
			versions := editedSets(n, 64)
			e := engine.New(memstore.New(time.Now), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
			apply := func(set *rules.Sharded, revision string) error {
				x, err := matching.Update(e.Index(), set, revision, "weir:")
				if err != nil {
					return err
				}
				e.Swap(x)
				return nil
			}
			published := &stub{}
			r := NewRedis(published, "", apply, slog.New(slog.DiscardHandler))
			edit := func(i int) {
				i %= 2 * (len(versions) - 1) // forth and back: neighbors differ in one policy
				version := versions[min(i, 2*(len(versions)-1)-i)]
				published.setShards(version, version.Shards)
				if err := r.refresh(b.Context()); err != nil {
					b.Fatal(err)
				}
				if revision, decided := e.Decided(); revision != version.Revision || decided == nil {
					b.Fatal(revision, decided)
				}
			}
			edit(0)
			for i := range n / 2 {
				request := rules.Request{Domain: fmt.Sprintf("n%03d", 2*i%100), Path: "/", Headers: map[string]string{"x-tenant-id": tenantOf(2 * i)}}
				if _, err := e.Check(b.Context(), &engine.Check{Request: request, Cost: 1}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			i := 1
			for b.Loop() {
				edit(i)
				i++
			}
		})
	}
}

func tenantOf(i int) string { return fmt.Sprintf("tenant-%05d", i) }

// editedSets returns versions of n policies in 100 namespaces. Each differs from the previous one in one policy.
func editedSets(n, versions int) []rules.Encoded {
	set := rules.Set{ByAge: map[string][]string{}}
	for namespace := range 100 {
		scope := fmt.Sprintf("n%03d", namespace)
		for i := range n / 100 {
			name := fmt.Sprintf("policy-%05d", 100*i+namespace)
			set.ByAge[scope] = append(set.ByAge[scope], name)
			set.Rules = append(set.Rules, rules.Rule{
				Policy: scope + "/" + name, Domain: scope, Axis: "Tenant",
				Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"},
				Match:      rules.Match{Headers: []rules.HeaderMatch{{Type: rules.HeaderExact, Name: "x-tenant-id", Value: tenantOf(100*i + namespace)}}},
				Algorithm:  limiter.SlidingWindowCounter, Units: 1000, WindowSeconds: 3600,
			})
		}
	}
	var encoder rules.Encoder
	encoded := make([]rules.Encoded, versions)
	for i := range encoded {
		set.Rules[i*7919%n].Units++
		encoded[i] = encoder.Encode(set, func(j int) string { return set.Rules[j].Revision() })
	}
	return encoded
}
