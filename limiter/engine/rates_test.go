package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/bypass"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/store"
)

// rates returns the rules of a policy of 2 units a minute and 3 an hour. Tier pro has 1 unit a day instead, and tier staff is unlimited.
func rates() []rules.Rule {
	minute, hour, day := rule("shop/a:1m", 2), rule("shop/a:1h", 3), rule("shop/a:1d", 0)
	minute.Rate, hour.Rate, day.Rate = "1m", "1h", "1d"
	hour.WindowSeconds, day.WindowSeconds, day.TiersOnly = 3600, 86400, true
	list := []rules.Rule{minute, hour, day}
	for i := range list {
		pro := rules.Tier{Name: "pro", When: rules.When{Groups: []string{"pro"}}, Unlimited: true}
		if list[i].TiersOnly {
			pro.Unlimited, pro.Units = false, 1
		}
		list[i].Tiers = []rules.Tier{pro, {Name: "staff", When: rules.When{Groups: []string{"staff"}}, Unlimited: true}}
	}
	return list
}

func inGroup(group string) *engine.Check {
	c := request(1, acme())
	if group != "" {
		c.Request.Claims = map[string]any{"groups": []any{group}}
	}
	return c
}

// A request counts in all rates of its tier. A denied one counts in no rate, and the strictest comes first.
func TestCheck_CountsInAllRatesOrInNone(t *testing.T) {
	now := epoch()
	e, _ := newLayered(memstore.New(func() time.Time { return now }), engine.SourceMemory, prometheus.NewPedanticRegistry(), store.Layers{})
	e.Swap(index(t, rates()...))
	for i, step := range []struct {
		wait  time.Duration
		group string
		want  string
	}{
		{0, "", "shop/a:1m acme true 1, shop/a:1h acme true 2"},
		{0, "", "shop/a:1m acme true 0, shop/a:1h acme true 1"},
		{0, "", "shop/a:1m acme false 0, shop/a:1h acme true 1"},
		{time.Minute, "", "shop/a:1h acme true 0, shop/a:1m acme true 1"}, // the denied request counted in no window
		{time.Minute, "", "shop/a:1h acme false 0, shop/a:1m acme true 2"},
		{0, "pro", "shop/a:1d acme true 0"},
		{0, "pro", "shop/a:1d acme false 0"},
		{0, "staff", ""},
		{time.Hour, "", "shop/a:1m acme true 1, shop/a:1h acme true 2"},
	} {
		now = now.Add(step.wait)
		answer, err := e.Check(t.Context(), inGroup(step.group))
		if got := strings.Join(lines(answer), ", "); err != nil || got != step.want {
			t.Errorf("step %d: %s, %v, want %s", i, got, err, step.want)
		}
	}
}

// A limit in the request replaces that of each rate. Both then have the same window, and must not share a counter.
func TestCheck_ALimitOfTheRequestCountsOnceInEachRate(t *testing.T) {
	e, _ := newEngine(t, rates()[:2]...)
	check := inGroup("")
	check.Override = &engine.Override{Units: 10, Window: time.Minute}
	for _, remaining := range []string{"9", "8"} {
		answer, err := e.Check(t.Context(), check)
		if diff := cmp.Diff([]string{"shop/a:1h acme true " + remaining, "shop/a:1m acme true " + remaining}, lines(answer)); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

// A bypass and a block are for a policy: one of a single rate would hardly ever help.
func TestCheck_ABypassIsForAllRatesOfAPolicy(t *testing.T) {
	for _, blocks := range []bool{false, true} {
		e, list, _ := withBypasses(t, rates()...)
		_, err := list.Add(bypass.Bypass{
			Name: "b", Policy: "shop/a", Blocks: blocks, Identifier: "acme", Reason: "INC-1", CreatedBy: "jane", CreatedAt: epoch(),
			ExpiresAt: epoch().Add(time.Hour),
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for range 5 {
			answer, err := e.Check(t.Context(), inGroup(""))
			if err != nil || answer.Allowed == blocks {
				t.Fatalf("blocks %t: %+v, %v", blocks, answer, err)
			}
			got = lines(answer)
		}
		var want []string
		if blocks {
			want = []string{"shop/a:1d acme false 0", "shop/a:1h acme false 0", "shop/a:1m acme false 0"}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("blocks %t (-want +got):\n%s", blocks, diff)
		}
	}
}

// BenchmarkCheckSeveralRates compares a policy with two rates with two policies. Both are two charges in one call of the store.
func BenchmarkCheckSeveralRates(b *testing.B) {
	minute, day := rule("shop/a:1m", 1_000_000_000), rule("shop/a:1d", 1_000_000_000)
	minute.Rate, day.Rate, day.WindowSeconds = "1m", "1d", 86400
	minute.Algorithm, day.Algorithm = limiter.SlidingWindowCounter, limiter.SlidingWindowCounter
	first, second := minute, day
	first.Policy, first.Rate, second.Policy, second.Rate = "shop/a", "", "shop/b", ""
	for name, list := range map[string][]rules.Rule{"a policy with two rates": {minute, day}, "two policies": {first, second}} {
		b.Run(name, func(b *testing.B) {
			e, _ := newEngine(b, list...)
			check := request(1, acme())
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Check(b.Context(), check); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
