package matching

import (
	"fmt"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/expr"
)

func TestNewIndex_CompilesEachExpressionOnce(t *testing.T) {
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
	before, err := NewIndex(set(kept, removed), "1", "weir:", WithExpressionsOf(nil))
	if err != nil {
		t.Fatal(err)
	}
	after, err := NewIndex(set(added, kept), "2", "weir:", WithExpressionsOf(before))
	if err != nil {
		t.Fatal(err)
	}
	key := func(text string) expr.Key {
		return expr.Key{Language: expr.HTTP, Text: text, Result: expr.ResultBool}
	}
	if e := after.expressions[key(kept)]; e == nil || e != before.expressions[key(kept)] {
		t.Error("an expression of the previous index was compiled again")
	}
	if len(after.expressions) != 2 || after.expressions[key(added)] == nil {
		t.Errorf("%d expressions, want the 2 of the new set", len(after.expressions))
	}
}
