package sorted_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weir-dev/weir/internal/compile/sorted"
)

type element struct{ rank, id int }

// Of elements that are equal in order, Replace removes the one that is gone. Many changes at the same time are the same as few.
func TestReplace_HasTheElementsInOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	compare := func(a, b *element) int { return cmp.Compare(a.rank, b.rank) }
	var list []*element
	exist := map[*element]bool{}
	for step := range 2000 {
		var gone, added []*element
		for e := range exist {
			if len(gone) < random.IntN(20) {
				gone = append(gone, e)
			}
		}
		for range random.IntN(20) {
			added = append(added, &element{random.IntN(10), step})
		}
		for _, e := range gone {
			delete(exist, e)
		}
		for _, e := range added {
			exist[e] = true
		}
		list = sorted.Replace(list, gone, added, compare)
		if len(list) != len(exist) || !slices.IsSortedFunc(list, compare) || slices.ContainsFunc(list, func(e *element) bool { return !exist[e] }) {
			t.Fatalf("step %d: the list has %d elements, want %d in order", step, len(list), len(exist))
		}
	}
}

func TestStable_KeepsTheOrderOfEqualElements(t *testing.T) {
	list := []element{{2, 1}, {1, 2}, {2, 3}, {1, 4}}
	sorted.Stable(list, func(a, b element) int { return cmp.Compare(a.rank, b.rank) })
	if want := []element{{1, 2}, {1, 4}, {2, 1}, {2, 3}}; !slices.Equal(list, want) {
		t.Errorf("%v, want %v", list, want)
	}
}

func TestFilter_ReturnsTheElementsToKeep(t *testing.T) {
	list := []int{1, 2, 3, 4}
	if even := sorted.Filter(list, func(n int) bool { return n%2 == 0 }); !slices.Equal(even, []int{2, 4}) || !slices.Equal(list, []int{1, 2, 3, 4}) {
		t.Errorf("%v of %v", even, list)
	}
}
