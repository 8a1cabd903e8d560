package rules

import (
	"fmt"
	"strconv"
	"testing"
)

// Rules with the same first entry, such as those of an imported configuration, must not be compared one by one.
func TestMatch_ComparesOnlyRulesWithAValueOfTheDescriptor(t *testing.T) {
	const n = 100
	var list []Rule
	add := func(kind string, i int, match ...DescriptorMatch) {
		list = append(list, Rule{
			Policy: fmt.Sprintf("shop/%s%02d", kind, i), Domain: "shop", Axis: "Tenant", Identifier: Identifier{From: FromDescriptor, Name: "tenant"},
			Algorithm: "FixedWindow", Units: 1, WindowSeconds: 60, Match: Match{Descriptors: match},
		})
	}
	for i := range n {
		add("a", i, DescriptorMatch{Key: "tenant"}, DescriptorMatch{Key: "path", Value: fmt.Sprint("/", i)})
	}
	for i := range n {
		add("b", i, DescriptorMatch{Key: "tenant", Value: fmt.Sprint("t", i)}, DescriptorMatch{Key: "path", Value: "/7"})
	}
	for i := range n {
		add("c", i, DescriptorMatch{Key: "tenant"}, DescriptorMatch{Key: "path", Pattern: "/*"}, DescriptorMatch{Key: "method", Value: strconv.Itoa(i)})
	}
	add("d", 0, DescriptorMatch{Key: "tenant"}, DescriptorMatch{Key: "path"})
	x, err := NewIndex(Set{Rules: list}, "", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		descriptor        Descriptor
		compared, matched int
	}{
		"a value of the second entry":         {Descriptor{{Key: "tenant", Value: "x"}, {Key: "path", Value: "/7"}}, 2, 2},
		"values of both entries":              {Descriptor{{Key: "tenant", Value: "t3"}, {Key: "path", Value: "/7"}}, 3, 3},
		"the value of the first entry only":   {Descriptor{{Key: "tenant", Value: "t3"}, {Key: "path", Value: "/8x"}}, 2, 1},
		"values of no rule":                   {Descriptor{{Key: "tenant", Value: "x"}, {Key: "path", Value: "x"}}, 1, 1},
		"the value of the third entry":        {Descriptor{{Key: "tenant", Value: "x"}, {Key: "path", Value: "/x"}, {Key: "method", Value: "5"}}, 1, 1},
		"a value at another position":         {Descriptor{{Key: "path", Value: "/7"}, {Key: "tenant", Value: "x"}}, 0, 0},
		"a number of entries without rules":   {Descriptor{{Key: "tenant", Value: "x"}}, 0, 0},
		"more entries than those of any rule": {Descriptor{{Key: "tenant", Value: "x"}, {Key: "path", Value: "/7"}, {Key: "method", Value: "5"}, {Key: "a", Value: "b"}}, 0, 0},
		"a descriptor without entries":        {Descriptor{}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Request{Domain: "shop", Descriptors: []Descriptor{tc.descriptor}}
			s := search{index: x, request: r, kind: r.kind(), steps: maxPatternSteps}
			s.findInDomains()
			if s.compared != tc.compared || len(s.found) != tc.matched {
				t.Errorf("%d rules were compared, %d matched, want %d and %d", s.compared, len(s.found), tc.compared, tc.matched)
			}
		})
	}
}
