package accesslog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/accesslog/format"
)

// block is a part of a file that ends with a line, and its records.
type block struct {
	file *file
	text string
	line int           // of the first line
	done chan struct{} // closed when it is parsed

	records   []Record // by their start
	unsorted  bool
	order     []moment // in the order of the file
	lines     int
	bad       int64
	reports   []BadLine // of the first bad lines
	skipped   map[format.SkipError]int64
	noIP      int64
	fractions int64 // records whose times are not both whole seconds
	err       error // reading failed after the text
}

// moment is the time of a line.
type moment struct {
	logged int64 // nanoseconds since 1970
	line   int32 // relative to the block
}

// readBlocks reads a file into blocks, which it sends to the workers and, in their order, to queue. It closes queue at the end.
func readBlocks(ctx context.Context, f *file, jobs, queue chan<- *block) {
	defer close(queue)
	defer f.close()
	send := func(b *block) bool {
		b.file, b.done = f, make(chan struct{})
		select {
		case queue <- b:
		case <-ctx.Done():
			return false
		}
		select {
		case jobs <- b:
			return true
		case <-ctx.Done():
			return false
		}
	}
	c := cutter{in: f.reader, line: 1, buffer: make([]byte, 0, blockSize)}
	for {
		b, err := c.next()
		if err != nil && !errors.Is(err, io.EOF) {
			b.err = f.readError(err)
		}
		if b.text != "" || b.bad > 0 || b.err != nil {
			if !send(b) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// cutter cuts a text into blocks of whole lines.
type cutter struct {
	in     io.Reader
	buffer []byte // what has been read and is in no block
	line   int
}

// next returns the next block, also with an error, which is io.EOF at the end. The last line needs no line feed, unless reading it fails.
func (c *cutter) next() (*block, error) {
	for {
		if len(c.buffer) == cap(c.buffer) {
			if len(c.buffer) >= maxLine {
				return c.dropLine()
			}
			c.buffer = slices.Grow(c.buffer, len(c.buffer))
		}
		n, err := c.in.Read(c.buffer[len(c.buffer):cap(c.buffer)])
		c.buffer = c.buffer[:len(c.buffer)+n]
		switch {
		case errors.Is(err, io.EOF):
			return c.cut(len(c.buffer)), err
		case err != nil:
			return c.cut(bytes.LastIndexByte(c.buffer, '\n') + 1), err
		}
		if len(c.buffer) < cap(c.buffer) && len(c.buffer) < blockSize/2 {
			continue
		}
		if end := bytes.LastIndexByte(c.buffer, '\n') + 1; end > 0 {
			return c.cut(end), nil
		}
	}
}

// cut returns the first bytes of the buffer as a block.
func (c *cutter) cut(end int) *block {
	b := &block{text: string(c.buffer[:end]), line: c.line}
	if c.line == 1 {
		b.text = strings.TrimPrefix(b.text, byteOrderMark)
	}
	b.lines = strings.Count(b.text, "\n")
	if b.text != "" && b.text[len(b.text)-1] != '\n' {
		b.lines++
	}
	c.line += b.lines
	rest := copy(c.buffer, c.buffer[end:])
	if c.buffer = c.buffer[:rest]; cap(c.buffer) > 2*blockSize && rest < blockSize {
		c.buffer = append(make([]byte, 0, blockSize), c.buffer...)
	}
	return b
}

// dropLine reads to the end of a line that is too long, and returns a block that reports it.
func (c *cutter) dropLine() (*block, error) {
	b := &block{line: c.line, lines: 1, bad: 1}
	b.reports = []BadLine{{Line: c.line, Reason: fmt.Sprintf("the line is longer than %d bytes", maxLine)}}
	c.line++
	for {
		c.buffer = c.buffer[:cap(c.buffer)]
		n, err := c.in.Read(c.buffer)
		if end := bytes.IndexByte(c.buffer[:n], '\n') + 1; end > 0 {
			c.buffer = append(make([]byte, 0, max(blockSize, n-end)), c.buffer[end:n]...)
			return b, nil // the next read returns the error again
		}
		if err != nil {
			c.buffer = c.buffer[:0]
			return b, err
		}
	}
}

// shortestLine is the length of the shortest line that can be a request, in bytes. A block of shorter lines needs no memory for a record of each.
const shortestLine = 16

// parse sets the records of the block.
func (b *block) parse(p *format.Parser) {
	most := min(b.lines, len(b.text)/shortestLine+1)
	b.records = make([]Record, 0, most)
	b.order = make([]moment, 0, most)
	text := b.text
	for number := 0; text != ""; number++ {
		var line string
		if end := strings.IndexByte(text, '\n'); end >= 0 {
			line, text = text[:end], text[end+1:]
		} else {
			line, text = text, ""
		}
		if line = strings.TrimRight(line, " \t\r"); line == "" {
			b.lines-- // a share of bad lines is one of lines with a text
			continue
		}
		b.parseLine(p, number, line)
	}
	if b.unsorted {
		b.sort()
	}
}

// parseLine adds the records of a line.
func (b *block) parseLine(p *format.Parser, number int, line string) {
	if len(line) > maxLine {
		b.addBad(number, line, fmt.Errorf("the line is longer than %d bytes", maxLine))
		return
	}
	err := b.add(p, number, line)
	if err == nil {
		return
	}
	list, isList := err.(format.ListError) //nolint:errorlint // parsers return it unwrapped
	if !isList {
		b.addBad(number, line, err)
		return
	}
	b.lines += max(len(list)-1, 0) // each event counts as a line
	for _, item := range list {
		if err := b.add(p, number, item); err != nil {
			b.addBad(number, item, err)
		}
	}
}

// add adds the record of a line, or returns why the line has no record.
func (b *block) add(p *format.Parser, number int, line string) error {
	n := len(b.records)
	b.records = slices.Grow(b.records, 1)[:n+1]
	r := &b.records[n]
	err := p.Parse(line, r)
	if err == nil {
		err = checkTime(r)
	}
	if err != nil {
		*r = Record{}
		b.records = b.records[:n]
		return err
	}
	r.File, r.Line = b.file.path, b.line+number
	b.unsorted = b.unsorted || n > 0 && r.Start.Before(b.records[n-1].Start)
	b.order = append(b.order, moment{logged: r.Logged.UnixNano(), line: int32(number)})
	if !r.Request.ClientIP.IsValid() && r.Request.Kubernetes == nil && r.Recorded == nil {
		b.noIP++
	}
	if r.Start.Nanosecond() != 0 && r.Logged.Nanosecond() != 0 {
		b.fractions++
	}
	return nil
}

// endOfTime is the start of the year 2262, in seconds since 1970. Later times, and those before 1970, have no place in a count of nanoseconds.
const endOfTime = 9_214_646_400

// checkTime returns an error for a time that no server has logged.
func checkTime(r *Record) error {
	for _, at := range [...]time.Time{r.Start, r.Logged} {
		if seconds := at.Unix(); seconds < 0 || seconds >= endOfTime {
			return fmt.Errorf("the time %s is not between 1970 and 2262", at.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// addBad counts a line that is no record.
func (b *block) addBad(number int, line string, err error) {
	if skip, ok := err.(format.SkipError); ok { //nolint:errorlint // parsers return it unwrapped
		if b.skipped == nil {
			b.skipped = map[format.SkipError]int64{}
		}
		b.skipped[skip]++
		return
	}
	if b.bad++; len(b.reports) < maxReports {
		b.reports = append(b.reports, BadLine{Line: b.line + number, Text: shorten(line), Reason: err.Error()})
	}
}

// shorten returns a copy of the start of a line.
func shorten(line string) string {
	const most = 200
	if len(line) > most {
		return strings.ToValidUTF8(line[:most], "") + "…"
	}
	return strings.Clone(line)
}

// sort sorts the records by their start. Records are large, so that it sorts their positions.
func (b *block) sort() {
	type key struct {
		start int64
		index int32
	}
	keys := make([]key, len(b.records))
	for i := range b.records {
		keys[i] = key{b.records[i].Start.UnixNano(), int32(i)}
	}
	slices.SortFunc(keys, func(x, y key) int { return cmp.Or(cmp.Compare(x.start, y.start), cmp.Compare(x.index, y.index)) })
	sorted := make([]Record, len(b.records))
	for i, k := range keys {
		sorted[i] = b.records[k.index]
	}
	b.records = sorted
}
