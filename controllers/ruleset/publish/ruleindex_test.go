package publish

import (
	"strconv"
	"testing"
)

func TestRuleIndex_RemovesTheLeastRecentlyUsedSet(t *testing.T) {
	var x ruleIndex
	for i := range maxIndexedSets {
		x.add(strconv.Itoa(i), map[string]string{"shop/x": strconv.Itoa(i)})
	}
	if rules, ok := x.get("0"); !ok || rules["shop/x"] != "0" {
		t.Fatalf("the first set: %v, %v", rules, ok)
	}
	x.add("new", nil)
	if _, ok := x.get("1"); ok {
		t.Error("the least recently used set is still in the index")
	}
	for _, revision := range []string{"0", "2", "new"} {
		if _, ok := x.get(revision); !ok {
			t.Errorf("set %s is not in the index any more", revision)
		}
	}
}

// The copy in Redis can be damaged. A set that was just compiled is correct.
func TestRuleIndex_ReplacesTheRulesOfASet(t *testing.T) {
	var x ruleIndex
	x.add("a", nil)
	x.add("b", map[string]string{"shop/x": "b"})
	x.add("a", map[string]string{"shop/x": "a"})
	if rules, ok := x.get("a"); !ok || rules["shop/x"] != "a" {
		t.Errorf("%v, %v, want the rules that were added last", rules, ok)
	}
	for i := range maxIndexedSets - 2 {
		x.add(strconv.Itoa(i), nil)
	}
	if _, ok := x.get("b"); !ok {
		t.Error("a set was removed although the index was not full")
	}
}
