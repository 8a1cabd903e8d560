package accesslog

import (
	"bufio"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
)

// gzipReader reads the members of a gzip file, and ignores zeros after them, as gzip -d does: tapes and archives fill their last block with zeros. Other
// bytes after a member are an error.
type gzipReader struct {
	in     *bufio.Reader
	member *gzip.Reader
}

func newGzip(in *bufio.Reader) (*gzipReader, error) {
	member, err := gzip.NewReader(in)
	if err != nil {
		return nil, err
	}
	member.Multistream(false)
	return &gzipReader{in, member}, nil
}

// Read implements io.Reader.
func (g *gzipReader) Read(p []byte) (int, error) {
	for {
		n, err := g.member.Read(p)
		if !errors.Is(err, io.EOF) {
			return n, err
		}
		if n > 0 {
			return n, nil // the next read is at the end again
		}
		if err := g.skipZeros(); err != nil {
			return 0, err
		}
		if err := g.member.Reset(g.in); err != nil {
			return 0, err
		}
		g.member.Multistream(false)
	}
}

// skipZeros skips zeros. The error is io.EOF at the end of the file.
func (g *gzipReader) skipZeros() error {
	for {
		b, err := g.in.ReadByte()
		switch {
		case err != nil:
			return err
		case b != 0:
			return g.in.UnreadByte()
		}
	}
}
