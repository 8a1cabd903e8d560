package accesslog

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/internal/accesslog/format"
)

// maxReports is the number of bad lines that are described.
const maxReports = 10

// Stats is what a Reader has read.
type Stats struct {
	// Bytes that have been read, and TotalBytes of all files, both as they are stored. TotalBytes is 0 if the size of a file is unknown, as of a pipe.
	Bytes, TotalBytes int64
	// Lines that have been read, of which Records are requests that Next has returned, and Bad could not be read.
	Lines, Records, Bad int64
	// BadLines are the first of the bad lines, at most 10.
	BadLines []BadLine
	// Skipped counts valid lines that are no requests to replay.
	Skipped map[format.SkipError]int64
	// OutOfOrder counts the records whose time is before that of a line before them. Late are those of them that were further behind than the window,
	// or than the records that fit in memory: they are replayed later than they were.
	OutOfOrder, Late int64
	// NoAddress counts the HTTP requests without an address of a client.
	NoAddress int64
	// First and Last are the starts of the first and the last record that Next has returned.
	First, Last time.Time
	// Files are the files and their formats, in the order in which they were given.
	Files []File
}

// BadLine is a line that could not be read.
type BadLine struct {
	File   string
	Line   int    // from 1
	Text   string // its start
	Reason string
}

// File is a file and its format.
type File struct {
	Path   string
	Format format.Format // the zero Format if the file is empty
	Empty  bool
	// Fractions counts the records whose times are more precise than a second.
	Fractions int64
}

// collector collects Stats.
type collector struct {
	bytes atomic.Int64

	lock  sync.Mutex
	stats Stats
	pipes bool // whether the size of a file is unknown
}

func (c *collector) addFile(f *file) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.stats.TotalBytes += f.size
	c.pipes = c.pipes || f.size == 0 && !f.isEmpty
	f.index = len(c.stats.Files)
	c.stats.Files = append(c.stats.Files, File{Path: f.path, Format: f.format, Empty: f.isEmpty})
}

func (c *collector) addBlock(b *block, outOfOrder, late int64) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.stats.Lines += int64(b.lines)
	c.stats.Bad += b.bad
	c.stats.OutOfOrder += outOfOrder
	c.stats.Late += late
	c.stats.NoAddress += b.noIP
	c.stats.Files[b.file.index].Fractions += b.fractions
	for _, report := range b.reports {
		if len(c.stats.BadLines) < maxReports {
			report.File = b.file.path
			c.stats.BadLines = append(c.stats.BadLines, report)
		}
	}
	for reason, n := range b.skipped {
		if c.stats.Skipped == nil {
			c.stats.Skipped = map[format.SkipError]int64{}
		}
		c.stats.Skipped[reason] += n
	}
}

func (c *collector) emitted(records []Record) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.stats.Records == 0 {
		c.stats.First = records[0].Start
	}
	c.stats.Records += int64(len(records))
	c.stats.Last = records[len(records)-1].Start
}

func (c *collector) snapshot() Stats {
	c.lock.Lock()
	defer c.lock.Unlock()
	s := c.stats
	s.Bytes = c.bytes.Load()
	if c.pipes {
		s.TotalBytes = 0
	}
	s.BadLines, s.Skipped, s.Files = slices.Clone(s.BadLines), maps.Clone(s.Skipped), slices.Clone(s.Files)
	return s
}
