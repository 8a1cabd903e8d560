package matching

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/pattern"
)

// Rules with the same first entry, such as those of an imported configuration, must not be compared one by one.
func TestMatch_ComparesOnlyRulesWithAValueOfTheDescriptor(t *testing.T) {
	const n = 100
	var list []rules.Rule
	add := func(kind string, i int, match ...rules.DescriptorMatch) {
		list = append(list, rules.Rule{
			Policy: fmt.Sprintf("shop/%s%02d", kind, i), Domain: "shop", Axis: "Tenant", Identifier: rules.Identifier{From: rules.FromDescriptor, Name: "tenant"},
			Algorithm: "FixedWindow", Units: 1, WindowSeconds: 60, Match: rules.Match{Descriptors: match},
		})
	}
	for i := range n {
		add("a", i, rules.DescriptorMatch{Key: "tenant"}, rules.DescriptorMatch{Key: "path", Value: fmt.Sprint("/", i)})
	}
	for i := range n {
		add("b", i, rules.DescriptorMatch{Key: "tenant", Value: fmt.Sprint("t", i)}, rules.DescriptorMatch{Key: "path", Value: "/7"})
	}
	for i := range n {
		add("c", i, rules.DescriptorMatch{Key: "tenant"}, rules.DescriptorMatch{Key: "path", Pattern: "/*"}, rules.DescriptorMatch{Key: "method", Value: strconv.Itoa(i)})
	}
	add("d", 0, rules.DescriptorMatch{Key: "tenant"}, rules.DescriptorMatch{Key: "path"})
	x, err := NewIndex(rules.Set{Rules: list}, "", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		descriptor        rules.Descriptor
		compared, matched int
	}{
		"a value of the second entry":         {rules.Descriptor{{Key: "tenant", Value: "x"}, {Key: "path", Value: "/7"}}, 2, 2},
		"values of both entries":              {rules.Descriptor{{Key: "tenant", Value: "t3"}, {Key: "path", Value: "/7"}}, 3, 3},
		"the value of the first entry only":   {rules.Descriptor{{Key: "tenant", Value: "t3"}, {Key: "path", Value: "/8x"}}, 2, 1},
		"values of no rule":                   {rules.Descriptor{{Key: "tenant", Value: "x"}, {Key: "path", Value: "x"}}, 1, 1},
		"the value of the third entry":        {rules.Descriptor{{Key: "tenant", Value: "x"}, {Key: "path", Value: "/x"}, {Key: "method", Value: "5"}}, 1, 1},
		"a value at another position":         {rules.Descriptor{{Key: "path", Value: "/7"}, {Key: "tenant", Value: "x"}}, 0, 0},
		"a number of entries without rules":   {rules.Descriptor{{Key: "tenant", Value: "x"}}, 0, 0},
		"more entries than those of any rule": {rules.Descriptor{{Key: "tenant", Value: "x"}, {Key: "path", Value: "/7"}, {Key: "method", Value: "5"}, {Key: "a", Value: "b"}}, 0, 0},
		"a descriptor without entries":        {rules.Descriptor{}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := &rules.Request{Domain: "shop", Descriptors: []rules.Descriptor{tc.descriptor}}
			s := search{index: x, request: r, kind: r.Kind(), steps: pattern.MaxSteps}
			s.findInDomains()
			if s.compared != tc.compared || len(s.found) != tc.matched {
				t.Errorf("%d rules were compared, %d matched, want %d and %d", s.compared, len(s.found), tc.compared, tc.matched)
			}
		})
	}
}
