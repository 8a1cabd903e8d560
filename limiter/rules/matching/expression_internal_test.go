package matching

import (
	"fmt"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/expr"
)

func TestUpdate_CompilesEachExpressionOnce(t *testing.T) {
	set := func(texts ...string) (s rules.Set) {
		for i, text := range texts {
			s.Rules = append(s.Rules, rules.Rule{
				Policy: fmt.Sprintf("shop/p%d", i), Domain: "shop", Axis: "Tenant", Algorithm: "FixedWindow", Units: 1, WindowSeconds: 60,
				Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant"}, Match: rules.Match{Expression: text},
			})
		}
		return s
	}
	const kept, removed, added = `request.path == "/a"`, `request.path == "/b"`, `request.path == "/c"`
	before, err := NewIndex(set(kept, removed, kept), "1", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	after, err := Update(before, rules.Split(set(added, kept)), "2", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	expression := func(x *Index, policy string) *expr.Expression {
		c, _ := x.RuleOf(policy)
		return c.condition
	}
	if first := expression(before, "shop/p0"); first != expression(before, "shop/p2") || first != expression(after, "shop/p1") {
		t.Error("an expression was compiled again")
	}
	if expression(before, "shop/p1") == expression(after, "shop/p0") {
		t.Error("another expression is the same")
	}
}
