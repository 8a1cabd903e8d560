package report

import (
	"fmt"

	"github.com/weir-dev/weir/internal/replay/report/chart"
	"github.com/weir-dev/weir/internal/replay/result"
)

// detail is the section of a policy.
type detail struct {
	summary
	Axis  string
	Facts []fact

	Traffic *chart.Chart
	Times   table

	Curves     []*chart.Chart
	CurveNote  string
	CurveTable table

	Use      *chart.Chart
	UseTable table

	Tiers, Top, Suggestions table
	TopNote                 string
}

// fact is a figure in a list.
type fact struct {
	Name, Value string
	Long        bool
}

func newDetail(r *result.Result, p *result.Policy, s summary) detail {
	d := detail{summary: s, Axis: p.Axis, Facts: factsOf(p)}
	d.Traffic, d.Times = traffic(p.Series, r.SeriesStart, r.BucketSeconds, "Requests of "+shown(p.Name))
	d.Curves, d.CurveTable = curves(p)
	d.CurveNote = curveNote(p)
	d.Use, d.UseTable = use(p)
	d.Tiers = tiers(p)
	d.Top, d.TopNote = top(p)
	d.Suggestions = suggestions(p)
	return d
}

func factsOf(p *result.Policy) (facts []fact) {
	add := func(name, value string) { facts = append(facts, fact{Name: name, Value: value}) }
	long := func(name, value string) { facts = append(facts, fact{name, value, true}) }
	add("Matched requests", chart.Count(p.Matched))
	add("Allowed", chart.Count(p.Allowed))
	add("Denied", chart.Count(p.Denied)+" ("+chart.Percent(p.Denied, p.Matched)+")")
	counters := "Identifiers"
	if p.PerEndpoint {
		counters = "Counters of identifiers and endpoints"
	}
	add(counters, chart.Count(p.Identifiers))
	add("With denials", chart.Count(p.DeniedIdentifiers)+" ("+chart.Percent(p.DeniedIdentifiers, p.Identifiers)+")")
	if p.Uncharged > 0 {
		add("Not counted, because another policy denied them", chart.Count(p.Uncharged))
	}
	if p.Unlimited > 0 {
		add("In an unlimited tier", chart.Count(p.Unlimited))
	}
	if p.MissingIdentifier > 0 {
		add("Without an identifier", chart.Count(p.MissingIdentifier)+" ("+chart.Percent(p.MissingIdentifier, p.Matched)+")")
	}
	if p.FallbackIdentifier > 0 {
		add("Counted by a fallback identifier", chart.Count(p.FallbackIdentifier)+" ("+chart.Percent(p.FallbackIdentifier, p.Matched)+")")
	}
	if p.FirstDenial != nil {
		add("First denial", stamp(*p.FirstDenial))
	}
	if p.LastDenial != nil {
		add("Last denial", stamp(*p.LastDenial))
	}
	if u := p.PeakUse; u != nil && !p.Proposed {
		long("Peak use", fmt.Sprintf("%s of %s by %s at %s", chart.Count(u.Used), chart.Count(u.Limit), shown(u.Identifier), stamp(u.At)))
	}
	for _, span := range []struct {
		name string
		span *result.Span
	}{{"Busiest minute", p.BusiestMinute}, {"Busiest hour", p.BusiestHour}} {
		if span.span != nil {
			long(span.name, fmt.Sprintf("%s: %s requests, %s denied", stamp(span.span.Start), chart.Count(span.span.Requests), chart.Count(span.span.Denied)))
		}
	}
	return facts
}

// curveNote is what a reader must know about the limit curve.
func curveNote(p *result.Policy) string {
	if p.Curve == nil || len(p.Curve.Points) == 0 {
		return ""
	}
	note := "What each limit would deny, as if this policy were the only one. Choose the limit where the curves become flat."
	if p.Curve.SampledOneIn > 1 {
		note += fmt.Sprintf(" The curve is that of one in %s identifiers, with all of their requests.", chart.Count(p.Curve.SampledOneIn))
	}
	return note
}

func tiers(p *result.Policy) table {
	t := table{Heads: []string{"Tier", "Limit", "Requests", "Denied", "Share"}, Left: 1}
	if len(p.Tiers) < 2 {
		return t // only the requests of no tier
	}
	for _, tier := range p.Tiers {
		name, limit := shown(tier.Name), chart.Count(tier.Limit)
		if name == "" {
			name = "no tier"
		}
		if tier.Unlimited {
			limit = "unlimited"
		}
		t.Rows = append(t.Rows, []string{name, limit, chart.Count(tier.Requests), chart.Count(tier.Denied), chart.Percent(tier.Denied, tier.Requests)})
	}
	return t
}

func top(p *result.Policy) (t table, note string) {
	t = table{Heads: []string{p.Axis, "Requests", "Denied", "Share", "Most in one window", "First denial"}, Left: 1}
	for _, one := range p.Top[:min(len(p.Top), maxTop)] {
		first := ""
		if !one.FirstDenial.IsZero() {
			first = stamp(one.FirstDenial)
		}
		t.Rows = append(t.Rows, []string{
			shown(one.Identifier), chart.Count(one.Requests), chart.Count(one.Denied), chart.Percent(one.Denied, one.Requests), chart.Count(one.Peak), first,
		})
	}
	var denied int64
	for _, one := range p.Top[:min(len(p.Top), maxTop)] {
		denied += one.Denied
	}
	if p.Denied > 0 {
		note = fmt.Sprintf("These identifiers have %s of the denials of the policy.", chart.Percent(denied, p.Denied))
	}
	return t, note
}

func suggestions(p *result.Policy) table {
	t := table{
		Heads: []string{
			"Algorithm", "Window", "Limit", "Denied requests", "Share", "Identifiers with denials", "Share", "Counters in Redis",
			"Approximate memory",
		}, Left: 1,
	}
	for _, s := range p.Suggestions {
		t.Rows = append(t.Rows, []string{
			s.Algorithm, window(s.WindowSeconds), chart.Count(s.Limit), chart.Count(s.DeniedRequests), chart.Percent(s.DeniedRequests, s.Requests),
			chart.Count(s.DeniedIdentifiers), chart.Percent(s.DeniedIdentifiers, s.Identifiers), chart.Count(s.Counters), size(s.RedisBytes),
		})
	}
	return t
}

// size returns a number of bytes.
func size(bytes int64) string {
	switch {
	case bytes >= 10<<30:
		return chart.Count(bytes>>30) + " GiB"
	case bytes >= 10<<20:
		return chart.Count(bytes>>20) + " MiB"
	default:
		return chart.Count((bytes+1023)>>10) + " KiB"
	}
}

// difference is the section about a change of policies.
type difference struct {
	Before, After         string
	Policies              table
	TopDenied, TopAllowed table
}

func newDifference(d *result.Difference) *difference {
	if d == nil {
		return nil
	}
	v := &difference{
		Before: fmt.Sprintf("%s (%s)", chart.Count(d.Before.Denied), chart.Percent(d.Before.Denied, d.Before.Requests)),
		Policies: table{
			Heads: []string{
				"Policy", "Change", "Denied before", "Denied", "Newly denied", "Newly allowed", "Identifiers newly denied",
				"Identifiers newly allowed",
			}, Left: 2,
		},
		TopDenied: affectedTable(d.TopDenied), TopAllowed: affectedTable(d.TopAllowed),
	}
	for _, p := range d.Policies {
		v.Policies.Rows = append(v.Policies.Rows, []string{
			shown(p.Name), string(p.Change), chart.Count(p.DeniedBefore), chart.Count(p.Denied), chart.Count(p.NewlyDenied), chart.Count(p.NewlyAllowed),
			chart.Count(p.IdentifiersDenied), chart.Count(p.IdentifiersAllowed),
		})
	}
	return v
}

func affectedTable(list []result.Affected) table {
	t := table{Heads: []string{"Identifier", "Policy", "Requests"}, Left: 2}
	for _, one := range list[:min(len(list), maxTop)] {
		t.Rows = append(t.Rows, []string{shown(one.Identifier), shown(one.Policy), chart.Count(one.Requests)})
	}
	return t
}
