package accesslog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/weir-dev/weir/internal/accesslog/format"
)

// Record is a request in a log. Its texts share memory with the other records of a batch: clone what is kept for longer.
type Record = format.Record

// Recorded is a decision in Weir's decision log.
type Recorded = format.Recorded

// Defaults of Options.
const (
	DefaultWindow  = time.Minute
	DefaultPending = 128 << 10
)

// Options of a Reader.
type Options struct {
	// Format is the name of a format, see [format.Named]. "" detects the format of each file.
	Format string
	// Settings of the parsers.
	Settings format.Settings
	// Window is how far a line can be behind a line before it. 0 is DefaultWindow.
	Window time.Duration
	// Pending is the number of records that wait in memory to be sorted. 0 is DefaultPending, which needs about 50 MB. If more lines than that are in
	// the window, the window is shorter.
	Pending int
	// Workers is the number of goroutines that parse. 0 is the number of processors.
	Workers int
	// Stdin is read for the file "-". Nil is os.Stdin.
	Stdin io.Reader
}

// Reader reads the records of logs in the order of their start. Only Stats can be called concurrently with other methods.
type Reader struct {
	options Options
	files   []*file // those that are not open yet, by the time of their first line
	streams []*stream
	jobs    chan *block
	stop    context.CancelFunc
	stopped context.Context //nolint:containedctx // ends the goroutines of the reader
	stats   collector
	err     error // what Next returns from now on
}

// Open opens files: paths, patterns as of [filepath.Glob], and "-" for the standard input. They can be compressed with gzip or zstd, whatever their
// names. It reads the first lines of each file, and waits for those of a pipe until ctx is done. The error names the file and what is wrong. Without an
// error, the caller must call Close.
func Open(ctx context.Context, files []string, o Options) (*Reader, error) {
	if o.Window == 0 {
		o.Window = DefaultWindow
	}
	if o.Pending == 0 {
		o.Pending = DefaultPending
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Stdin == nil {
		o.Stdin = os.Stdin
	}
	if o.Window < 0 || o.Pending < 0 || o.Workers < 0 {
		return nil, fmt.Errorf("the window, pending records and workers must not be negative: %v, %d, %d", o.Window, o.Pending, o.Workers)
	}
	paths, err := expand(files)
	if err != nil {
		return nil, err
	}
	r := &Reader{options: o}
	r.stopped, r.stop = context.WithCancel(context.Background())
	if err := r.openFiles(ctx, paths); err != nil {
		r.Close()
		return nil, err
	}
	r.jobs = make(chan *block, o.Workers)
	for range o.Workers {
		go r.work()
	}
	return r, nil
}

// openFiles reads the first lines of the files, and sorts them by time.
func (r *Reader) openFiles(ctx context.Context, paths []string) error {
	empty := 0
	var infos []fs.FileInfo
	for _, path := range paths {
		f, err := r.openFile(ctx, path)
		if err != nil {
			return err
		}
		isSame := func(other fs.FileInfo) bool { return os.SameFile(f.info, other) }
		if f.info != nil && f.info.Mode().IsRegular() && slices.ContainsFunc(infos, isSame) { // another path to a file, such as a link
			f.close()
			continue
		}
		infos = append(infos, f.info)
		r.stats.addFile(f)
		if f.isEmpty {
			f.close()
			empty++
			continue
		}
		r.files = append(r.files, f)
	}
	if empty == len(infos) {
		return fmt.Errorf("the log is empty: no line in %s", joinPaths(paths))
	}
	slices.SortStableFunc(r.files, func(a, b *file) int { return a.first.Compare(b.first) })
	return nil
}

// Close stops reading. It does not wait for a pending read, which can last on a pipe.
func (r *Reader) Close() {
	r.stop()
	for _, f := range r.files {
		f.close()
	}
	r.files = nil
}

// Next returns the next records. The starts never decrease, and all texts of the batch share memory. The error is io.EOF at the end, the error of ctx,
// or about the log: a file that cannot be read to its end, or an [OrderError]. After an error, Next returns it again.
func (r *Reader) Next(ctx context.Context) ([]Record, error) {
	for r.err == nil {
		records, err := r.merge(ctx)
		if len(records) > 0 {
			r.stats.emitted(records)
			r.err = err
			return records, nil
		}
		if err != nil && ctx.Err() != nil {
			return nil, err
		}
		r.err = err
	}
	return nil, r.err
}

// Stats returns what has been read until now. It can be called concurrently.
func (r *Reader) Stats() Stats { return r.stats.snapshot() }

// work parses blocks until the reader is closed.
func (r *Reader) work() {
	parsers := map[*file]*format.Parser{}
	for {
		select {
		case b := <-r.jobs:
			p, err := parsers[b.file], error(nil)
			if p == nil {
				clear(parsers) // files are mostly read one after the other
				p, err = b.file.format.NewParser(&r.options.Settings, b.file.sample)
				parsers[b.file] = p
			}
			if err == nil {
				b.parse(p) // also of a block after which reading failed
			} else {
				b.err = err
			}
			close(b.done)
		case <-r.stopped.Done():
			return
		}
	}
}

// piece is the size from which on a piece of a batch is passed on as it is, instead of being copied.
const piece = 256

// merge returns the next records of all files. Without records, the error is io.EOF or a failure.
func (r *Reader) merge(ctx context.Context) ([]Record, error) {
	var out []Record
	for {
		if err := r.activate(ctx); err != nil {
			return out, err
		}
		if len(r.streams) == 0 {
			return out, io.EOF
		}
		s, others := r.earliest()
		n := s.countUntil(others)
		records := s.take(n)
		if len(out) == 0 && len(records) >= piece {
			return records, nil
		}
		if out = append(out, records...); len(out) >= 4*piece {
			return out, nil
		}
		if len(r.streams) == 1 && len(s.ready) == 0 && len(out) > 0 {
			return out, nil
		}
	}
}

// activate fills all streams, removes those at their end, and starts those of files whose first line is next.
func (r *Reader) activate(ctx context.Context) error {
	for i := 0; i < len(r.streams); {
		s := r.streams[i]
		if len(s.ready) == 0 {
			err := s.fill(ctx, &r.stats, r.options.Pending/len(r.streams))
			if errors.Is(err, io.EOF) {
				r.streams = slices.Delete(r.streams, i, i+1)
				continue
			}
			if err != nil {
				return err
			}
		}
		i++
	}
	for len(r.files) > 0 {
		if len(r.streams) > 0 {
			if s, _ := r.earliest(); s.ready[0].Start.Before(r.files[0].first.Add(-r.options.Window)) {
				return nil
			}
		}
		s := r.start(r.files[0])
		r.files = r.files[1:]
		err := s.fill(ctx, &r.stats, r.options.Pending/(len(r.streams)+1))
		if errors.Is(err, io.EOF) {
			continue
		}
		if err != nil {
			return err
		}
		r.streams = append(r.streams, s)
	}
	return nil
}

// earliest returns the stream with the earliest record, and the time until which it can go on: the earliest record of the others, or the first line of
// the next file. The time is zero if there is no other.
func (r *Reader) earliest() (first *stream, others time.Time) {
	index := 0
	for i, s := range r.streams {
		if first == nil || s.ready[0].Start.Before(first.ready[0].Start) {
			first, index = s, i
		}
	}
	for i, s := range r.streams {
		start := s.ready[0].Start
		if i < index { // on a tie, the earlier stream is first
			start = start.Add(-1)
		}
		if i != index && (others.IsZero() || start.Before(others)) {
			others = start
		}
	}
	if len(r.files) > 0 {
		if next := r.files[0].first.Add(-r.options.Window); others.IsZero() || next.Before(others) {
			others = next
		}
	}
	return first, others
}
