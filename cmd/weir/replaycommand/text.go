package replaycommand

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/explain"
	"github.com/weir-dev/weir/internal/replay/result"
	"github.com/weir-dev/weir/internal/terminal"
)

// text writes the result for a person.
type text struct {
	out io.Writer
	top int
}

func printText(out io.Writer, found *result.Result, top int) error {
	t := &text{out, top}
	t.silent(found)
	t.input(found)
	if err := t.policies(found); err != nil {
		return err
	}
	for i := range found.Policies {
		if err := t.policy(&found.Policies[i]); err != nil {
			return err
		}
	}
	if err := t.difference(found.Difference); err != nil {
		return err
	}
	for _, p := range found.Proposals {
		t.section("Proposed policy, in Shadow mode:")
		t.line("")
		for line := range strings.Lines(p.YAML) {
			t.line(strings.TrimRight(line, "\n"))
		}
	}
	if len(found.Notes) > 0 {
		t.section("Notes")
		for _, note := range found.Notes {
			t.line("- " + note)
		}
	}
	return nil
}

func (t *text) line(s string) { terminal.Println(t.out, s) }

// section begins a section with an empty line and a title.
func (t *text) section(title string) {
	t.line("")
	t.line(title)
}

// silent prints first what makes the rest useless: policies that matched nothing.
func (t *text) silent(found *result.Result) {
	for i := range found.Policies {
		if p := &found.Policies[i]; p.Silent != "" && found.Total.Requests > 0 {
			t.line("Policy " + p.Name + " matched no request. " + p.Silent)
		}
	}
}

// maxIdentifier is the length of the longest identifier in a table.
const maxIdentifier = 64

// maxLine is the length of the start of a bad line that is printed.
const maxLine = 80

func (t *text) input(found *result.Result) {
	in := &found.Input
	for _, bad := range in.Errors {
		line := fmt.Sprintf("%s:%d: %s", bad.File, bad.Line, bad.Reason)
		if bad.Text != "" { // a line that is too long is not kept
			line += ": " + terminal.Shorten(bad.Text, maxLine)
		}
		t.line(line)
	}
	if more := in.Bad - int64(len(in.Errors)); more > 0 {
		t.line(fmt.Sprintf("and %d more lines that could not be read", more))
	}
	total := &found.Total
	if total.Requests == 0 {
		t.line("0 requests")
	} else {
		t.requests(found)
	}
	for _, skipped := range in.Skipped {
		t.line(fmt.Sprintf("%s left out: %s", cli.Count(int(skipped.Lines), "line", "lines"), skipped.Reason))
	}
	if in.Excluded > 0 {
		t.line(fmt.Sprintf("%d requests that were denied with status 429 are left out", in.Excluded))
	}
}

func (t *text) requests(found *result.Result) {
	total := &found.Total
	t.line(fmt.Sprintf("%s from %s to %s (%s)", cli.Count(int(total.Requests), "request", "requests"), when(found.From), when(found.To),
		found.To.Sub(found.From).Round(time.Second)))
	t.line(fmt.Sprintf("%d matched by a policy, %d denied (%s), %d would be denied in Shadow mode", total.Matched, total.Denied,
		percentOf(total.Denied, total.Requests), total.ShadowDenied))
}

// when is a time in UTC.
func when(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05Z") }

func percentOf(part, of int64) string {
	if of == 0 {
		return "0%"
	}
	return percent(float64(part) / float64(of))
}

// percent has three significant digits, and is 0% only for 0.
func percent(share float64) string {
	text := strconv.FormatFloat(100*share, 'g', 3, 64)
	if 100*share < 0.001 && share > 0 {
		return "<0.001%"
	}
	return text + "%"
}

func (t *text) policies(found *result.Result) error {
	t.line("")
	table := explain.NewTable(t.out, "POLICY", "LIMIT", "ALGORITHM", "MODE", "MATCHED", "DENIED", "SHARE", "IDENTIFIERS", "DENIED", "SHARE", "PEAK USE",
		"FIRST DENIAL")
	for i := range found.Policies {
		p := &found.Policies[i]
		mode, peak, first := "Enforce", "", ""
		if p.Shadow {
			mode = "Shadow"
		}
		if p.PeakUse != nil {
			peak = fmt.Sprintf("%d of %d", p.PeakUse.Used, p.PeakUse.Limit)
		}
		if p.Proposed {
			peak = ""
		}
		if p.FirstDenial != nil {
			first = when(*p.FirstDenial)
		}
		table.Row(p.Name, limitOf(p), p.Algorithm, mode, number(p.Matched), number(p.Denied), percentOf(p.Denied, p.Matched), number(p.Identifiers),
			number(p.DeniedIdentifiers), percentOf(p.DeniedIdentifiers, p.Identifiers), peak, first)
	}
	return table.Flush()
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// limitOf returns, for example, "100/1m0s".
func limitOf(p *result.Policy) string {
	if p.TiersOnly {
		return "tiers"
	}
	if p.Proposed {
		return "not yet"
	}
	return fmt.Sprintf("%d/%s", p.Limit, window(p.WindowSeconds))
}

// window returns, for example, "1m", "90s" or "1h".
func window(seconds int64) string {
	switch {
	case seconds%86400 == 0:
		return fmt.Sprintf("%dd", seconds/86400)
	case seconds%3600 == 0:
		return fmt.Sprintf("%dh", seconds/3600)
	case seconds%60 == 0:
		return fmt.Sprintf("%dm", seconds/60)
	default:
		return fmt.Sprintf("%ds", seconds)
	}
}

// policy prints the details of a policy.
func (t *text) policy(p *result.Policy) error {
	if p.Matched == 0 {
		return nil
	}
	t.section(p.Name)
	if m, h := p.BusiestMinute, p.BusiestHour; m != nil && h != nil {
		t.line(fmt.Sprintf("  busiest minute %s: %d requests, %d denied; busiest hour %s: %d requests, %d denied",
			when(m.Start), m.Requests, m.Denied, when(h.Start), h.Requests, h.Denied))
	}
	for _, part := range []func(*result.Policy) error{t.tiers, t.identifiers, t.curve, t.suggestions} {
		if err := part(p); err != nil {
			return err
		}
	}
	return nil
}

func (t *text) tiers(p *result.Policy) error {
	if len(p.Tiers) == 0 {
		return nil
	}
	table := explain.NewTable(t.out, "  TIER", "LIMIT", "REQUESTS", "DENIED")
	for _, tier := range p.Tiers {
		limit := number(tier.Limit)
		if tier.Unlimited {
			limit = "unlimited"
		}
		name := tier.Name
		if name == "" {
			name = "(others)"
		}
		table.Row("  "+name, limit, number(tier.Requests), number(tier.Denied))
	}
	return table.Flush()
}

func (t *text) identifiers(p *result.Policy) error {
	if len(p.Top) == 0 || t.top == 0 {
		return nil
	}
	table := explain.NewTable(t.out, "  IDENTIFIER", "DENIED", "REQUESTS", "PEAK IN "+window(p.WindowSeconds), "FIRST DENIAL")
	for _, i := range p.Top[:min(len(p.Top), t.top)] {
		table.Row("  "+terminal.Shorten(i.Identifier, maxIdentifier), number(i.Denied), number(i.Requests), number(i.Peak), when(i.FirstDenial))
	}
	return table.Flush()
}

// sampled describes a sample, "" if it has everything.
func sampled(oneIn int64) string {
	if oneIn <= 1 {
		return ""
	}
	return fmt.Sprintf(", of a sample of one in %d identifiers", oneIn)
}

func (t *text) curve(p *result.Policy) error {
	if p.Curve == nil || len(p.Curve.Points) == 0 {
		return nil
	}
	table := explain.NewTable(t.out, "  WITH LIMIT", "DENIED REQUESTS", "SHARE", "DENIED IDENTIFIERS", "SHARE"+sampled(p.Curve.SampledOneIn))
	for _, point := range p.Curve.Points {
		limit := number(point.Limit)
		if point.Limit == p.Limit {
			limit += " (now)"
		}
		table.Row("  "+limit, number(point.DeniedRequests), percentOf(point.DeniedRequests, p.Curve.Requests), number(point.DeniedIdentifiers),
			percentOf(point.DeniedIdentifiers, p.Curve.Identifiers))
	}
	return table.Flush()
}

func (t *text) suggestions(p *result.Policy) error {
	if len(p.Suggestions) == 0 {
		return nil
	}
	table := explain.NewTable(t.out, "  SUGGESTED", "ALGORITHM", "DENIED REQUESTS", "DENIED IDENTIFIERS", "COUNTERS",
		"REDIS MEMORY"+sampled(p.Suggestions[0].SampledOneIn))
	for _, s := range p.Suggestions {
		table.Row(fmt.Sprintf("  %d/%s", s.Limit, window(s.WindowSeconds)), s.Algorithm,
			fmt.Sprintf("%d (%s)", s.DeniedRequests, percentOf(s.DeniedRequests, s.Requests)),
			fmt.Sprintf("%d (%s)", s.DeniedIdentifiers, percentOf(s.DeniedIdentifiers, s.Identifiers)), number(s.Counters), bytesText(s.RedisBytes))
	}
	return table.Flush()
}

func bytesText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	default:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
}

func (t *text) difference(d *result.Difference) error {
	if d == nil {
		return nil
	}
	t.section(fmt.Sprintf("Change: %d requests are newly denied, and %d newly allowed", d.NewlyDenied, d.NewlyAllowed))
	table := explain.NewTable(t.out, "POLICY", "CHANGE", "DENIED BEFORE", "DENIED NOW", "NEWLY DENIED", "IDENTIFIERS", "NEWLY ALLOWED", "IDENTIFIERS")
	for _, p := range d.Policies {
		table.Row(p.Name, string(p.Change), number(p.DeniedBefore), number(p.Denied), number(p.NewlyDenied), number(p.IdentifiersDenied),
			number(p.NewlyAllowed), number(p.IdentifiersAllowed))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, list := range []struct {
		title string
		of    []result.Affected
	}{{"NEWLY DENIED", d.TopDenied}, {"NEWLY ALLOWED", d.TopAllowed}} {
		if len(list.of) == 0 || t.top == 0 {
			continue
		}
		table := explain.NewTable(t.out, list.title, "REQUESTS", "POLICY")
		for _, a := range list.of[:min(len(list.of), t.top)] {
			table.Row(terminal.Shorten(a.Identifier, maxIdentifier), number(a.Requests), a.Policy)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}
