package h2

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// headerBlock collects the fields of a header block. It is reused for all header blocks of a connection.
type headerBlock struct {
	decoder *hpack.Decoder
	kept    []string            // the names of the fields that are kept; nil keeps all
	fields  []hpack.HeaderField // those that are kept
	// size is that of the header list, as SETTINGS_MAX_HEADER_LIST_SIZE counts it.
	size, maxSize int
	// encoded is the number of bytes in the frames of the block.
	encoded   int
	fragments int
	open      bool // fragments are missing
	pseudo    pseudoFields
	length    int64 // content-length, or -1
	regular   bool  // whether a field was no pseudo-header field
	malformed bool
	tooLarge  bool
	// previous is the encoded block, if it consists of references to the tables only: until another block changes these, the same bytes are the
	// same fields. Most blocks of a proxy are like that.
	previous []byte
}

// pseudoFields are the pseudo-header fields of a request.
type pseudoFields struct{ method, path, scheme, authority string }

// maxFragments bounds the CONTINUATION frames of a header block, which may be empty.
const maxFragments = 64

func newHeaderBlock(maxSize int, kept []string) *headerBlock {
	b := &headerBlock{maxSize: maxSize, kept: kept}
	b.decoder = hpack.NewDecoder(tableSize, b.add)
	return b
}

// tableSize is the size of the dynamic table of HPACK, in bytes: the default of HTTP/2.
const tableSize = 4096

// begin starts the next block.
func (b *headerBlock) begin() {
	clear(b.fields) // the strings
	*b = headerBlock{decoder: b.decoder, kept: b.kept, fields: b.fields[:0], maxSize: b.maxSize, length: -1, previous: b.previous[:0]}
	b.decoder.SetEmitEnabled(true)
}

// release frees the fields.
func (b *headerBlock) release() {
	b.begin()
	b.fields = nil
}

// read decodes a fragment of the block. The error is one of the connection: without the fragment, no later block can be decoded.
func (b *headerBlock) read(fragment []byte, last bool) error {
	b.open = !last
	b.fragments++
	b.encoded += len(fragment)
	if b.fragments > maxFragments || b.encoded > 2*b.maxSize {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	if _, err := b.decoder.Write(fragment); err != nil {
		return http2.ConnectionError(http2.ErrCodeCompression)
	}
	if !last {
		return nil
	}
	if err := b.decoder.Close(); err != nil {
		return http2.ConnectionError(http2.ErrCodeCompression)
	}
	if b.fragments == 1 && isReferences(fragment) {
		b.previous = append(b.previous, fragment...)
	}
	return nil
}

// isKnown reports whether a whole block has the fields of the one before it. Then it need not be decoded.
func (b *headerBlock) isKnown(block []byte) bool {
	return len(b.previous) > 0 && bytes.Equal(block, b.previous)
}

// isReferences reports whether each byte of a block is the index of a field. RFC 7541, section 6.1, has the representation.
func isReferences(block []byte) bool {
	for _, b := range block {
		if b <= 0x80 || b == 0xff { // a literal, the size of the table, or the first byte of a large index
			return false
		}
	}
	return true
}

// add collects a field.
func (b *headerBlock) add(f hpack.HeaderField) {
	b.size += int(f.Size())
	b.tooLarge = b.size > b.maxSize
	b.malformed = b.malformed || !httpguts.ValidHeaderFieldValue(f.Value)
	if f.IsPseudo() {
		b.malformed = b.malformed || b.regular || !b.pseudo.set(f.Name, f.Value)
	} else {
		b.regular = true
		b.malformed = b.malformed || !validField(f.Name, f.Value) || f.Name == "content-length" && !b.setLength(f.Value)
		if b.kept == nil || slices.Contains(b.kept, f.Name) {
			b.fields = append(b.fields, f)
		}
	}
	if b.malformed || b.tooLarge {
		b.decoder.SetEmitEnabled(false)
	}
}

// setLength sets the content-length. It reports whether it is a number, and the only one.
func (b *headerBlock) setLength(value string) bool {
	n, err := strconv.ParseUint(value, 10, 63)
	valid := err == nil && (b.length < 0 || b.length == int64(n))
	b.length = int64(n)
	return valid
}

// set sets a field. It reports whether the field is known and was not set before.
func (p *pseudoFields) set(name, value string) bool {
	var field *string
	switch name {
	case ":method":
		field = &p.method
	case ":path":
		field = &p.path
	case ":scheme":
		field = &p.scheme
	case ":authority":
		field = &p.authority
	default:
		return false
	}
	if *field != "" {
		return false
	}
	*field = value
	return true
}

// validField reports whether a request of HTTP/2 can have a field. RFC 9113, section 8.2, has the rules.
func validField(name, value string) bool {
	switch name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		return false
	case "te":
		return value == "trailers"
	}
	return httpguts.ValidHeaderFieldName(name) && strings.ToLower(name) == name
}
