package ruleset

import (
	"context"
	"errors"
	"io"
	"net"
	"regexp"
	"syscall"
)

// sureAfter is how many attempts in a row must fail in a way that the outage was told with before until it is told again.
const sureAfter = 4

// words remembers what one reason has been told with since it began. Trouble that is half mended fails in a new way, which is
// news; trouble that goes on may fail now in this way and now in that, as where one of several servers is asked.
type words struct {
	told    map[string]bool
	current string // the one told last
	now     string // of the last attempt
	times   int    // of that in a row
}

// areNews says whether an attempt that failed with err is to be told.
func (w *words) areNews(err error) bool {
	is := lasting(err)
	if is == w.now {
		w.times++
	} else {
		w.now, w.times = is, 1
	}
	if is == w.current || w.told[is] && w.times < sureAfter {
		return false
	}
	if w.told == nil {
		w.told = map[string]bool{}
	}
	w.told[is], w.current = true, is
	return true
}

// passing is a word with a digit in it: a port, an address among several, the id of a connection, a duration, a time of day.
var passing = regexp.MustCompile(`\S*[0-9]\S*`)

// lasting is what of err stays the same while the same is wrong: the cause, whatever was done when it was met.
func lasting(err error) string {
	for _, gone := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNREFUSED} {
		if errors.Is(err, gone) {
			return "gone" // as a connection tells that breaks, and the next, which is not made
		}
	}
	if network, is := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || is && network.Timeout() {
		return "timeout"
	}
	for cause := errors.Unwrap(err); cause != nil; cause = errors.Unwrap(err) {
		err = cause
	}
	return passing.ReplaceAllString(err.Error(), "#")
}
