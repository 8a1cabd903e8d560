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
