package rules

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/weir-dev/weir/limiter/rules/gzipped"
)

// Manifest lists the shards of a Set by their content. Its revision is the content hash of the manifest, and so of the Set.
type Manifest struct {
	// Revision of the Set.
	Revision string

	named bool     // the data contains the revision
	whole *Sharded // of a format without shards
	body  manifestBody
}

type manifestBody struct {
	Format     int    `json:"format"`
	HashKey    string `json:"hashKey,omitempty"`
	RouteTable *Part  `json:"routeTable,omitempty"`
	// Shards that are not empty, by number.
	Shards []manifestShard `json:"shards"`
}

type manifestShard struct {
	Number int `json:"number"`
	Part
}

// Part identifies the content of a shard or of the table of routes.
type Part struct {
	Hash string `json:"hash"` // SHA-256 of the JSON, in base64 for URLs, without padding
	Size int    `json:"size"` // of the JSON, in bytes
}

const base64Sum = (sha256.Size*8 + 5) / 6 // characters of a hash

// partOf identifies plain, a JSON text.
func partOf(plain []byte) Part {
	sum := sha256.Sum256(plain)
	return Part{base64.RawURLEncoding.EncodeToString(sum[:]), len(plain)}
}

// ErrMissingShard is the error of [Manifest.Assemble] for a shard that the caller does not have.
var ErrMissingShard = errors.New("missing shard")

// DecodeManifest decodes the manifest at the beginning of data, or a whole Set of an older format. It rejects what [Decode] rejects, and a Set whose
// shards have more than 256 MiB together, before a shard is read.
func DecodeManifest(data []byte) (*Manifest, error) {
	m, _, err := decodeManifest(data)
	return m, err
}

// decodeManifest returns also what follows the manifest.
func decodeManifest(data []byte) (m *Manifest, rest []byte, err error) {
	plain, name, rest, err := unpack(data, maxEncoded)
	if err != nil {
		return nil, nil, fmt.Errorf("decode rules: %w", err)
	}
	rev := revision(plain)
	if name != "" && name != rev {
		return nil, nil, fmt.Errorf("decode rules: the data contains revision %q, but its content has revision %s", name, rev)
	}
	m = &Manifest{Revision: rev, named: name != ""}
	if m.body.decode(plain) {
		return m, rest, nil
	}
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(plain, &head); err != nil {
		return nil, nil, fmt.Errorf("decode rules: %w", err)
	}
	switch {
	case head.Format < 1 || head.Format > Format:
		return nil, nil, fmt.Errorf("decode rules: %w %d; this build reads formats 1 to %d", ErrFormat, head.Format, Format)
	case head.Format < FormatSharded:
		var e envelope
		if err := decodeStrictly(plain, &e); err != nil {
			return nil, nil, fmt.Errorf("decode rules: %w", err)
		}
		m.whole = Split(e.Set)
	default:
		if err := decodeStrictly(plain, &m.body); err != nil {
			return nil, nil, fmt.Errorf("decode rules: %w", err)
		}
		if err := m.body.validate(); err != nil {
			return nil, nil, fmt.Errorf("decode rules: %w", err)
		}
	}
	return m, rest, nil
}

// decode decodes a valid manifest without reading its format first, which takes as long again. It reports false for all other data, which must be decoded
// in order of the format.
func (b *manifestBody) decode(plain []byte) bool {
	if !bytes.HasPrefix(plain, []byte(`{"format":4,`)) {
		return false
	}
	found := manifestBody{Shards: make([]manifestShard, 0, ShardCount)}
	strict := json.NewDecoder(bytes.NewReader(plain))
	strict.DisallowUnknownFields()
	if strict.Decode(&found) != nil || strict.InputOffset() != int64(len(plain)) || found.Format != FormatSharded || found.validate() != nil {
		return false
	}
	*b = found
	return true
}

func decodeStrictly(plain []byte, into any) error {
	strict := json.NewDecoder(bytes.NewReader(plain))
	strict.DisallowUnknownFields()
	return strict.Decode(into)
}

func (b *manifestBody) validate() error {
	total, last := 0, -1
	for _, s := range b.Shards {
		if s.Number <= last || s.Number >= ShardCount {
			return fmt.Errorf("the manifest has shard %d after shard %d of %d", s.Number, last, ShardCount)
		}
		last = s.Number
	}
	listed := make(map[string]bool, len(b.Shards)+1)
	var sum, text [base64Sum + 1]byte // longer than what is valid
	for found := range b.parts() {
		valid := len(found.Hash) == base64Sum
		if valid {
			n, err := base64.RawURLEncoding.Decode(sum[:], append(text[:0], found.Hash...))
			valid = err == nil && n == sha256.Size && string(base64.RawURLEncoding.AppendEncode(text[:0], sum[:n])) == found.Hash // the decoder skips line breaks
		}
		if !valid {
			return fmt.Errorf("the manifest has the hash %q, which is no SHA-256 in base64", Shorten(found.Hash))
		}
		if found.Size < 0 || found.Size > maxEncoded-total {
			return fmt.Errorf("the shards exceed %d bytes together", maxEncoded)
		}
		total += found.Size
		if listed[found.Hash] { // names differ between shards: a reader would only read the same content several times
			return fmt.Errorf("the manifest lists the hash %q twice", found.Hash)
		}
		listed[found.Hash] = true
	}
	return nil
}

// parts yields what the manifest lists: the table of routes first.
func (b *manifestBody) parts() iter.Seq[Part] {
	return func(yield func(Part) bool) {
		if b.RouteTable != nil && !yield(*b.RouteTable) {
			return
		}
		for _, s := range b.Shards {
			if !yield(s.Part) {
				return
			}
		}
	}
}

// Hashes yields the hashes of the shards, and of the table of routes. It yields no hashes for a Set of a format without shards.
func (m *Manifest) Hashes() iter.Seq[string] {
	return func(yield func(string) bool) {
		for b := range m.body.parts() {
			if !yield(b.Hash) {
				return
			}
		}
	}
}

// Lacking returns the parts that previous, which can be nil, does not have.
func (m *Manifest) Lacking(previous *Sharded) (parts []Part) {
	if b := m.body.RouteTable; b != nil && previous.heldTable(*b) == nil {
		parts = append(parts, *b)
	}
	for _, listed := range m.body.Shards {
		if previous.heldShard(listed) == nil {
			parts = append(parts, listed.Part)
		}
	}
	return parts
}

// heldTable returns the table of routes if the Set, which can be nil, was decoded from this content, or nil.
func (s *Sharded) heldTable(p Part) *RouteTable {
	if s == nil || s.routeTable.Hash != p.Hash {
		return nil
	}
	return s.RouteTable
}

// heldShard returns a shard if the Set, which can be nil, has decoded it from this content, or nil. The content of a shard belongs to one number.
func (s *Sharded) heldShard(listed manifestShard) *Shard {
	if s == nil || s.Shards[listed.Number] == nil || s.Shards[listed.Number].part.Hash != listed.Hash {
		return nil
	}
	return s.Shards[listed.Number]
}

// Assemble returns the Set of the manifest, from what previous has, which can be nil, and from encoded shards by their hashes. Shards that both Sets
// have are the same pointers. It returns [ErrMissingShard], or an error that names the shard that is damaged.
func (m *Manifest) Assemble(previous *Sharded, encoded map[string][]byte) (*Sharded, error) {
	if m.whole != nil {
		return m.whole, nil
	}
	if previous == nil {
		previous = &Sharded{}
	}
	s := &Sharded{HashKey: m.body.HashKey}
	if b := m.body.RouteTable; b != nil {
		if s.RouteTable = previous.heldTable(*b); s.RouteTable == nil {
			s.RouteTable = new(RouteTable)
			if err := b.decode(encoded, s.RouteTable); err != nil {
				return nil, fmt.Errorf("decode rules: the table of routes: %w", err)
			}
		}
		s.routeTable = *b
	}
	for _, listed := range m.body.Shards {
		shard := previous.heldShard(listed)
		if shard == nil {
			shard = &Shard{part: listed.Part}
			if before := previous.Shards[listed.Number]; before != nil && before.Rules != nil {
				shard.Rules = make([]Rule, 0, len(before.Rules)+1) // to grow to this size copies the rules several times
			}
			if err := listed.decode(encoded, shard); err != nil {
				return nil, fmt.Errorf("decode rules: shard %d: %w", listed.Number, err)
			}
			if err := shard.validate(listed.Number); err != nil {
				return nil, fmt.Errorf("decode rules: shard %d: %w", listed.Number, err)
			}
		}
		s.Shards[listed.Number] = shard
	}
	return s, nil
}

// decode decodes the content that the part identifies. It reads at most as many bytes as the part has.
func (p Part) decode(encoded map[string][]byte, into any) error {
	data, found := encoded[p.Hash]
	if !found {
		return fmt.Errorf("%w %s", ErrMissingShard, p.Hash)
	}
	plain, _, _, err := unpack(data, p.Size)
	if err != nil {
		return err
	}
	if content := partOf(plain); content != p {
		return fmt.Errorf("its content has hash %s and %d bytes, want %s and %d", content.Hash, content.Size, p.Hash, p.Size)
	}
	return decodeStrictly(plain, into)
}

// unpack returns the JSON in data, at most limit bytes, the revision in its header, which can be "", and what follows it.
func unpack(data []byte, limit int) (plain []byte, name string, rest []byte, err error) {
	text, err := gzipped.Decompress(data, limit)
	if err == nil {
		_, err = sequenceOf(text.Header)
	}
	return text.Plain, text.Header.Comment, text.Rest, err
}
