package accesslog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/weir-dev/weir/internal/accesslog/format"
)

const (
	// maxLine is the length of the longest line, in bytes. It leaves room for audit events with large objects.
	maxLine = 4 << 20
	// blockSize is the size of the part of a file that is parsed at a time, in bytes. It is larger if a line is longer.
	blockSize = 256 << 10
	// sampleSize is how much of a file shows its format, in bytes, and sampleLines how many lines.
	sampleSize  = 64 << 10
	sampleLines = 64
	// maxZstdMemory bounds what a file can make the decoder allocate, in bytes. It is the largest window of zstd --ultra.
	maxZstdMemory = 128 << 20
)

// stdin is the name of the standard input.
const stdin = "-"

// file is one input.
type file struct {
	path   string
	format format.Format
	sample []string // the first lines
	first  time.Time
	size   int64       // 0 if unknown
	info   fs.FileInfo // nil for the standard input
	index  int         // in Stats.Files

	read    *atomic.Int64 // bytes of the file, as it is stored
	reader  io.Reader     // nil if the file is to be opened again
	closers []func()
	isEmpty bool
	damage  error // of the first lines

	isCompressed bool
	isDocument   bool // see isDocument
}

// expand returns the paths of patterns, each of them once.
func expand(patterns []string) (paths []string, err error) {
	if len(patterns) == 0 {
		return nil, errors.New("no log is given: name files, or - for the standard input")
	}
	add := func(path string) {
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	for _, pattern := range patterns {
		if pattern == stdin {
			add(pattern)
			continue
		}
		if _, err := os.Stat(pattern); err == nil || !strings.ContainsAny(pattern, `*?[`) {
			add(filepath.Clean(pattern))
			continue
		}
		matches, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("%q is an invalid pattern: %w", pattern, err)
		}
		if len(matches) == 0 {
			return nil, fmt.Errorf("no file matches %q", pattern)
		}
		for _, match := range matches {
			add(match)
		}
	}
	return paths, nil
}

func joinPaths(paths []string) string {
	const most = 5
	paths = slices.Clone(paths)
	for i := range paths {
		paths[i] = nameOf(paths[i])
	}
	if len(paths) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(paths[:most], ", "), len(paths)-most)
	}
	return strings.Join(paths, ", ")
}

// openFile reads the first lines of a file and finds its format. A regular file is closed until its lines are next.
func (r *Reader) openFile(ctx context.Context, path string) (*file, error) {
	f := &file{path: path, read: &r.stats.bytes}
	isRegular, err := f.inspect()
	if err != nil {
		return nil, err
	}
	var head []byte
	if isRegular {
		var discarded atomic.Int64
		head, err = f.head(r.options.Stdin, &discarded)
	} else {
		head, err = f.headOfPipe(ctx, r.options.Stdin)
	}
	if err == nil {
		if err = f.detect(&r.options, head); err != nil && f.damage != nil {
			err = f.damage // a part of a line has no format
		}
	}
	if err != nil {
		f.close()
		return nil, err
	}
	if isRegular {
		f.close()
	} else {
		f.reader = io.MultiReader(bytes.NewReader(head), f.reader)
	}
	return f, nil
}

// headOfPipe is head, but ends with ctx. The read then goes on until the other side of the pipe writes or closes it.
func (f *file) headOfPipe(ctx context.Context, stdin io.Reader) (head []byte, err error) {
	type result struct {
		file *file
		head []byte
		err  error
	}
	results := make(chan result, 1)
	opened := *f // f changes only if the read ends in time
	go func() {
		head, err := opened.head(stdin, opened.read)
		results <- result{&opened, head, err}
	}()
	select {
	case r := <-results:
		*f = *r.file
		return r.head, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// head opens a file and returns its first lines. counter counts the bytes that are read.
func (f *file) head(stdin io.Reader, counter *atomic.Int64) ([]byte, error) {
	if err := f.open(stdin, counter); err != nil {
		return nil, err
	}
	head, err := f.readSample()
	if err != nil {
		return nil, err
	}
	if isDocument(head) {
		f.isDocument, f.reader = true, newDocuments(io.MultiReader(bytes.NewReader(head), f.reader))
		if f.damage == nil { // or else what can be read is in head
			if head, err = f.readSample(); err != nil {
				return nil, err
			}
		}
	}
	if bytes.IndexByte(head, '\n') < 0 && len(head) == sampleSize { // one long line
		rest, err := readLine(f.reader)
		if err != nil {
			return nil, f.readError(err)
		}
		if head = slices.Concat(head, rest); len(head) > maxLine {
			return nil, fmt.Errorf("%s: the first line is longer than %d bytes: it is no log, or remove the line", nameOf(f.path), maxLine)
		}
	}
	return head, nil
}

// readSample reads the first bytes. It sets damage if a read fails after some of them.
func (f *file) readSample() ([]byte, error) {
	buffer := make([]byte, sampleSize)
	n := 0
	for n < sampleSize {
		read, err := f.reader.Read(buffer[n:])
		if n += read; errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if n == 0 {
				return nil, f.readError(err)
			}
			f.damage = f.readError(err) // the lines before it can be read
			break
		}
	}
	return buffer[:n:n], nil
}

// readLine reads to the end of the line, as far as a line can be long.
func readLine(in io.Reader) (rest []byte, err error) {
	buffer := make([]byte, sampleSize)
	for len(rest) < maxLine {
		n, err := in.Read(buffer)
		rest = append(rest, buffer[:n]...)
		if bytes.IndexByte(buffer[:n], '\n') >= 0 || errors.Is(err, io.EOF) {
			return rest, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// inspect reports whether the input is a regular file, which can be opened twice, and finds its size.
func (f *file) inspect() (isRegular bool, err error) {
	if f.path == stdin {
		return false, nil
	}
	info, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("%s does not exist: check the name, and the directory that the command runs in", f.path)
	case err != nil:
		return false, err
	case info.IsDir():
		return false, fmt.Errorf("%s is a directory: name its files, for example %s", f.path, filepath.Join(f.path, "*.log"))
	}
	f.info = info
	if info.Mode().IsRegular() {
		f.size = info.Size()
	}
	return info.Mode().IsRegular(), nil
}

// open opens the input and decompresses it. counter counts the bytes that are read.
func (f *file) open(in io.Reader, counter *atomic.Int64) error {
	if f.path != stdin {
		opened, err := os.Open(f.path)
		if err != nil {
			return err
		}
		f.closers = append(f.closers, func() { _ = opened.Close() })
		in = opened
	}
	buffered := bufio.NewReaderSize(&countingReader{in: in, read: counter}, blockSize)
	magic, err := buffered.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		f.close()
		return f.readError(err)
	}
	if f.reader, err = f.decompress(buffered, magic); err != nil {
		f.close()
		return f.readError(err)
	}
	if f.isDocument {
		f.reader = newDocuments(f.reader)
	}
	return nil
}

// decompress returns a reader of the plain text of a file that begins with magic.
func (f *file) decompress(in *bufio.Reader, magic []byte) (io.Reader, error) {
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		f.isCompressed = true
		return newGzip(in)
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}), isSkippableFrame(magic):
		f.isCompressed = true
		d, err := zstd.NewReader(in, zstd.WithDecoderMaxWindow(maxZstdMemory), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		f.closers = append(f.closers, d.Close)
		return d, nil
	case bytes.HasPrefix(magic, []byte{0xfd, '7', 'z', 'X', 'Z'}), bytes.HasPrefix(magic, []byte("BZh")), bytes.HasPrefix(magic, []byte("PK\x03\x04")):
		return nil, errors.New("the compression is not supported: decompress it, and use gzip, zstd, or - for the standard input")
	case bytes.HasPrefix(magic, []byte{0xff, 0xfe}), bytes.HasPrefix(magic, []byte{0xfe, 0xff}):
		return nil, errors.New("the text is UTF-16: convert it to UTF-8, for example with iconv")
	default:
		return in, nil
	}
}

// isSkippableFrame reports whether a file begins with a frame of zstd that has no text, as those of pzstd do.
func isSkippableFrame(magic []byte) bool {
	return len(magic) >= 4 && magic[0]&0xf0 == 0x50 && bytes.HasPrefix(magic[1:], []byte{0x2a, 0x4d, 0x18})
}

// nameOf returns the name of an input for an error.
func nameOf(path string) string {
	if path == stdin {
		return "the standard input"
	}
	return path
}

// readError describes a failed read.
func (f *file) readError(err error) error {
	name := nameOf(f.path)
	_, isOfSystem := errors.AsType[*fs.PathError](err)
	switch {
	case errors.Is(err, errIncomplete):
		return fmt.Errorf("%s is incomplete: %w; get a complete copy", name, err)
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fmt.Errorf("%s needs more than %d MiB of memory to decompress: decompress it, for example with zstd -dc --long=31, and use - for the standard input",
			name, maxZstdMemory>>20)
	case f.isCompressed && !isOfSystem:
		return fmt.Errorf("%s is truncated or damaged: decompressing it failed: %w; get a complete copy", name, err)
	}
	return fmt.Errorf("%s cannot be read: %w", name, err)
}

func (f *file) close() {
	for _, one := range slices.Backward(f.closers) {
		one()
	}
	f.closers, f.reader = nil, nil
}

// detect finds the format and the time of the first lines.
func (f *file) detect(o *Options, head []byte) error {
	f.sample = sampleOf(head)
	if len(f.sample) == 0 {
		f.isEmpty = true
		return nil
	}
	var err error
	if o.Format == "" {
		if f.format, err = format.Detect(f.sample, &o.Settings); err != nil {
			return fmt.Errorf("%s: %w", nameOf(f.path), err)
		}
	} else {
		if f.format, err = format.Named(o.Format); err != nil {
			return err
		}
		if err := f.format.Check(f.sample, &o.Settings); err != nil {
			return fmt.Errorf("%s: %w", nameOf(f.path), err)
		}
	}
	f.first, err = f.format.Earliest(f.sample, &o.Settings)
	return err
}

// sampleOf returns the first lines of a text, without blank ones and without the last one if it is incomplete.
func sampleOf(head []byte) (lines []string) {
	text := strings.TrimPrefix(string(head), byteOrderMark)
	for text != "" && len(lines) < sampleLines {
		line, rest, complete := strings.Cut(text, "\n")
		if !complete && len(head) >= sampleSize && len(lines) > 0 {
			break
		}
		if line = strings.TrimRight(line, " \t\r"); line != "" {
			lines = append(lines, line)
		}
		text = rest
	}
	return lines
}

// byteOrderMark is at the start of files of some editors.
const byteOrderMark = "\ufeff"

// countingReader counts the bytes that are read.
type countingReader struct {
	in   io.Reader
	read *atomic.Int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.read.Add(int64(n))
	return n, err
}
