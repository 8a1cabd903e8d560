package matching

import (
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
)

func TestMatch_CountsTheTargetsThatItLooksUp(t *testing.T) {
	x, err := NewIndex(rules.Set{Rules: []rules.Rule{{
		Policy: "shop/a", Domain: "shop", Axis: "Tenant", Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"}, Algorithm: "FixedWindow", Units: 1,
		WindowSeconds: 60, Match: rules.Match{Routes: []rules.Route{{Namespace: "shop", Target: "HTTPRoute/a"}}},
	}}}, "", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	costOf := func(targets ...string) int {
		r := &rules.Request{Domain: "shop"}
		for _, target := range targets {
			r.Descriptors = append(r.Descriptors, rules.Descriptor{{Key: rules.RouteEntry, Value: target}})
		}
		return cost(x, r)
	}
	got := costOf("HTTPRoute/b", "HTTPRoute/c/pay") - costOf()
	if want := len("HTTPRoute/b") + len("HTTPRoute/c/pay") + len("HTTPRoute/c"); got != want {
		t.Errorf("the targets cost %d, want %d", got, want)
	}
}
