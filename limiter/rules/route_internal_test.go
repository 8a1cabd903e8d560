package rules

import "testing"

func TestMatch_CountsTheTargetsThatItLooksUp(t *testing.T) {
	x, err := NewIndex(Set{Rules: []Rule{{
		Policy: "shop/a", Domain: "shop", Axis: "Tenant", Identifier: Identifier{From: FromHeader, Name: "x-tenant-id"}, Algorithm: "FixedWindow", Units: 1,
		WindowSeconds: 60, Match: Match{Routes: []Route{{Namespace: "shop", Target: "HTTPRoute/a"}}},
	}}}, "", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	costOf := func(targets ...string) int {
		r := &Request{Domain: "shop"}
		for _, target := range targets {
			r.Descriptors = append(r.Descriptors, Descriptor{{Key: RouteEntry, Value: target}})
		}
		return cost(x, r)
	}
	got := costOf("HTTPRoute/b", "HTTPRoute/c/pay") - costOf()
	if want := len("HTTPRoute/b") + len("HTTPRoute/c/pay") + len("HTTPRoute/c"); got != want {
		t.Errorf("the targets cost %d, want %d", got, want)
	}
}
