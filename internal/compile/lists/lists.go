// Package lists keeps lists in order, and compares them.
package lists

import "slices"

// few is the number of elements that are inserted into a list, or removed from it, one by one.
const few = 16

// Replace removes the elements of gone from a sorted list, which must have them, and adds others. It changes list. A few changes take time for
// the memory that moves, and not for comparisons with all elements.
func Replace[T comparable](list, gone, added []T, compare func(a, b T) int) []T {
	if len(gone)+len(added) > few {
		isGone := make(map[T]bool, len(gone))
		for _, element := range gone {
			isGone[element] = true
		}
		if len(gone) > 0 {
			list = slices.DeleteFunc(list, func(element T) bool { return isGone[element] })
		}
		list = append(list, added...)
		slices.SortStableFunc(list, compare)
		return list
	}
	for _, element := range gone {
		i, _ := slices.BinarySearchFunc(list, element, compare)
		for list[i] != element { // of those that are equal in order
			i++
		}
		list = slices.Delete(list, i, i+1)
	}
	for _, element := range added {
		i, _ := slices.BinarySearchFunc(list, element, compare)
		list = slices.Insert(list, i, element)
	}
	return list
}

// Stable sorts a list. Elements that are equal in order keep it. It takes linear time for a list that is sorted.
func Stable[T any](list []T, compare func(a, b T) int) {
	if !slices.IsSortedFunc(list, compare) {
		slices.SortStableFunc(list, compare)
	}
}

// Filter returns the elements for which keep is true.
func Filter[T any](list []T, keep func(T) bool) (kept []T) {
	for _, element := range list {
		if keep(element) {
			kept = append(kept, element)
		}
	}
	return kept
}

// maxAhead is how far Diff looks for an element: behind more elements that are gone, it finds it only by chance.
const maxAhead = 64

// Diff compares two lists that are mostly the same. It returns the indexes of the elements of before that are gone, and of those of after that are added:
// the others are equal, in the same order. An element that has moved is in both.
func Diff[T comparable](before, after []T) (gone, added []int) {
	at := 0 // in before
	for i, element := range after {
		ahead := slices.Index(before[at:min(at+maxAhead, len(before))], element)
		if ahead < 0 {
			added = append(added, i)
			continue
		}
		for range ahead {
			gone, at = append(gone, at), at+1
		}
		at++
	}
	for ; at < len(before); at++ {
		gone = append(gone, at)
	}
	return gone, added
}
