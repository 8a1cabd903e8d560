package accesslog

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
)

// listHead is the start of a list of the Kubernetes API, before its first item. The keys are in any order, and other objects have other keys.
var listHead = regexp.MustCompile(`^\{\s*(?:"(?:kind|apiVersion|metadata)"\s*:\s*(?:"[^"\\]*"|\{[^{}]*\})\s*,\s*)*"items"\s*:\s*\[`)

// maxListHead is how long the start of a list can be, in bytes.
const maxListHead = 4 << 10

// errIncomplete is the error of a document that ends inside of a list or an object.
var errIncomplete = errors.New("the JSON ends inside of a list or an object")

// isDocument reports whether a text is JSON that does not have an object on each line: a list, or objects of several lines. Several lines with a list each, as
// a webhook backend writes them, are lines.
func isDocument(head []byte) bool {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte(byteOrderMark)), " \t\r\n")
	switch {
	case len(head) == 0:
		return false
	case head[0] == '[': // lines of Envoy begin so, with a time
		rest := bytes.TrimLeft(head[1:], " \t\r\n")
		return len(rest) > 0 && rest[0] == '{'
	case head[0] != '{':
		return false
	}
	end := bytes.IndexByte(head, '\n')
	if end < 0 || len(bytes.TrimSpace(head[end:])) == 0 { // one line
		return listHead.Match(head[:min(len(head), maxListHead)])
	}
	var d documents
	for _, c := range head[:end] {
		d.inRecord(c)
	}
	rest := bytes.TrimLeft(head[end:], " \t\r\n")
	return d.depth > 0 && !d.inString && len(rest) > 0 && (rest[0] == '"' || rest[0] == '}' || rest[0] == ']' || rest[0] == '[')
}

// documents reads JSON documents, and returns each object on a line: the documents themselves, or the items of a list. An object is on the line on
// which it begins, as long as there is no other one on that line. It keeps no object in memory.
type documents struct {
	in  *bufio.Reader
	out []byte // that Read has not returned yet
	err error  // after out

	within   level
	depth    int // of lists and objects in a record
	inString bool
	escaped  bool
	hasBegun bool // a record
	breaks   int  // line breaks in the record
	surplus  int  // line breaks of the output that are not in the input
}

// level is where in the documents the next byte is.
type level uint8

const (
	betweenDocuments level = iota
	inList
	inItems   // of a list of the Kubernetes API
	afterKeys // after the items
	inGarbage // a line that is no JSON
)

func newDocuments(in io.Reader) *documents {
	d := &documents{in: bufio.NewReaderSize(in, blockSize)}
	if mark, _ := d.in.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = d.in.Discard(len(byteOrderMark)) // they are buffered
	}
	return d
}

// Read implements io.Reader.
func (d *documents) Read(p []byte) (int, error) {
	for len(d.out) == 0 {
		if d.err != nil {
			return 0, d.err
		}
		d.fill()
	}
	n := copy(p, d.out)
	d.out = d.out[:copy(d.out, d.out[n:])]
	return n, nil
}

// fill adds the output for the next part of the input.
func (d *documents) fill() {
	if _, err := d.in.Peek(1); err != nil {
		if d.err = err; errors.Is(err, io.EOF) && (d.hasBegun || d.within != betweenDocuments && d.within != inGarbage) {
			d.err = errIncomplete
		}
		return
	}
	chunk, _ := d.in.Peek(d.in.Buffered()) // as much as there is
	used := 0
	for used < len(chunk) {
		c := chunk[used]
		if d.within == betweenDocuments && !d.hasBegun && c == '{' {
			if used > 0 {
				break // the start of the document is to be at the start of the chunk
			}
			head, _ := d.in.Peek(maxListHead)
			if match := listHead.Find(head); match != nil {
				d.lineBreaks(bytes.Count(match, []byte{'\n'}))
				d.within, used = inItems, len(match)
				chunk = head
				continue
			}
			chunk, _ = d.in.Peek(d.in.Buffered())
		}
		d.next(c)
		used++
	}
	_, _ = d.in.Discard(used) // they are buffered
}

// next reads one byte.
func (d *documents) next(c byte) {
	switch {
	case d.within == afterKeys:
		if d.inRecord(c); c == '\n' {
			d.breaks--
			d.lineBreaks(1)
		}
		if d.depth == 0 {
			d.within = betweenDocuments
		}
	case d.within == inGarbage:
		if c == '\n' {
			d.within = betweenDocuments
		}
		d.out = append(d.out, c)
	case d.hasBegun:
		d.record(c)
	case c == '\n':
		d.lineBreaks(1)
	case c == ' ' || c == '\t' || c == '\r' || c == ',' && d.within != betweenDocuments:
	case c == ']' && d.within != betweenDocuments:
		d.endList()
	case c == '[' && d.within == betweenDocuments:
		d.within = inList
	case c != '{' && d.within == betweenDocuments:
		d.within = inGarbage
		d.out = append(d.out, c)
	default:
		d.hasBegun = true
		d.record(c)
	}
}

// endList is after the last item.
func (d *documents) endList() {
	if d.within == inItems {
		d.within, d.depth = afterKeys, 1
		return
	}
	d.within = betweenDocuments
}

// record adds a byte of a record. One that is neither an object nor a list ends with the item.
func (d *documents) record(c byte) {
	if d.depth == 0 && !d.inString && (c == ',' || c == ']') {
		d.endRecord()
		if c == ']' {
			d.endList()
		}
		return
	}
	wasNested := d.depth > 0
	d.inRecord(c)
	if c == '\n' {
		c = ' ' // in a text, it is invalid
	}
	d.out = append(d.out, c)
	if wasNested && d.depth == 0 {
		d.endRecord()
	}
}

// inRecord follows the nesting of JSON.
func (d *documents) inRecord(c byte) {
	switch {
	case c == '\n':
		d.breaks++
	case d.escaped:
		d.escaped = false
	case d.inString:
		d.escaped, d.inString = c == '\\', c != '"'
	case c == '"':
		d.inString = true
	case c == '{' || c == '[':
		d.depth++
	case c == '}' || c == ']':
		d.depth--
	}
}

// endRecord ends the line of a record, and has as many line breaks as the record.
func (d *documents) endRecord() {
	if d.breaks == 0 {
		d.breaks, d.surplus = 1, d.surplus+1
	}
	d.out = append(d.out, bytes.Repeat([]byte{'\n'}, d.breaks)...)
	d.hasBegun, d.breaks = false, 0
}

// lineBreaks adds line breaks that are between records.
func (d *documents) lineBreaks(n int) {
	skipped := min(n, d.surplus)
	d.surplus -= skipped
	d.out = append(slices.Grow(d.out, n), bytes.Repeat([]byte{'\n'}, n-skipped)...)
}
