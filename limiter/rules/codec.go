package rules

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Format is the highest number of the encoding that this build reads, from 1. A reader refuses any other: a limiter that is
// older than its operator keeps serving what it has instead of guessing. A new field needs no new number, for an older
// reader refuses what it does not know; a new value of an old field does.
//
//   - 1: the first.
//   - 2: identifiers from claims, descriptors and expressions, which a reader of 1 would all take for missing.
//   - 3: writes to the Kubernetes API.
//
// A Set is written in the lowest format that says all of it: what an older limiter can honour, it still reads.
const Format = 3

// maxEncoded bounds what Decode unpacks, in bytes: far above 10 000 policies, far below what hurts.
const maxEncoded = 256 << 20

// ErrFormat is wrapped by the error of Decode for a Set written in another format.
var ErrFormat = errors.New("unknown format")

var errNoRevision = errors.New("decode rules: the data does not name its revision")

type envelope struct {
	Format int `json:"format"`
	Set
}

// Encode returns the Set's canonical form (gzip of JSON: the same Set always gives the same bytes) and its revision,
// "sha256:…" of the JSON. The comment of the gzip header names the revision, so that the data proves itself wherever it is
// kept.
func Encode(set Set) (data []byte, rev string) {
	if set.Rules == nil {
		set.Rules = []Rule{}
	}
	plain := mustMarshal(envelope{Format: set.format(), Set: set})
	rev = revision(plain)
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Comment = rev
	_, werr := w.Write(plain)
	if err := errors.Join(werr, w.Close()); err != nil {
		panic(fmt.Sprintf("rules: compressing to memory: %v", err))
	}
	return b.Bytes(), rev
}

// format is the lowest that says all of the Set.
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

// DecodeAs reads the Set that is to have that revision, and refuses any other as Decode refuses what it cannot read.
func DecodeAs(data []byte, rev string) (Set, error) {
	set, content, err := Decode(data)
	if err != nil {
		return Set{}, err
	}
	if content != rev {
		return Set{}, fmt.Errorf("its content is %s", content)
	}
	return set, nil
}

// DecodeNamed is Decode for data that nobody else vouches for, a file say: it refuses data that does not name its revision.
func DecodeNamed(data []byte) (set Set, rev string, err error) {
	set, rev, named, err := read(data)
	if err == nil && !named {
		return Set{}, "", errNoRevision
	}
	return set, rev, err
}

// Decode reads what Encode wrote and returns the Set and its revision. It refuses another format (ErrFormat),
// unknown fields, data that is not whole, and data that names another revision than its content's. Data that names
// none is from before data did.
func Decode(data []byte) (set Set, rev string, err error) {
	set, rev, _, err = read(data)
	return set, rev, err
}

func read(data []byte) (set Set, rev string, named bool, err error) {
	plain, name, err := unpack(data)
	if err != nil {
		return Set{}, "", false, fmt.Errorf("decode rules: %w", err)
	}
	rev = revision(plain)
	if name != "" && name != rev {
		return Set{}, "", false, fmt.Errorf("decode rules: the data names revision %q, its content is %s", name, rev)
	}
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(plain, &head); err != nil {
		return Set{}, "", false, fmt.Errorf("decode rules: %w", err)
	}
	if head.Format < 1 || head.Format > Format {
		return Set{}, "", false, fmt.Errorf("decode rules: %w %d, this build reads 1 to %d", ErrFormat, head.Format, Format)
	}
	var e envelope
	strict := json.NewDecoder(bytes.NewReader(plain))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&e); err != nil {
		return Set{}, "", false, fmt.Errorf("decode rules: %w", err)
	}
	return e.Set, rev, name != "", nil
}

// unpack returns the JSON, and the revision that the data names, "" for none.
func unpack(data []byte) (plain []byte, name string, err error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, "", err
	}
	name = r.Comment
	plain, err = io.ReadAll(io.LimitReader(r, maxEncoded+1))
	if err != nil {
		return nil, "", err
	}
	if len(plain) > maxEncoded {
		return nil, "", fmt.Errorf("larger than %d bytes", maxEncoded)
	}
	return plain, name, nil
}
