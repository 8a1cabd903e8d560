package persistent

import (
	"iter"
	"slices"
)

// Sorted is a sorted list. The functions that its methods receive must compare in one order: the result is negative, 0 or positive if the item is
// before, at or behind what is sought. The zero value is empty.
type Sorted[T comparable] struct {
	chunks  []chunk[T]
	length  int
	version Version // of the slice chunks
}

// chunk is what a change copies, in addition to the list of chunks. It is not empty.
type chunk[T comparable] struct {
	items   []T
	version Version
}

const maxChunk = 128 // items

// Len returns the number of items.
func (s *Sorted[T]) Len() int { return s.length }

// search returns the place of the first item that is not before what is sought, and whether it is what is sought.
func (s *Sorted[T]) search(compare func(T) int) (inChunk, at int, found bool) {
	byItem := func(item T, _ struct{}) int { return compare(item) }
	inChunk, _ = slices.BinarySearchFunc(s.chunks, struct{}{}, func(c chunk[T], _ struct{}) int { return compare(c.items[len(c.items)-1]) })
	if inChunk == len(s.chunks) {
		return inChunk, 0, false
	}
	at, found = slices.BinarySearchFunc(s.chunks[inChunk].items, struct{}{}, byItem)
	return inChunk, at, found
}

// Find returns the item that is sought, the zero value if the list does not have it.
func (s *Sorted[T]) Find(compare func(T) int) (item T) {
	if inChunk, at, found := s.search(compare); found {
		return s.chunks[inChunk].items[at]
	}
	return item
}

// Rank returns the number of items before what is sought, and whether the list has it. Its cost grows with the number of chunks.
func (s *Sorted[T]) Rank(compare func(T) int) (rank int, found bool) {
	inChunk, at, found := s.search(compare)
	for i := range s.chunks[:inChunk] {
		rank += len(s.chunks[i].items)
	}
	return rank + at, found
}

// From yields the items from the one that is sought on.
func (s *Sorted[T]) From(compare func(T) int) iter.Seq[T] {
	return func(yield func(T) bool) {
		inChunk, at, _ := s.search(compare)
		for _, c := range s.chunks[inChunk:] {
			for _, item := range c.items[at:] {
				if !yield(item) {
					return
				}
			}
			at = 0
		}
	}
}

// All yields the items.
func (s *Sorted[T]) All() iter.Seq[T] { return s.From(func(T) int { return 0 }) }

// Insert inserts an item where it is sought, and reports false if the list has one there.
func (s *Sorted[T]) Insert(version Version, item T, compare func(T) int) bool {
	inChunk, at, found := s.search(compare)
	if found {
		return false
	}
	s.edit(version)
	s.length++
	if last := len(s.chunks) - 1; inChunk > last { // behind all others
		if last < 0 || len(s.chunks[last].items) == maxChunk {
			s.chunks = append(s.chunks, chunk[T]{[]T{item}, version})
			return true
		}
		inChunk, at = last, len(s.chunks[last].items)
	}
	c := &s.chunks[inChunk]
	if len(c.items) == maxChunk {
		half := chunk[T]{slices.Clone(c.items[maxChunk/2:]), version}
		*c = chunk[T]{slices.Clone(c.items[:maxChunk/2]), version}
		s.chunks = slices.Insert(s.chunks, inChunk+1, half)
		if at > maxChunk/2 {
			inChunk, at = inChunk+1, at-maxChunk/2
		}
		c = &s.chunks[inChunk]
	}
	c.edit(version)
	c.items = slices.Insert(c.items, at, item)
	return true
}

// Delete deletes the item that is sought, if the list has it.
func (s *Sorted[T]) Delete(version Version, compare func(T) int) {
	inChunk, at, found := s.search(compare)
	if !found {
		return
	}
	s.edit(version)
	s.length--
	c := &s.chunks[inChunk]
	c.edit(version)
	c.items = slices.Delete(c.items, at, at+1)
	if next := inChunk + 1; next < len(s.chunks) && len(c.items)+len(s.chunks[next].items) <= maxChunk/2 {
		c.items = append(c.items, s.chunks[next].items...)
		s.chunks = slices.Delete(s.chunks, next, next+1)
	}
	if len(c.items) == 0 {
		s.chunks = slices.Delete(s.chunks, inChunk, inChunk+1)
	}
}

func (s *Sorted[T]) edit(version Version) {
	if s.version != version {
		s.chunks, s.version = slices.Clone(s.chunks), version
	}
}

func (c *chunk[T]) edit(version Version) {
	if c.version != version {
		c.items, c.version = slices.Clone(c.items), version
	}
}

// Changes yields the items in which two lists differ: those that only previous has, and those that only next has. An item of each that are equal in
// order are yielded together, unless they are the same. Without its partner, an item is yielded with the zero value. It skips what the lists share.
func Changes[T comparable](previous, next *Sorted[T], compare func(a, b T) int) iter.Seq2[T, T] {
	return func(yield func(before, after T) bool) {
		a, b := cursor[T]{chunks: previous.chunks}, cursor[T]{chunks: next.chunks}
		for {
			if a.skipShared(&b) {
				continue
			}
			var before, after T
			switch order := a.compare(&b, compare); {
			case a.isAtEnd() && b.isAtEnd():
				return
			case order < 0:
				before = a.next()
			case order > 0:
				after = b.next()
			default:
				before, after = a.next(), b.next()
			}
			if before != after && !yield(before, after) {
				return
			}
		}
	}
}

// cursor is a place in a list.
type cursor[T comparable] struct {
	chunks []chunk[T] // the rest
	at     int        // in the first chunk
}

func (c *cursor[T]) isAtEnd() bool { return len(c.chunks) == 0 }

func (c *cursor[T]) item() T { return c.chunks[0].items[c.at] }

func (c *cursor[T]) next() T {
	item := c.item()
	if c.at++; c.at == len(c.chunks[0].items) {
		c.chunks, c.at = c.chunks[1:], 0
	}
	return item
}

// skipShared skips a chunk if both lists have it.
func (c *cursor[T]) skipShared(other *cursor[T]) bool {
	if c.isAtEnd() || other.isAtEnd() || c.at != 0 || other.at != 0 {
		return false
	}
	own, others := c.chunks[0].items, other.chunks[0].items
	if &own[0] != &others[0] || len(own) != len(others) {
		return false
	}
	c.chunks, other.chunks = c.chunks[1:], other.chunks[1:]
	return true
}

// compare compares the items at the cursors. The end is behind all items.
func (c *cursor[T]) compare(other *cursor[T], compare func(a, b T) int) int {
	switch {
	case c.isAtEnd():
		return 1
	case other.isAtEnd():
		return -1
	default:
		return compare(c.item(), other.item())
	}
}
