package matching_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// BenchmarkFeatures is BenchmarkMatch with 100 domains. Each of the five matching rules uses one additional feature. It also
// measures what the engine calls for a match: Identify and Terms.
func BenchmarkFeatures(b *testing.B) {
	tier := func(w rules.When) func(*rules.Rule) {
		return func(r *rules.Rule) { r.Tiers = []rules.Tier{{Name: "paid", When: w, Units: 1000}} }
	}
	for _, feature := range []struct {
		name   string
		change func(*rules.Rule)
	}{
		{"none", func(*rules.Rule) {}},
		{"cidrs", func(r *rules.Rule) { r.Match.CIDRs = []string{"10.0.0.0/8", "192.0.2.0/24", "2001:db8::/32"} }},
		{"expression", func(r *rules.Rule) {
			r.Match.Expression = `request.path.startsWith("/p7") && request.headers["x-plan"] == "free"`
		}},
		{"expression/regexp", func(r *rules.Rule) { r.Match.Expression = `request.path.matches("^/p7/items/[0-9]+$")` }},
		{"descriptor", func(r *rules.Rule) {
			r.Match.Descriptors = []rules.DescriptorMatch{{Key: "generic_key", Value: "login"}}
		}},
		{"tier/header", tier(rules.When{Header: &rules.HeaderMatch{Type: rules.HeaderExact, Name: "x-plan", Value: "free"}})},
		{"tier/identifiers", tier(rules.When{Identifiers: []string{"globex", "acme"}})},
		{"tier/cidrs", tier(rules.When{CIDRs: []string{"10.0.0.0/8"}})},
		{"tier/groups", tier(rules.When{Groups: []string{"staff"}})},
		{"tier/expression", tier(rules.When{Expression: `request.headers["x-plan"] == "free"`})},
		{"identifier/claim", func(r *rules.Rule) { r.Identifier = rules.Identifier{From: rules.FromClaim, Name: "realm.tenant"} }},
		{"identifier/descriptor", func(r *rules.Rule) { r.Identifier = rules.Identifier{From: rules.FromDescriptor, Name: "generic_key"} }},
		{"identifier/expression", func(r *rules.Rule) {
			r.Identifier = rules.Identifier{From: rules.FromExpression, Name: `request.headers["x-tenant-id"]`}
		}},
		{"cost/header", func(r *rules.Rule) { r.Cost = &rules.Cost{Header: "x-cost"} }},
		{"cost/expression", func(r *rules.Rule) { r.Cost = &rules.Cost{Expression: `size(request.path)`} }},
		{"endpoints", func(r *rules.Rule) { r.PerEndpoint = true }},
	} {
		list := manyRules(10_000, 100)
		for i := range 5 {
			feature.change(&list[i])
		}
		x := index(b, list...)
		req := request("GET h42.example /p7/items/1 x-plan=free x-tenant-id=acme x-cost=3")
		req.Domain, req.ClientIP = "d0", netip.MustParseAddr("10.1.2.3")
		req.Claims = map[string]any{"groups": []any{"ops", "staff"}, "realm": map[string]any{"tenant": "acme"}}
		req.Descriptors = []rules.Descriptor{{{Key: "generic_key", Value: "login"}}}
		dst := make([]matching.Matched, 0, 16)
		if got := len(x.Match(dst, req)); got != 5 {
			b.Fatalf("%s: %d rules match, want 5", feature.name, got)
		}
		b.Run("only=match/"+feature.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				x.NameEndpoints(x.Match(dst, req), false)
			}
		})
		b.Run("only=terms/"+feature.name, func(b *testing.B) {
			matched := x.NameEndpoints(x.Match(dst, req), false)
			b.ReportAllocs()
			for b.Loop() {
				for _, m := range matched {
					m.Terms(req, m.Identify(req))
				}
			}
		})
	}
}

// BenchmarkDescriptors matches one request against 10 000 policies of one domain, each with a different descriptor.
func BenchmarkDescriptors(b *testing.B) {
	var list []rules.Rule
	for i := range 10_000 {
		r := rule(fmt.Sprintf("shop/p%05d", i))
		r.Match.Descriptors = []rules.DescriptorMatch{{Key: "generic_key", Value: fmt.Sprint("route", i)}, {Key: "tenant"}}
		list = append(list, r)
	}
	x := index(b, list...)
	req := &rules.Request{Domain: "shop", Descriptors: []rules.Descriptor{{{Key: "generic_key", Value: "route4711"}, {Key: "tenant", Value: "acme"}}}}
	dst := make([]matching.Matched, 0, 16)
	if got := len(x.Match(dst, req)); got != 1 {
		b.Fatalf("%d rules match, want 1", got)
	}
	b.ReportAllocs()
	for b.Loop() {
		x.Match(dst, req)
	}
}

// BenchmarkMostExpensiveExpression measures expressions that run until they reach the cost limit.
func BenchmarkMostExpensiveExpression(b *testing.B) {
	for name, text := range map[string]string{
		"loop":   `request.headers.all(h, request.query.size() > 0 && request.headers[h] == "" && [1, 2, 3, 4, 5].all(n, n < 9 && h != ""))`,
		"regexp": `request.path.matches("^/v1/(search|suggest|complete)/[a-z]+$")`,
	} {
		x := index(b, ruleMatching(rules.Match{Expression: text}))
		req := request("GET - /v1/search/" + strings.Repeat("x", 1<<20))
		req.Query = map[string][]string{}
		for i := range 1000 {
			req.Headers[fmt.Sprint("h", i)], req.Query[fmt.Sprint("q", i)] = "", nil
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				x.Match(nil, req)
			}
		})
	}
}

// BenchmarkNewIndex compiles 10 000 policies without expressions, with the same expression, and with different expressions.
func BenchmarkNewIndex(b *testing.B) {
	for _, name := range []string{"none", "same", "different"} {
		list := manyRules(10_000, 100)
		for i := range list {
			switch name {
			case "same":
				list[i].Match.Expression = `request.path.endsWith(".json")`
			case "different":
				list[i].Match.Expression = fmt.Sprintf(`request.path.endsWith(".json%d")`, i)
			}
		}
		b.Run("expressions="+name, func(b *testing.B) {
			b.ReportAllocs()
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			var x *matching.Index
			for b.Loop() {
				x = index(b, list...)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "held-MB")
			runtime.KeepAlive(x)
		})
	}
}

// BenchmarkUpdate edits one of n policies. Its cost is that of the shard and of the tables of the policy.
func BenchmarkUpdate(b *testing.B) {
	for _, domains := range []int{100, 1} {
		for _, n := range []int{1000, 10_000} {
			b.Run(fmt.Sprintf("namespaces=%d/policies=%d", domains, n), func(b *testing.B) {
				versions := [2]*rules.Sharded{}
				for i := range versions {
					list := manyRules(n, domains)
					list[n/2].Units += int64(i)
					versions[i] = rules.Split(rules.Set{Rules: list})
				}
				edited := 0
				for i, shard := range versions[1].Shards {
					if reflect.DeepEqual(shard, versions[0].Shards[i]) {
						versions[1].Shards[i] = versions[0].Shards[i]
					} else {
						edited++
					}
				}
				x, err := matching.Update(nil, versions[0], "0", "weir:")
				if err != nil || edited != 1 {
					b.Fatal(edited, err)
				}
				b.ReportAllocs()
				for i := 1; b.Loop(); i++ {
					if x, err = matching.Update(x, versions[i%2], "1", "weir:"); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkMatch matches one request against 10 000 rules. Five of them match. All rules are in one domain, over 100 hosts with
// 100 paths each, or they are in 100 domains.
func BenchmarkMatch(b *testing.B) {
	for _, domains := range []int{1, 100} {
		b.Run(fmt.Sprintf("policies=10000/domains=%d", domains), func(b *testing.B) {
			x := index(b, manyRules(10_000, domains)...)
			req := request("GET h42.example /p7/items/1 x-plan=free")
			req.Domain = "d0"
			dst := make([]matching.Matched, 0, 16)
			if got := len(x.Match(dst, req)); got != 5 {
				b.Fatalf("%d rules match, want 5", got)
			}
			b.ReportAllocs()
			for b.Loop() {
				x.Match(dst, req)
			}
		})
	}
}

// BenchmarkMatchCluster is BenchmarkMatch with five additional cluster rules. Two of them match. Of the two defaults, one
// matches and a rule of the domain replaces the other.
func BenchmarkMatchCluster(b *testing.B) {
	for _, domains := range []int{1, 100} {
		b.Run(fmt.Sprintf("policies=10000/domains=%d", domains), func(b *testing.B) {
			list := []rules.Rule{
				clusterRule("always"), asDefault(onAxis("User", clusterRule("default"))), asDefault(clusterRule("dropped-default")),
				clusterRule("others", "d1", "d2"), clusterRule("path"),
			}
			list[4].Match = path(rules.PathPrefix, "/admin")
			others := manyRules(10_000-len(list), domains)
			others[0] = replacing(others[0], "dropped-default")
			x := index(b, append(list, others...)...)
			req := request("GET h42.example /p7/items/1 x-plan=free")
			req.Domain = "d0"
			dst := make([]matching.Matched, 0, 16)
			if got := len(x.Match(dst, req)); got != 7 {
				b.Fatalf("%d rules match, want 7", got)
			}
			b.ReportAllocs()
			for b.Loop() {
				x.Match(dst, req)
			}
		})
	}
}

// manyRules returns n sorted rules. The first five match the benchmark's request, four of them by host, path or header.
func manyRules(n, domains int) []rules.Rule {
	list := make([]rules.Rule, 0, n)
	add := func(domain int, match rules.Match) {
		r := rule(fmt.Sprintf("d%d/p%05d", domain, len(list)))
		r.Match = match
		list = append(list, r)
	}
	add(0, rules.Match{})
	add(0, rules.Match{Hosts: []string{"*.example"}})
	add(0, header(rules.HeaderMatch{Type: rules.HeaderExact, Name: "x-plan", Value: "free"}))
	add(0, rules.Match{Hosts: []string{"h42.example"}, Paths: path(rules.PathPrefix, "/p7").Paths})
	add(0, rules.Match{Hosts: []string{"h42.example"}, Paths: path(rules.PathPrefix, "/p7/items").Paths, Methods: []string{"GET"}})
	for i := 0; len(list) < n; i++ {
		add(i%domains, rules.Match{
			Hosts: []string{fmt.Sprintf("h%d.example", i/domains%100)},
			Paths: path(rules.PathPrefix, fmt.Sprintf("/q%d", i/domains/100)).Paths,
		})
	}
	slices.SortFunc(list, func(a, b rules.Rule) int { return strings.Compare(a.Policy, b.Policy) })
	return list
}
