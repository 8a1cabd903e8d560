// Package accesslog reads recorded requests from files.
package accesslog

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter/rules"
)

// Record is a recorded request.
type Record struct {
	Start    time.Time     // when the request began
	Request  rules.Request // normalized
	Status   int           // 0 if unknown
	File     string
	Line     int
	Recorded *Recorded // only of Weir's own decision log
}

// Recorded is a decision in Weir's decision log. Its fields are those of a record of limiter/decisionlog.
type Recorded struct {
	Endpoint   string
	Result     string // allowed, denied or uncharged
	Policy     string
	Axis       string
	Identifier string // as it was counted: secrets are hashed
	Tier       string
	Limit      int64
	Remaining  int64
	RetryAfter time.Duration // 0 if the request was allowed, or if no retry could succeed
	Source     string
	Cost       int64 // how many times the request counted
	// Others are the other policies that decided.
	Others []Other
	// Denied lists the enforced policies that denied, ShadowDenied those in Shadow mode that would have denied, and Bypassed those that did not
	// count the request.
	Denied, ShadowDenied, Bypassed []string
	Revision                       string
}

// Other is another policy that decided about a request of Weir's decision log, as limiter/decisionlog describes it.
type Other struct {
	Policy, Identifier, Tier string
	Limit, Remaining         int64
}

// Options of a Reader.
type Options struct {
	Format string
	Map    map[string]string
	Stdin  io.Reader
}

// BadLine is a line that cannot be read.
type BadLine struct {
	File   string
	Line   int
	Reason string
}

// Stats describe what a Reader has read.
type Stats struct {
	BytesRead, BytesTotal int64
	Lines, Bad            int64
	BadLines              []BadLine
}

// Reader reads files.
type Reader struct {
	files []string
	next  int
	in    *bufio.Scanner
	close io.Closer
	name  string
	line  int
	stats Stats
}

// Open opens files.
func Open(files []string, _ Options) (*Reader, error) {
	r := &Reader{files: files}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return nil, err
		}
		r.stats.BytesTotal += info.Size()
	}
	return r, nil
}

// Stats returns what was read so far.
func (r *Reader) Stats() Stats { return r.stats }

// Next returns the next requests, and io.EOF at the end.
func (r *Reader) Next(context.Context) ([]Record, error) {
	var batch []Record
	for len(batch) < 1024 {
		if r.in == nil {
			if r.next == len(r.files) {
				if len(batch) > 0 {
					return batch, nil
				}
				return nil, io.EOF
			}
			f, err := os.Open(r.files[r.next])
			if err != nil {
				return nil, err
			}
			r.in, r.close, r.name, r.line = bufio.NewScanner(f), f, r.files[r.next], 0
			r.in.Buffer(nil, 1<<20)
			r.next++
		}
		if !r.in.Scan() {
			_ = r.close.Close()
			if err := r.in.Err(); err != nil {
				return nil, err
			}
			r.in = nil
			continue
		}
		r.line++
		r.stats.Lines++
		r.stats.BytesRead += int64(len(r.in.Bytes())) + 1
		record, err := parse(r.in.Text())
		if err != nil {
			r.stats.Bad++
			if len(r.stats.BadLines) < 10 {
				r.stats.BadLines = append(r.stats.BadLines, BadLine{r.name, r.line, err.Error()})
			}
			continue
		}
		record.File, record.Line = r.name, r.line
		batch = append(batch, record)
	}
	return batch, nil
}

var errFormat = errors.New("not a line of the combined format")

func parse(line string) (r Record, err error) {
	addr, rest, _ := strings.Cut(line, " ")
	if r.Request.ClientIP, err = netip.ParseAddr(addr); err != nil {
		return r, errFormat
	}
	_, rest, ok := strings.Cut(rest, "[")
	at, rest, ok2 := strings.Cut(rest, "] \"")
	request, rest, ok3 := strings.Cut(rest, "\" ")
	if !ok || !ok2 || !ok3 {
		return r, errFormat
	}
	if r.Start, err = time.Parse("02/Jan/2006:15:04:05 -0700", at); err != nil {
		return r, errFormat
	}
	method, target, _ := strings.Cut(request, " ")
	target, _, _ = strings.Cut(target, " ")
	r.Request.Method = method
	r.Request.SetTarget(target)
	r.Request.SetQuery(target)
	status, _, _ := strings.Cut(rest, " ")
	r.Status, _ = strconv.Atoi(status)
	return r, nil
}
