package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	redraw = time.Second      // between two status lines of a terminal
	repeat = 30 * time.Second // the longest time without a line elsewhere
)

// progress prints lines, and below them a status: in a terminal a line that is replaced, elsewhere a line when nothing else was printed for
// a while. Its methods are safe for concurrent use.
type progress struct {
	columns func() int    // of the terminal; nil without a terminal
	status  func() string // must not print

	mu      sync.Mutex
	out     io.Writer
	printed time.Time
}

// line prints lines.
func (p *progress) line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.columns != nil {
		text = "\r\x1b[K" + text
	}
	p.printed = time.Now()
	fmt.Fprintln(p.out, strings.TrimRight(text, "\n"))
}

// show prints the status.
func (p *progress) show(now time.Time) {
	text := p.status()
	if p.columns == nil {
		p.mu.Lock()
		wait := now.Sub(p.printed) < repeat
		p.mu.Unlock()
		if !wait {
			p.line("... " + text)
		}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "\r\x1b[K%s", truncate(text, p.columns()))
}

// clear removes the status line.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.columns != nil {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// start shows the status from time to time until the function that it returns is called.
func (p *progress) start() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(redraw)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case now := <-ticker.C:
				p.show(now)
			}
		}
	}()
	return func() {
		close(done)
		<-ended
		p.clear()
	}
}

// truncate shortens a line to a width, so that the terminal does not wrap it.
func truncate(line string, columns int) string {
	runes := []rune(line)
	if columns <= 1 || len(runes) < columns {
		return line
	}
	return string(runes[:columns-2]) + "…"
}

// counts are the numbers of a status.
type counts struct {
	took                time.Duration
	toCompile, compiled int
	packages, tested    int
	cached, failed      int
	running             []string
	left                time.Duration // an estimate
}

func (c counts) String() string {
	var parts []string
	if c.compiled < c.toCompile {
		parts = append(parts, fmt.Sprintf("compiled %d of %d", c.compiled, c.toCompile))
	}
	tested := fmt.Sprintf("tested %d of %d packages", c.tested, c.packages)
	if c.cached > 0 {
		tested += fmt.Sprintf(" (%d from the cache)", c.cached)
	}
	parts = append(parts, tested)
	if c.failed > 0 {
		parts = append(parts, fmt.Sprintf("%d FAILED", c.failed))
	}
	parts = append(parts, "about "+minutes(c.left)+" left")
	if len(c.running) > 0 {
		slices.Sort(c.running)
		parts = append(parts, "testing "+strings.Join(c.running, ", "))
	}
	return minutes(c.took) + ": " + strings.Join(parts, "; ")
}

// plural returns a number of things.
func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// minutes returns a duration for people.
func minutes(d time.Duration) string {
	d = max(d, 0).Round(time.Second)
	if d < time.Minute {
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
}

// estimate returns the time that is left. The compiler and most tests share the processors, so the estimate adds their times. Of the tests,
// four run at the same time, and a run takes at least as long as its slowest package.
func estimate(h history, toCompile int, packages []string) time.Duration {
	var sum, longest float64
	for _, pkg := range packages {
		s := h.seconds(pkg)
		sum, longest = sum+s, max(longest, s)
	}
	return time.Duration((float64(toCompile)*h.Compiled + max(sum/4, longest)) * float64(time.Second))
}
