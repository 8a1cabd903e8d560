package replay

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
)

// maxTop is the number of identifiers in a list.
const maxTop = 100

// top keeps the identifiers with the highest counts. Counts only grow, and the caller has the count of each identifier, so the list is exact: an
// identifier that belongs to it is added with the count that brings it in.
type top struct {
	items  []topItem // a heap, the lowest first
	places map[int]int
}

type topItem struct {
	number     int // of the entry
	count      uint32
	identifier string
}

func newTop() *top { return &top{places: map[int]int{}} }

// set sets the count of an entry, which is higher than before.
func (t *top) set(number int, count uint32, identifier string) {
	if len(t.items) == maxTop && count < t.items[0].count {
		return
	}
	if place, found := t.places[number]; found {
		t.items[place].count = count
		heap.Fix(t, place)
		return
	}
	if len(t.items) == maxTop {
		if count == t.items[0].count { // the first one stays
			return
		}
		delete(t.places, t.items[0].number)
		t.items[0] = topItem{number, count, clip(identifier)}
		t.places[number] = 0
		heap.Fix(t, 0)
		return
	}
	heap.Push(t, topItem{number, count, clip(identifier)})
}

// maxIdentifier is the length of the longest identifier that is kept, in bytes. A client can send one of a megabyte.
const maxIdentifier = 256

// clip returns a copy of an identifier, which ends with "…" if it is too long.
func clip(identifier string) string {
	const more = "…"
	if len(identifier) <= maxIdentifier {
		return strings.Clone(identifier)
	}
	return strings.ToValidUTF8(identifier[:maxIdentifier-len(more)], "") + more
}

// sorted returns the items, the highest count first.
func (t *top) sorted() []topItem {
	items := slices.Clone(t.items)
	slices.SortFunc(items, func(a, b topItem) int {
		return cmp.Or(cmp.Compare(b.count, a.count), strings.Compare(a.identifier, b.identifier))
	})
	return items
}

// The methods below are those of heap.Interface.

func (t *top) Len() int { return len(t.items) }

func (t *top) Less(i, j int) bool { return t.items[i].count < t.items[j].count }

func (t *top) Swap(i, j int) {
	t.items[i], t.items[j] = t.items[j], t.items[i]
	t.places[t.items[i].number], t.places[t.items[j].number] = i, j
}

func (t *top) Push(x any) {
	item, _ := x.(topItem)
	t.places[item.number] = len(t.items)
	t.items = append(t.items, item)
}

func (t *top) Pop() any {
	last := t.items[len(t.items)-1]
	t.items = t.items[:len(t.items)-1]
	delete(t.places, last.number)
	return last
}
