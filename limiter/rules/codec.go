package rules

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weir-dev/weir/limiter/rules/gzipped"
)

// Format is the highest format version that this build reads. The lowest is 1. A reader rejects higher versions: a limiter that is older
// than its operator keeps its current rules. A new field needs no new version, because an older reader rejects unknown fields. A new
// value of an existing field needs one.
//
//   - 1: the first version.
//   - 2: identifiers from claims, descriptors and expressions. A reader of version 1 would treat them as missing.
//   - 3: writes to the Kubernetes API.
//   - 4: a manifest and shards, see [Encoder]. A limiter names in its heartbeats that it reads them.
//
// A Set in one document is written in the lowest version that can represent it, so that older limiters read everything that they can enforce.
const Format = FormatSharded

// FormatSharded is the lowest format with shards.
const FormatSharded = 4

// maxEncoded bounds the decompressed size of a Set, in bytes. It is far above the size of 10 000 policies and far below the memory of a
// limiter.
const maxEncoded = 256 << 20

// ErrFormat is the error of Decode for a format version that this build does not read.
var ErrFormat = errors.New("unknown format")

var errNoRevision = errors.New("decode rules: the data does not contain its revision")

type envelope struct {
	Format int `json:"format"`
	Set
}

// Encode returns the canonical form of the Set in one document, which is compressed JSON, and its revision, which is "sha256:…" of the JSON. The same
// Set always has the same bytes. An [Encoder] writes shards instead, which limiters of older versions do not read.
func Encode(set Set) (data []byte, rev string) {
	if set.Rules == nil {
		set.Rules = []Rule{}
	}
	plain := mustMarshal(envelope{Format: set.format(), Set: set})
	rev = revision(plain)
	return gzipped.Compress(plain, rev), rev
}

// format returns the lowest format version that can represent the Set.
func (s Set) format() int {
	format := 1
	for i := range s.Rules {
		if s.Rules[i].Match.Kubernetes != nil {
			return 3
		}
		switch s.Rules[i].Identifier.From {
		case FromClaim, FromDescriptor, FromExpression:
			format = 2
		}
	}
	return format
}

// DecodeAs decodes data like Decode, and returns an error if the revision is not rev.
func DecodeAs(data []byte, rev string) (Set, error) {
	set, content, err := Decode(data)
	if err != nil {
		return Set{}, err
	}
	if content != rev {
		return Set{}, fmt.Errorf("the revision of the data is %s, want %s", content, rev)
	}
	return set, nil
}

// DecodeShards decodes data like Decode, and returns an error if the data does not contain its revision. Use it for data whose revision is not known
// from elsewhere, such as a file.
func DecodeShards(data []byte) (set *Sharded, rev string, err error) {
	m, set, err := read(data)
	if err != nil {
		return nil, "", err
	}
	if !m.named {
		return nil, "", errNoRevision
	}
	return set, m.Revision, nil
}

// Decode decodes the result of [Encode], or of [Encoded.Archive], and returns the Set and its revision. It rejects other format versions
// (ErrFormat), unknown fields, incomplete data, a damaged sequence, and data whose content does not match the revision in it. It accepts data
// without a revision, which older operators wrote.
func Decode(data []byte) (set Set, rev string, err error) {
	m, sharded, err := read(data)
	if err != nil {
		return Set{}, "", err
	}
	return sharded.Set(), m.Revision, nil
}

func read(data []byte) (*Manifest, *Sharded, error) {
	m, rest, err := decodeManifest(data)
	if err != nil {
		return nil, nil, err
	}
	encoded, err := unpackArchive(rest)
	if err != nil {
		return nil, nil, err
	}
	if listed := slices.Collect(m.Hashes()); len(encoded) > len(listed) {
		return nil, nil, fmt.Errorf("decode rules: the data has %d shards, and its manifest lists %d", len(encoded), len(listed))
	}
	set, err := m.Assemble(nil, encoded)
	if err != nil {
		return nil, nil, err
	}
	return m, set, nil
}

// RevisionOf returns the revision that data contains, if data has everything that belongs to it. It does not decode the rules.
func RevisionOf(data []byte) (string, error) {
	m, rest, err := decodeManifest(data)
	if err != nil {
		return "", err
	}
	if !m.named {
		return "", errNoRevision
	}
	encoded, err := unpackArchive(rest)
	if err != nil {
		return "", err
	}
	for hash := range m.Hashes() {
		if _, found := encoded[hash]; !found {
			return "", fmt.Errorf("decode rules: %w %s", ErrMissingShard, hash)
		}
	}
	return m.Revision, nil
}
