package persistent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestMap_EveryVersionKeepsItsEntries(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		versions := []Map[string, int]{{}}
		wants := []map[string]int{{}}
		most := rapid.SampledFrom([]int{5, 50, 2000}).Draw(rt, "keys")
		for number := range rapid.IntRange(1, 8).Draw(rt, "versions") {
			from := rapid.IntRange(0, len(versions)-1).Draw(rt, "from")
			m, want := versions[from], maps.Clone(wants[from])
			version := Version(number + 1)
			for range rapid.IntRange(0, 2*most).Draw(rt, "changes") {
				key := fmt.Sprint("k", rapid.IntRange(0, most).Draw(rt, "key"))
				if rapid.IntRange(0, 9).Draw(rt, "deletes") < 4 {
					m.Delete(version, key)
					delete(want, key)
				} else {
					m.Set(version, key, number+1)
					want[key] = number + 1
				}
			}
			versions, wants = append(versions, m), append(wants, want)
		}
		for i := range versions {
			got := map[string]int{}
			for j := range most + 1 {
				if value := versions[i].Get(fmt.Sprint("k", j)); value != 0 {
					got[fmt.Sprint("k", j)] = value
				}
			}
			keys, wantKeys := slices.Sorted(versions[i].Keys()), slices.Sorted(maps.Keys(wants[i]))
			if !maps.Equal(got, wants[i]) || !slices.Equal(keys, wantKeys) || versions[i].Len() != len(wants[i]) {
				rt.Fatalf("version %d has %d entries %v, want %v", i, versions[i].Len(), got, wants[i])
			}
		}
	})
}

// A map that was large is not slower than one that never was.
func TestMap_ShrinksToFewEntries(t *testing.T) {
	var m Map[int, int]
	for i := range 10_000 {
		m.Set(1, i, i)
	}
	if buckets := int(m.mask) + 1; buckets < 10_000/maxLoad || buckets > 10_000 || len(m.pages) != buckets/pageSize {
		t.Errorf("%d buckets in %d pages", buckets, len(m.pages))
	}
	for i := range 9_997 {
		m.Delete(2, i)
	}
	if m.pages != nil || len(m.few) != 3 || m.Len() != 3 {
		t.Errorf("%d pages and %d entries", len(m.pages), len(m.few))
	}
}

func TestMap_AChangeCopiesOnePage(t *testing.T) {
	var m Map[int, int]
	for i := range 10_000 {
		m.Set(1, i, i)
	}
	next := m
	next.Set(2, 4711, 1)
	copied := 0
	for i := range m.pages {
		if &m.pages[i].buckets[0] != &next.pages[i].buckets[0] {
			copied++
		}
	}
	if copied != 1 {
		t.Errorf("%d of %d pages are copied", copied, len(m.pages))
	}
}

func TestSorted_EveryVersionKeepsItsItems(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		versions, wants := []Sorted[int]{{}}, [][]int{nil}
		most := rapid.SampledFrom([]int{5, 500, 3000}).Draw(rt, "most")
		for number := range rapid.IntRange(1, 8).Draw(rt, "versions") {
			from := rapid.IntRange(0, len(versions)-1).Draw(rt, "from")
			s, want := versions[from], slices.Clone(wants[from])
			version := Version(number + 1)
			deletes := rapid.IntRange(1, 9).Draw(rt, "deletes")
			for range rapid.IntRange(0, most).Draw(rt, "changes") {
				item := rapid.IntRange(1, most).Draw(rt, "item")
				sought := func(other int) int { return cmp.Compare(other, item) }
				at, found := slices.BinarySearch(want, item)
				if rapid.IntRange(0, 9).Draw(rt, "op") < deletes {
					s.Delete(version, sought)
					if found {
						want = slices.Delete(want, at, at+1)
					}
					continue
				}
				if s.Insert(version, item, sought) == found {
					rt.Fatalf("item %d was inserted: %t", item, found)
				}
				if !found {
					want = slices.Insert(want, at, item)
				}
			}
			versions, wants = append(versions, s), append(wants, want)
		}
		for i := range versions {
			s := &versions[i]
			if got := slices.Collect(s.All()); !slices.Equal(got, wants[i]) || s.Len() != len(got) {
				rt.Fatalf("version %d has %v, want %v", i, got, wants[i])
			}
			for _, c := range s.chunks {
				if len(c.items) == 0 || len(c.items) > maxChunk {
					rt.Fatalf("a chunk has %d items", len(c.items))
				}
			}
			item := rapid.IntRange(0, most+1).Draw(rt, "sought")
			sought := func(other int) int { return cmp.Compare(other, item) }
			at, found := slices.BinarySearch(wants[i], item)
			if got := s.Find(sought); (got == item && item != 0) != found {
				rt.Fatalf("item %d is found: %t", item, !found)
			}
			if rank, isFound := s.Rank(sought); rank != at || isFound != found {
				rt.Fatalf("item %d has rank %d and is found: %t, want %d, %t", item, rank, isFound, at, found)
			}
			if got := slices.Collect(s.From(sought)); !slices.Equal(got, wants[i][at:]) {
				rt.Fatalf("from %d on: %v, want %v", item, got, wants[i][at:])
			}
		}
		a, b := rapid.IntRange(0, len(versions)-1).Draw(rt, "previous"), rapid.IntRange(0, len(versions)-1).Draw(rt, "next")
		checkChanges(rt, &versions[a], &versions[b], wants[a], wants[b])
	})
}

func checkChanges(rt *rapid.T, previous, next *Sorted[int], before, after []int) {
	changed := map[int][2]bool{}
	for old, item := range Changes(previous, next, cmp.Compare) {
		if old != 0 && item != 0 {
			rt.Fatalf("%d is yielded with %d", old, item)
		}
		if old != 0 {
			changed[old] = [2]bool{true, false}
		} else {
			changed[item] = [2]bool{false, true}
		}
	}
	want := map[int][2]bool{}
	for _, item := range before {
		want[item] = [2]bool{true, false}
	}
	for _, item := range after {
		if _, both := want[item]; both {
			delete(want, item)
		} else {
			want[item] = [2]bool{false, true}
		}
	}
	if !maps.Equal(changed, want) {
		rt.Fatalf("changes %v, want %v", changed, want)
	}
}

// The cost of Changes is that of the difference.
func TestChanges_ComparesOnlyWhatIsNotShared(t *testing.T) {
	type item struct{ key, value int }
	var previous Sorted[*item]
	insert := func(s *Sorted[*item], version Version, i *item) {
		s.Insert(version, i, func(other *item) int { return cmp.Compare(other.key, i.key) })
	}
	for i := range 10_000 {
		insert(&previous, 1, &item{2 * i, 1})
	}
	next := previous
	next.Delete(2, func(other *item) int { return cmp.Compare(other.key, 8000) })
	insert(&next, 2, &item{8000, 2})
	insert(&next, 2, &item{4001, 2})
	next.Delete(2, func(other *item) int { return cmp.Compare(other.key, 16_000) })
	compared := 0
	var got []string
	for old, item := range Changes(&previous, &next, func(a, b *item) int {
		compared++
		return cmp.Compare(a.key, b.key)
	}) {
		got = append(got, fmt.Sprint(old, item))
	}
	want := []string{fmt.Sprint((*item)(nil), &item{4001, 2}), fmt.Sprint(&item{8000, 1}, &item{8000, 2}), fmt.Sprint(&item{16_000, 1}, (*item)(nil))}
	if !slices.Equal(got, want) || compared > 4*maxChunk {
		t.Errorf("changes %v after %d comparisons, want %v", got, compared, want)
	}
}

func BenchmarkMap_Get(b *testing.B) {
	for _, n := range []int{1, 8, 100, 10_000} {
		var m Map[string, *int]
		goMap := map[string]*int{}
		for i := range n {
			m.Set(1, fmt.Sprintf("h%d.example", i), new(int))
			goMap[fmt.Sprintf("h%d.example", i)] = new(int)
		}
		key := fmt.Sprintf("h%d.example", n*42/100)
		b.Run(fmt.Sprintf("entries=%d", n), func(b *testing.B) {
			for b.Loop() {
				if m.Get(key) == nil {
					b.Fatal()
				}
			}
		})
		b.Run(fmt.Sprintf("go/entries=%d", n), func(b *testing.B) {
			for b.Loop() {
				if goMap[key] == nil {
					b.Fatal()
				}
			}
		})
	}
}
