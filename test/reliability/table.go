package reliability

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The lines of a page that enclose the generated text.
const (
	begin = "<!-- measured: begin; written by make reliability -->"
	end   = "<!-- measured: end -->"
)

// Table formats results as a Markdown table.
func Table(results []Result) string {
	var b strings.Builder
	head := []string{"fault", "Redis unavailable", "requests", "errors", "p99 before", "p99", "slowest", "decided by", "recovered after", "allowed"}
	if len(results) > 0 {
		for _, o := range results[0].Overs {
			head = append(head, "over: "+string(o.Policy.Algorithm))
		}
	}
	row(&b, head)
	row(&b, slices.Repeat([]string{"---"}, len(head)))
	for i := range results {
		row(&b, results[i].cells())
	}
	return b.String()
}

func row(b *strings.Builder, cells []string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }

func (r *Result) cells() []string {
	cells := []string{
		r.Fault, seconds(r.Outage), strconv.Itoa(r.Requests), r.errorRate(), milliseconds(r.Calm), milliseconds(r.P99), milliseconds(r.Slowest), shares(r.Sources),
		r.recovered(), fmt.Sprintf("%.0f %%", 100*r.Given),
	}
	for _, o := range r.Overs {
		cells = append(cells, fmt.Sprintf("%d (%.0f %%)", o.Units, o.Percent()))
	}
	return cells
}

func (r *Result) errorRate() string {
	if r.Failed() == 0 {
		return "0"
	}
	return fmt.Sprintf("%.1f %% (%s)", 100*float64(r.Failed())/float64(r.Requests), strings.Join(most(r.Failures), ", "))
}

func (r *Result) recovered() string {
	if !r.Recovered {
		return fmt.Sprintf("not within %v", recoveryTimeout)
	}
	return seconds(r.Recovery)
}

// shares formats the shares of the sources, largest first.
func shares(sources map[string]int) string {
	all := 0
	for _, n := range sources {
		all += n
	}
	var b []string
	for _, source := range most(sources) {
		b = append(b, fmt.Sprintf("%s %.0f %%", source, 100*float64(sources[source])/float64(all)))
	}
	return cmp.Or(strings.Join(b, ", "), "-")
}

// most returns the names in counted, the most frequent first.
func most(counted map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counted), func(a, b string) int {
		return cmp.Or(cmp.Compare(counted[b], counted[a]), cmp.Compare(a, b))
	})
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

// Machine describes the machine of a measurement.
type Machine struct {
	Cores  int
	System string // "linux/amd64"
	Redis  string // version
	Go     string
}

// Section formats one measurement for a page.
func Section(m Machine, p Plan, results []Result) string {
	late, least := time.Duration(0), float64(p.Rate)
	for _, r := range results {
		late, least = max(late, r.Late), min(least, r.Rate)
	}
	return fmt.Sprintf(`Measured on %d cores (%s), everything on the same machine: redis-server %s, %d limiter processes (%s), and a load of
%d requests a second (at least %.0f were reached; 99 of 100 were sent within %s of their planned time). Limits of %d per %v.
Hot tenants send %.1f times as much. Every fault lasts %v unless Redis itself ends it.

%s`, m.Cores, m.System, m.Redis, limiters, m.Go, p.Rate, least, milliseconds(late), p.Limit, p.Window, p.excess(), p.Hold, Table(results))
}

// excess is the number of requests of a hot tenant, as a multiple of its limit.
func (p Plan) excess() float64 {
	return hotPerSecond(p.Rate, len(policies(p.Limit, p.Window))) * p.Window.Seconds() / float64(p.Limit)
}

// Catalogue formats a table of the faults.
func Catalogue(faults []Fault) string {
	var b strings.Builder
	row(&b, []string{"fault", "what is done"})
	row(&b, []string{"---", "---"})
	for _, f := range faults {
		row(&b, []string{f.Name, f.What})
	}
	return b.String()
}

// Splice replaces the text between the marks of a page.
func Splice(page []byte, text string) ([]byte, error) {
	before, rest, hasBegin := bytes.Cut(page, []byte(begin))
	_, after, hasEnd := bytes.Cut(rest, []byte(end))
	if !hasBegin || !hasEnd {
		return nil, errors.New("the page must contain the lines " + begin + " and " + end)
	}
	return slices.Concat(before, []byte(begin+"\n\n"+strings.TrimSpace(text)+"\n\n"+end), after), nil
}
