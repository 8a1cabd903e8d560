// Package persistent has collections whose versions share memory: a change copies the part that it changes, not the collection. A copy of a Map or a
// Sorted is a version of it. The readers of one version do not see the changes of another one, and need no locks.
package persistent

import (
	"hash/maphash"
	"iter"
	"slices"
)

// Version numbers the versions of a collection. Changes with a number change in place what the same number has copied, and copy everything else
// before they change it. So each version needs a higher number than the version that it was copied from, and must not change after it was copied.
type Version uint64

// Map maps keys to values. The zero value is empty.
type Map[K comparable, V any] struct {
	few     []entry[K, V] // all entries, if there are no pages
	pages   []page[K, V]  // nil while a search through few is faster
	mask    uint32        // of a hash: the number of buckets, a power of two, minus 1
	length  uint32
	version Version // of the slice pages
}

// page is what a change copies, in addition to one bucket and the list of pages.
type page[K comparable, V any] struct {
	buckets [][]entry[K, V] // at most pageSize
	version Version
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

const (
	pageSize  = 64 // buckets
	maxFew    = 8  // entries that are searched one by one
	maxLoad   = 4  // entries of an average bucket
	leastSize = 4  // buckets
)

// seed is random: the authors of policies choose keys, and must not choose the bucket.
var seed = maphash.MakeSeed() //nolint:gochecknoglobals // is constant

// Len returns the number of entries.
func (m *Map[K, V]) Len() int { return int(m.length) }

// Get returns the value of a key, the zero value without one.
func (m *Map[K, V]) Get(key K) (value V) {
	bucket := m.few
	if m.pages != nil {
		n := m.hash(key)
		bucket = m.pages[n/pageSize].buckets[n%pageSize]
	}
	for i := range bucket {
		if bucket[i].key == key {
			return bucket[i].value
		}
	}
	return value
}

// hash returns the number of the bucket of a key.
func (m *Map[K, V]) hash(key K) uint32 { return uint32(maphash.Comparable(seed, key)) & m.mask }

// Keys yields the keys, in no particular order.
func (m *Map[K, V]) Keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		for bucket := range m.buckets() {
			for i := range bucket {
				if !yield(bucket[i].key) {
					return
				}
			}
		}
	}
}

func (m *Map[K, V]) buckets() iter.Seq[[]entry[K, V]] {
	return func(yield func([]entry[K, V]) bool) {
		if m.pages == nil {
			yield(m.few)
			return
		}
		for _, p := range m.pages {
			for _, bucket := range p.buckets {
				if !yield(bucket) {
					return
				}
			}
		}
	}
}

// Set sets the value of a key.
func (m *Map[K, V]) Set(version Version, key K, value V) {
	bucket := m.edit(version, key)
	if at := indexOf(*bucket, key); at >= 0 {
		*bucket = slices.Clone(*bucket)
		(*bucket)[at].value = value
		return
	}
	longer := make([]entry[K, V], len(*bucket)+1)
	copy(longer, *bucket)
	longer[len(*bucket)] = entry[K, V]{key, value}
	*bucket = longer
	m.length++
	switch {
	case m.pages == nil && m.length > maxFew:
		m.resize(version, leastSize)
	case m.pages != nil && m.length > maxLoad*(m.mask+1):
		m.resize(version, 2*(m.mask+1))
	}
}

// Delete deletes a key, if the map has it.
func (m *Map[K, V]) Delete(version Version, key K) {
	bucket := m.edit(version, key)
	at := indexOf(*bucket, key)
	if at < 0 {
		return
	}
	*bucket = slices.Concat((*bucket)[:at], (*bucket)[at+1:])
	m.length--
	if m.pages != nil && m.length < m.mask+1 {
		m.resize(version, (m.mask+1)/2)
	}
}

func indexOf[K comparable, V any](bucket []entry[K, V], key K) int {
	return slices.IndexFunc(bucket, func(e entry[K, V]) bool { return e.key == key })
}

// edit returns the bucket of a key where the caller can replace it.
func (m *Map[K, V]) edit(version Version, key K) *[]entry[K, V] {
	if m.pages == nil {
		return &m.few
	}
	if m.version != version {
		m.pages, m.version = slices.Clone(m.pages), version
	}
	n := m.hash(key)
	p := &m.pages[n/pageSize]
	if p.version != version {
		p.buckets, p.version = slices.Clone(p.buckets), version
	}
	return &p.buckets[n%pageSize]
}

// resize changes the number of buckets, a power of two.
func (m *Map[K, V]) resize(version Version, buckets uint32) {
	all := slices.Concat(slices.Collect(m.buckets())...)
	if buckets < leastSize {
		m.few, m.pages = all, nil
		return
	}
	m.few, m.mask, m.version = nil, buckets-1, version
	m.pages = make([]page[K, V], (buckets+pageSize-1)/pageSize)
	for i := range m.pages {
		m.pages[i] = page[K, V]{make([][]entry[K, V], min(buckets, pageSize)), version}
	}
	lengths := make([]int, buckets)
	for i := range all {
		lengths[m.hash(all[i].key)]++
	}
	for i := range all {
		n := m.hash(all[i].key)
		bucket := &m.pages[n/pageSize].buckets[n%pageSize]
		if *bucket == nil {
			*bucket = make([]entry[K, V], 0, lengths[n])
		}
		*bucket = append(*bucket, all[i])
	}
}
