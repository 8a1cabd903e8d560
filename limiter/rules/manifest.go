package rules

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
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
	RouteTable *blob  `json:"routeTable,omitempty"`
	// Shards that are not empty, by number.
	Shards []manifestShard `json:"shards"`
}

type manifestShard struct {
	Number int `json:"number"`
	blob
}

// blob identifies the content of a shard or of the table of routes.
type blob struct {
	Hash string `json:"hash"` // SHA-256 of the JSON, in base64 for URLs, without padding
	Size int    `json:"size"` // of the JSON, in bytes
}

// blobOf identifies plain, a JSON text.
func blobOf(plain []byte) blob {
	sum := sha256.Sum256(plain)
	return blob{base64.RawURLEncoding.EncodeToString(sum[:]), len(plain)}
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
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(plain, &head); err != nil {
		return nil, nil, fmt.Errorf("decode rules: %w", err)
	}
	m = &Manifest{Revision: rev, named: name != ""}
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
	listed := map[string]bool{}
	for found := range b.blobs() {
		sum, err := base64.RawURLEncoding.DecodeString(found.Hash)
		if err != nil || len(sum) != sha256.Size || base64.RawURLEncoding.EncodeToString(sum) != found.Hash { // the decoder skips line breaks
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

// blobs yields what the manifest lists: the table of routes first.
func (b *manifestBody) blobs() iter.Seq[blob] {
	return func(yield func(blob) bool) {
		if b.RouteTable != nil && !yield(*b.RouteTable) {
			return
		}
		for _, s := range b.Shards {
			if !yield(s.blob) {
				return
			}
		}
	}
}

// Hashes yields the hashes of the shards, and of the table of routes. It yields no hashes for a Set of a format without shards.
func (m *Manifest) Hashes() iter.Seq[string] {
	return func(yield func(string) bool) {
		for b := range m.body.blobs() {
			if !yield(b.Hash) {
				return
			}
		}
	}
}

// Part is a shard or the table of routes in a manifest.
type Part struct {
	Hash string
	Size int // of its JSON, in bytes
}

// Lacking returns the parts that previous, which can be nil, does not have.
func (m *Manifest) Lacking(previous *Sharded) (parts []Part) {
	held := previous.held()
	for b := range m.body.blobs() {
		if _, isHeld := held[b.Hash]; !isHeld {
			parts = append(parts, Part(b))
		}
	}
	return parts
}

// held returns what was decoded of the Set, by hash: a *Shard or a *RouteTable.
func (s *Sharded) held() map[string]any {
	if s == nil {
		return nil
	}
	held := make(map[string]any, ShardCount+1)
	if s.RouteTable != nil && s.routeTable.Hash != "" {
		held[s.routeTable.Hash] = s.RouteTable
	}
	for _, shard := range s.Shards {
		if shard != nil && shard.blob.Hash != "" {
			held[shard.blob.Hash] = shard
		}
	}
	return held
}

// Assemble returns the Set of the manifest, from what previous has, which can be nil, and from encoded shards by their hashes. Shards that both Sets
// have are the same pointers. It returns [ErrMissingShard], or an error that names the shard that is damaged.
func (m *Manifest) Assemble(previous *Sharded, encoded map[string][]byte) (*Sharded, error) {
	if m.whole != nil {
		return m.whole, nil
	}
	held := previous.held()
	s := &Sharded{HashKey: m.body.HashKey}
	if b := m.body.RouteTable; b != nil {
		if table, isTable := held[b.Hash].(*RouteTable); isTable {
			s.RouteTable = table
		} else {
			s.RouteTable = new(RouteTable)
			if err := b.decode(encoded, s.RouteTable); err != nil {
				return nil, fmt.Errorf("decode rules: the table of routes: %w", err)
			}
		}
		s.routeTable = *b
	}
	for _, listed := range m.body.Shards {
		shard, isShard := held[listed.Hash].(*Shard)
		if !isShard {
			shard = &Shard{blob: listed.blob}
			if err := listed.decode(encoded, shard); err != nil {
				return nil, fmt.Errorf("decode rules: shard %d: %w", listed.Number, err)
			}
		}
		if !isShard || previous.Shards[listed.Number] != shard {
			if err := shard.validate(listed.Number); err != nil {
				return nil, fmt.Errorf("decode rules: shard %d: %w", listed.Number, err)
			}
		}
		s.Shards[listed.Number] = shard
	}
	return s, nil
}

// decode decodes the content that the blob identifies. It reads at most as many bytes as the blob has.
func (b blob) decode(encoded map[string][]byte, into any) error {
	data, found := encoded[b.Hash]
	if !found {
		return fmt.Errorf("%w %s", ErrMissingShard, b.Hash)
	}
	plain, _, _, err := unpack(data, b.Size)
	if err != nil {
		return err
	}
	if content := blobOf(plain); content != b {
		return fmt.Errorf("its content has hash %s and %d bytes, want %s and %d", content.Hash, content.Size, b.Hash, b.Size)
	}
	return decodeStrictly(plain, into)
}

// unpack returns the JSON in data, at most limit bytes, the revision in its header, which can be "", and what follows it.
func unpack(data []byte, limit int) (plain []byte, name string, rest []byte, err error) {
	from := bytes.NewReader(data)
	r, err := gzip.NewReader(from)
	if err != nil {
		return nil, "", nil, err
	}
	r.Multistream(false) // the shards of a Set can follow its manifest
	if _, err := sequenceOf(r.Header); err != nil {
		return nil, "", nil, err
	}
	plain, err = io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, "", nil, err
	}
	if len(plain) > limit {
		return nil, "", nil, fmt.Errorf("the decompressed data exceeds %d bytes", limit)
	}
	return plain, r.Comment, data[len(data)-from.Len():], nil
}

// pack compresses a JSON text. The comment in the gzip header is the name of the content, so that a reader can verify it.
func pack(plain []byte, name string) []byte {
	var b bytes.Buffer
	w := writers.Get().(*gzip.Writer) //nolint:forcetypeassert // the pool has no others
	defer writers.Put(w)
	w.Reset(&b)
	w.Comment = name
	_, err := w.Write(plain)
	if err := errors.Join(err, w.Close()); err != nil {
		panic(fmt.Sprintf("rules: compressing to memory: %v", err))
	}
	return b.Bytes()
}

// writers has compressors: each has about a megabyte of tables.
var writers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }} //nolint:gochecknoglobals // a pool is shared
