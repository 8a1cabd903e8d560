// Package gzipped compresses texts, and decompresses them up to a bound. It uses compressors and decompressors again: to make one takes longer than most
// texts do.
package gzipped

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Text is a decompressed text.
type Text struct {
	Plain  []byte
	Header gzip.Header
	Rest   []byte // what follows the text in the data
}

// usualSize is the size of a text, in bytes, up to which Decompress reserves the memory that the limit allows.
const usualSize = 32 << 10

// Decompress decompresses the text at the beginning of data. It returns an error if the text has more than limit bytes.
func Decompress(data []byte, limit int) (Text, error) {
	from := bytes.NewReader(data)
	r, err := newReader(from)
	if err != nil {
		return Text{}, err
	}
	defer release(r, from)
	r.Multistream(false)                                                         // another text can follow
	b := bytes.NewBuffer(make([]byte, 0, min(limit, usualSize)+2*bytes.MinRead)) // what ReadFrom needs to find the end
	if _, err := b.ReadFrom(io.LimitReader(r, int64(limit)+1)); err != nil {
		return Text{}, err
	}
	if b.Len() > limit {
		return Text{}, fmt.Errorf("the decompressed data exceeds %d bytes", limit)
	}
	return Text{b.Bytes(), r.Header, data[len(data)-from.Len():]}, nil
}

// Header returns the header of a compressed text.
func Header(data []byte) (gzip.Header, error) {
	from := bytes.NewReader(data)
	r, err := newReader(from)
	if err != nil {
		return gzip.Header{}, err
	}
	defer release(r, from)
	return r.Header, nil
}

// newReader returns a decompressor that has read a header. Release it afterwards.
func newReader(from *bytes.Reader) (*gzip.Reader, error) {
	r := readers.Get().(*gzip.Reader) //nolint:forcetypeassert // the pool has no others
	if err := r.Reset(from); err != nil {
		release(r, from)
		return nil, err
	}
	return r, nil
}

func release(r *gzip.Reader, from *bytes.Reader) {
	from.Reset(nil) // otherwise the data stays in memory
	readers.Put(r)
}

// readers has decompressors: each has 44 KiB of tables.
var readers = sync.Pool{New: func() any { return new(gzip.Reader) }} //nolint:gochecknoglobals // a pool is shared

// Compress compresses a text, and writes the comment into its header.
func Compress(plain []byte, comment string) []byte {
	var b bytes.Buffer
	w := writers.Get().(*gzip.Writer) //nolint:forcetypeassert // the pool has no others
	defer writers.Put(w)
	w.Reset(&b)
	w.Comment = comment
	_, err := w.Write(plain)
	if err := errors.Join(err, w.Close()); err != nil {
		panic(fmt.Sprintf("gzipped: compressing to memory: %v", err))
	}
	return b.Bytes()
}

// writers has compressors: each has about a megabyte of tables.
var writers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }} //nolint:gochecknoglobals // a pool is shared
