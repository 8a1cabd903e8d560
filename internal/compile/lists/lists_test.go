package lists_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weir-dev/weir/internal/compile/lists"
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
		list = lists.Replace(list, gone, added, compare)
		if len(list) != len(exist) || !slices.IsSortedFunc(list, compare) || slices.ContainsFunc(list, func(e *element) bool { return !exist[e] }) {
			t.Fatalf("step %d: the list has %d elements, want %d in order", step, len(list), len(exist))
		}
	}
}

func TestStable_KeepsTheOrderOfEqualElements(t *testing.T) {
	list := []element{{2, 1}, {1, 2}, {2, 3}, {1, 4}}
	lists.Stable(list, func(a, b element) int { return cmp.Compare(a.rank, b.rank) })
	if want := []element{{1, 2}, {1, 4}, {2, 1}, {2, 3}}; !slices.Equal(list, want) {
		t.Errorf("%v, want %v", list, want)
	}
}

func TestFilter_ReturnsTheElementsToKeep(t *testing.T) {
	list := []int{1, 2, 3, 4}
	if even := lists.Filter(list, func(n int) bool { return n%2 == 0 }); !slices.Equal(even, []int{2, 4}) || !slices.Equal(list, []int{1, 2, 3, 4}) {
		t.Errorf("%v of %v", even, list)
	}
}

// What Diff returns leads from one list to the other, whatever they are. Of lists that differ in a few elements, it returns these.
func TestDiff_LeadsFromOneListToTheOther(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	list := []int{}
	for step := range 3000 {
		next, changes := slices.Clone(list), random.IntN(4)
		for range changes {
			at := random.IntN(len(next) + 1)
			switch random.IntN(3) {
			case 0:
				next = slices.Insert(next, at, 10_000+step)
			case 1:
				next = slices.Delete(next, at, min(at+1, len(next)))
			default:
				if at < len(next) {
					next[at] = 20_000 + step
				}
			}
		}
		if isShuffled := random.IntN(50) == 0; isShuffled {
			random.Shuffle(len(next), func(i, j int) { next[i], next[j] = next[j], next[i] })
			changes = len(next)
		}
		gone, added := lists.Diff(list, next)
		var got []int
		for rest, i := list, 0; len(got) < len(next); {
			switch {
			case slices.Contains(added, len(got)):
				got = append(got, next[len(got)])
			case slices.Contains(gone, i):
				rest, i = rest[1:], i+1
			default:
				got, rest, i = append(got, rest[0]), rest[1:], i+1
			}
		}
		if !slices.Equal(got, next) || len(list)-len(gone)+len(added) != len(next) {
			t.Fatalf("step %d: from %v, without %v and with %v, to %v, want %v", step, list, gone, added, got, next)
		}
		if len(gone) > changes || len(added) > changes {
			t.Fatalf("step %d: %d elements are gone and %d added by %d changes: from %v to %v", step, len(gone), len(added), changes, list, next)
		}
		list = next
	}
}

// Lists that have little in common take time in proportion to their length.
func TestDiff_OfOtherLists(t *testing.T) {
	before, after := make([]int, 50_000), make([]int, 50_000)
	for i := range before {
		before[i], after[i] = i, 100_000+i
	}
	if gone, added := lists.Diff(before, after); len(gone) != len(before) || len(added) != len(after) {
		t.Errorf("%d are gone and %d added, want all", len(gone), len(added))
	}
}
