package engine

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// bitmapOf returns the bits without zero bytes at the end.
func bitmapOf(bits []bool) []byte {
	b := make([]byte, (len(bits)+7)/8)
	for i, bit := range bits {
		if bit {
			b[i/8] |= 1 << (i % 8)
		}
	}
	return bytes.TrimRight(b, "\x00")
}

func TestBitmap_IsAListOfBits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var got bitmap
		want := make([]bool, rapid.SampledFrom([]int{1, 8, 9, 100}).Draw(rt, "bits"))
		for range rapid.IntRange(1, 50).Draw(rt, "operations") {
			i := rapid.IntRange(0, len(want)-1).Draw(rt, "number")
			op := rapid.SampledFrom([]string{"set", "set", "clear", "insert", "insert", "remove"}).Draw(rt, "operation")
			switch op {
			case "set":
				got.set(i)
				want[i] = true
			case "clear":
				got.clear(i)
				want[i] = false
			case "insert":
				got.insert(i)
				want = slices.Insert(want, i, false)
			case "remove":
				got.remove(i)
				want = append(slices.Delete(want, i, i+1), false)
			}
			if !bytes.Equal(got, bitmapOf(want)) {
				rt.Fatalf("%s %d: %08b, want %08b", op, i, got, bitmapOf(want))
			}
			if got.has(i) != want[i] {
				rt.Fatalf("%s %d: it is %t, want %t", op, i, got.has(i), want[i])
			}
		}
	})
}

// swapping is a Store during whose calls the rules are swapped.
type swapping struct {
	limiter.Store
	swap func()
}

func (s *swapping) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	s.swap()
	return s.Store.Spend(ctx, charges)
}

// The bits follow the rules through swaps. A rule that stays keeps its bit wherever it moves, also if it decides during the swap. A rule that is replaced
// loses its bit until it decides. A policy has the bit if one of its rates has decided.
func TestDecided_FollowsTheRulesThroughSwaps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := &swapping{Store: memstore.New(time.Now)}
		e := New(s, SourceMemory, NewMetrics(prometheus.NewRegistry()))
		active, decided := map[string]rules.Rule{}, map[string]bool{}
		names := rapid.SampledFrom([]int{3, 30}).Draw(rt, "names")
		draw := func() (name string) {
			prefix := rapid.SampledFrom([]string{"p", "p-b", "q"}).Draw(rt, "prefix")
			return fmt.Sprint("shop/", prefix, rapid.IntRange(0, names).Draw(rt, "policy"))
		}
		edit := func() {
			next := maps.Clone(active)
			for range rapid.IntRange(1, 10).Draw(rt, "edits") {
				name := draw()
				r := policy(name, int64(rapid.IntRange(10_000, 10_002).Draw(rt, "units")))
				r.Match.Headers = []rules.HeaderMatch{{Type: rules.HeaderExact, Name: "policy", Value: name}}
				if rate := rapid.SampledFrom([]string{"", "1h", "1d"}).Draw(rt, "rate"); rate != "" {
					r.Policy, r.Rate, r.WindowSeconds = name+":"+rate, rate, map[string]int64{"1h": 3600, "1d": 86_400}[rate]
				}
				if rapid.Bool().Draw(rt, "removes") {
					delete(next, r.Policy)
				} else {
					next[r.Policy] = r
				}
			}
			for policy := range decided {
				if next[policy].Units != active[policy].Units {
					delete(decided, policy)
				}
			}
			active = next
			list := make([]rules.Rule, 0, len(active))
			for _, rule := range active {
				list = append(list, rule)
			}
			previous := e.Index()
			if rapid.IntRange(0, 9).Draw(rt, "new index") == 0 {
				previous = nil
			}
			x, err := matching.Update(previous, rules.Split(rules.Set{Rules: list}), "r", "weir:")
			if err != nil {
				rt.Fatal(err)
			}
			e.Swap(x)
		}
		check := func() {
			policies, bits := []string{}, []bool{}
			for policy := range active {
				policies = append(policies, rules.WithoutRate(policy))
			}
			slices.Sort(policies)
			for _, name := range slices.Compact(policies) {
				has := false
				for policy := range decided {
					has = has || rules.WithoutRate(policy) == name
				}
				bits = append(bits, has)
			}
			if _, got := e.Decided(); !bytes.Equal(got, bitmapOf(bits)) || got == nil {
				rt.Fatalf("bitmap %08b, want %08b", got, bitmapOf(bits))
			}
			if len(e.decided.rules) != len(decided) {
				rt.Fatalf("%d rules have decided, want %d", len(e.decided.rules), len(decided))
			}
		}
		edit()
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			swaps := rapid.IntRange(0, 3).Draw(rt, "edits during the request")
			if swaps == 0 && rapid.Bool().Draw(rt, "edit") {
				edit()
			}
			name := draw()
			var deciding []rules.Rule
			for policy, rule := range active {
				if policy == name || strings.HasPrefix(policy, name+":") {
					deciding = append(deciding, rule)
				}
			}
			s.swap = func() {
				for range swaps / 2 {
					edit()
				}
				for _, rule := range deciding {
					if active[rule.Policy].Units == rule.Units {
						decided[rule.Policy] = true
					}
				}
			}
			request := rules.Request{Domain: "shop", Path: "/", Headers: map[string]string{"tenant": "acme", "policy": name}}
			answer, err := e.Check(context.Background(), &Check{Cost: 1, Request: request})
			if err != nil || len(answer.Results) != len(deciding) {
				rt.Fatal(answer, err)
			}
			if rapid.Bool().Draw(rt, "reads") {
				check()
			}
		}
		check()
	})
}
