package rules

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/weir-dev/weir/limiter/rules/gzipped"
)

// Encoder encodes successive Sets in shards. It encodes only the shards that differ from those of the Set before. The zero value is ready to use.
type Encoder struct {
	shards     [ShardCount]encodedShard
	routeTable *RouteTable
	table      packed
}

// Encoded is a Set in the canonical form of shards: the same Set always has the same revision.
type Encoded struct {
	// Revision is "sha256:…" of the manifest.
	Revision string
	// Data is the encoded manifest, or the whole Set in one document, see [Whole].
	Data []byte
	// Whole is true if Data is the whole Set.
	Whole bool
	// Shards are the encoded shards, and the table of routes, by hash.
	Shards map[string][]byte
}

// encodedShard is what a shard was encoded from, and the result.
type encodedShard struct {
	revisions  []string // of its rules
	namespaces []Namespace
	byAge      map[string][]string
	packed     packed
}

// packed is a compressed JSON text.
type packed struct {
	part Part
	data []byte
}

func packContent(v any) packed {
	plain := mustMarshal(v)
	b := partOf(plain)
	return packed{b, gzipped.Compress(plain, "")}
}

// Whole returns the Set in one document, for limiters that read no shards.
func Whole(set Set) Encoded {
	data, revision := Encode(set)
	return Encoded{Revision: revision, Data: data, Whole: true}
}

// Encode encodes a Set whose rules are sorted. revisionOf returns the [Rule.Revision] of rule i, or any other text that is equal for equal rules only.
func (e *Encoder) Encode(set Set, revisionOf func(i int) string) Encoded {
	next := split(set, revisionOf)
	body := manifestBody{Format: FormatSharded, HashKey: set.HashKey, Shards: []manifestShard{}}
	encoded := Encoded{Shards: map[string][]byte{}}
	if set.RouteTable != nil {
		if e.routeTable == nil || set.RouteTable != e.routeTable && !reflect.DeepEqual(set.RouteTable, e.routeTable) {
			e.table = packContent(set.RouteTable)
		}
		body.RouteTable = &e.table.part
		encoded.Shards[e.table.part.Hash] = e.table.data
	}
	e.routeTable = set.RouteTable
	for number := range next {
		to, content := &e.shards[number], &next[number]
		if content.isEmpty() {
			*to = encodedShard{}
			continue
		}
		if !content.equals(to) {
			shard := Shard{Namespaces: content.namespaces, ByAge: content.byAge}
			for _, i := range content.rules {
				shard.Rules = append(shard.Rules, set.Rules[i])
			}
			*to = encodedShard{slices.Clone(content.revisions), content.namespaces, content.byAge, packContent(shard)}
		}
		body.Shards = append(body.Shards, manifestShard{number, to.packed.part})
		encoded.Shards[to.packed.part.Hash] = to.packed.data
	}
	plain := mustMarshal(body)
	encoded.Revision = revision(plain)
	encoded.Data = gzipped.Compress(plain, encoded.Revision)
	return encoded
}

// shardContent is what belongs to one shard.
type shardContent struct {
	rules      []int32 // indexes of Set.Rules
	revisions  []string
	namespaces []Namespace
	byAge      map[string][]string
}

func split(set Set, revisionOf func(i int) string) *[ShardCount]shardContent {
	next := new([ShardCount]shardContent)
	numbers, counts := make([]uint8, len(set.Rules)), [ShardCount]int{}
	for i := range set.Rules {
		number := ShardOf(set.Rules[i].PolicyName())
		numbers[i] = uint8(number)
		counts[number]++
	}
	indexes, revisions := make([]int32, len(set.Rules)), make([]string, len(set.Rules)) // of all shards, one after the other
	first := 0
	for number, n := range counts {
		next[number].rules, next[number].revisions = indexes[first:first:first+n], revisions[first:first:first+n]
		first += n
	}
	for i, number := range numbers {
		to := &next[number]
		to.rules, to.revisions = append(to.rules, int32(i)), append(to.revisions, revisionOf(i))
	}
	for i := range set.Namespaces {
		to := &next[ShardOf(set.Namespaces[i].Name)]
		to.namespaces = append(to.namespaces, set.Namespaces[i])
	}
	for scope, names := range set.ByAge {
		to := &next[ShardOf(scope)]
		if to.byAge == nil {
			to.byAge = map[string][]string{}
		}
		to.byAge[scope] = names
	}
	return next
}

func (c *shardContent) isEmpty() bool { return len(c.rules)+len(c.namespaces)+len(c.byAge) == 0 }

func (c *shardContent) equals(e *encodedShard) bool {
	return slices.Equal(c.revisions, e.revisions) && maps.EqualFunc(c.byAge, e.byAge, slices.Equal) &&
		slices.EqualFunc(c.namespaces, e.namespaces, func(a, b Namespace) bool {
			return a.Name == b.Name && a.Tenant == b.Tenant && maps.Equal(a.Labels, b.Labels)
		})
}

// DecodeEncoded decodes an archive, or a whole Set, like [Decode]. It also returns the parts of the archive.
func DecodeEncoded(data []byte) (Set, Encoded, error) {
	m, rest, err := decodeManifest(data)
	if err != nil {
		return Set{}, Encoded{}, err
	}
	shards, err := unpackArchive(rest)
	if err != nil {
		return Set{}, Encoded{}, err
	}
	set, err := m.Assemble(nil, shards)
	if err != nil {
		return Set{}, Encoded{}, err
	}
	return set.Set(), Encoded{Revision: m.Revision, Data: data[:len(data)-len(rest)], Whole: m.whole != nil, Shards: shards}, nil
}

// Archive returns the manifest with its shards, in their order, or the whole Set, for [Decode].
func (e *Encoded) Archive() ([]byte, error) {
	if e.Whole {
		return e.Data, nil
	}
	return Archive(e.Data, e.Shards)
}

// Archive returns the encoded manifest with its shards, in their order, for [Decode]. It returns [ErrMissingShard] if a shard is missing.
func Archive(manifest []byte, shards map[string][]byte) ([]byte, error) {
	m, err := DecodeManifest(manifest)
	if err != nil {
		return nil, err
	}
	archive := slices.Clone(manifest)
	for hash := range m.Hashes() {
		data, found := shards[hash]
		if !found {
			return nil, fmt.Errorf("decode rules: %w %s", ErrMissingShard, hash)
		}
		archive = append(archive, data...)
	}
	return archive, nil
}

// unpackArchive returns the shards that follow a manifest, by hash. They are not verified.
func unpackArchive(rest []byte) (map[string][]byte, error) {
	shards := map[string][]byte{}
	left := maxEncoded
	for len(rest) > 0 {
		plain, _, after, err := unpack(rest, left)
		if err != nil {
			return nil, fmt.Errorf("decode rules: shard %d of the archive: %w", len(shards), err)
		}
		left -= len(plain)
		shards[partOf(plain).Hash] = bytes.Clone(rest[:len(rest)-len(after)])
		rest = after
	}
	return shards, nil
}
