package report

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/replay/report/chart"
	"github.com/weir-dev/weir/internal/replay/result"
	"github.com/weir-dev/weir/internal/terminal"
)

const (
	// maxDetailed is the number of policies with their own pictures. The others are in the table, and in the JSON of the result.
	maxDetailed = 40
	// maxShown is the length of the longest identifier, in bytes.
	maxShown = 160
	// maxTop is the number of identifiers of a policy.
	maxTop = 20
)

// page is what the template shows.
type page struct {
	Title   string
	CSP     string
	CSS     template.CSS
	Period  string
	Files   string
	Alerts  []string // what changes how the rest is to be read
	Notes   []string
	Tiles   []tile
	Traffic *chart.Chart
	Times   table
	Heat    *chart.Chart
	HeatOf  string
	Heats   table
	Summary []summary
	Omitted int // policies without their own section
	Details []detail

	Difference *difference
	Proposals  []result.Proposal
	Bad        table
	Skipped    table
}

// tile is one figure at the top.
type tile struct{ Name, Value, Note, Class string }

// table is a table of texts. The first Left columns are texts, the others numbers.
type table struct {
	Heads []string
	Left  int
	Rows  [][]string
}

// Column returns the class of a column.
func (t *table) Column(i int) string {
	if i < t.Left {
		return "text"
	}
	return "number"
}

// Link is the anchor of the section of a policy, "" without one.
type summary struct {
	Name, Link, Mode, Limit, Algorithm   string
	Matched, Denied, Share               string
	Identifiers, DeniedIdentifiers, Part string
	Peak                                 string
	FirstDenial                          string
	HasDenials                           bool
}

func newPage(r *result.Result) *page {
	css := style()
	p := &page{
		Title: titleOf(r), CSP: policyOf(css), CSS: template.CSS(css), //nolint:gosec // embedded
		Period: periodOf(r), Files: filesOf(r), Notes: r.Notes, Proposals: r.Proposals,
	}
	p.Alerts = alertsOf(r)
	p.Tiles = tilesOf(r)
	p.Traffic, p.Times = traffic(r.Series, r.SeriesStart, r.BucketSeconds, "All requests")
	p.Heat, p.HeatOf, p.Heats = heat(r)
	for i := range r.Policies {
		p.Summary = append(p.Summary, newSummary(&r.Policies[i]))
	}
	for _, i := range mostDenied(r.Policies) {
		if policy := &r.Policies[i]; policy.Silent == "" {
			p.Summary[i].Link = fmt.Sprintf("policy-%d", i)
			p.Details = append(p.Details, newDetail(r, policy, p.Summary[i]))
		}
	}
	p.Omitted = max(len(r.Policies)-maxDetailed, 0)
	p.Difference = newDifference(r.Difference)
	p.Bad = table{Heads: []string{"File", "Line", "Reason", "Text"}, Left: 4}
	for _, bad := range r.Input.Errors {
		p.Bad.Rows = append(p.Bad.Rows, []string{shown(bad.File), chart.Count(int64(bad.Line)), shown(bad.Reason), shown(bad.Text)})
	}
	p.Skipped = table{Heads: []string{"Reason", "Lines"}, Left: 1}
	for _, one := range r.Input.Skipped {
		p.Skipped.Rows = append(p.Skipped.Rows, []string{one.Reason, chart.Count(one.Lines)})
	}
	return p
}

// mostDenied returns the indexes of the policies with the most denials, and of equal ones with the most requests.
func mostDenied(policies []result.Policy) []int {
	order := make([]int, len(policies))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if policies[a].Denied != policies[b].Denied {
			return int(policies[b].Denied - policies[a].Denied)
		}
		return int(policies[b].Matched - policies[a].Matched)
	})
	return order[:min(len(order), maxDetailed)]
}

func titleOf(r *result.Result) string {
	if len(r.Policies) == 1 {
		return "Replay of " + shown(r.Policies[0].Name)
	}
	return fmt.Sprintf("Replay of %d policies", len(r.Policies))
}

func periodOf(r *result.Result) string {
	if r.From.IsZero() {
		return "No request"
	}
	return fmt.Sprintf("%s to %s UTC (%s)", r.From.UTC().Format("Jan 2, 2006, 15:04:05"), r.To.UTC().Format("Jan 2, 2006, 15:04:05"), long(r.To.Sub(r.From)))
}

// long returns a duration in its two largest units.
func long(d time.Duration) string {
	d = d.Round(time.Second)
	days, hours, minutes, seconds := d/(24*time.Hour), d/time.Hour%24, d/time.Minute%60, d/time.Second%60
	switch {
	case days > 0:
		return fmt.Sprintf("%d d %d h", days, hours)
	case hours > 0:
		return fmt.Sprintf("%d h %d min", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("%d min %d s", minutes, seconds)
	default:
		return fmt.Sprintf("%d s", seconds)
	}
}

func filesOf(r *result.Result) string {
	var names []string
	for _, f := range r.Input.Files {
		name := shown(f.Name)
		if f.Format != "" {
			name += " (" + f.Format + ")"
		}
		names = append(names, name)
	}
	const most = 4
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("%d more files", len(names)-most))
	}
	return strings.Join(names, ", ")
}

// alertsOf returns what a reader must know first.
func alertsOf(r *result.Result) (alerts []string) {
	if r.Interrupted {
		alerts = append(alerts, "The replay was interrupted. The figures are those of the requests up to "+r.To.UTC().Format("Jan 2, 2006, 15:04:05")+" UTC.")
	}
	for i := range r.Policies {
		if p := &r.Policies[i]; p.Silent != "" {
			alerts = append(alerts, "Policy "+shown(p.Name)+" matched no request. "+p.Silent)
		}
	}
	if r.Input.Bad > 0 {
		alerts = append(alerts, fmt.Sprintf("%s of %s lines could not be read (%s).", chart.Count(r.Input.Bad), chart.Count(r.Input.Lines),
			chart.Percent(r.Input.Bad, r.Input.Lines)))
	}
	return alerts
}

func tilesOf(r *result.Result) []tile {
	total := &r.Total
	tiles := []tile{
		{Name: "Requests", Value: chart.Count(total.Requests), Note: chart.Percent(total.Matched, total.Requests) + " matched by a policy"},
		{Name: "Denied", Value: chart.Count(total.Denied), Note: chart.Percent(total.Denied, total.Requests) + " of all requests", Class: classOf(total.Denied)},
	}
	if hasShadow(r) {
		tiles = append(tiles, tile{
			Name: "Denied in Shadow mode", Value: chart.Count(total.ShadowDenied), Note: chart.Percent(total.ShadowDenied, total.Requests) + " would be denied",
			Class: classOf(total.ShadowDenied),
		})
	}
	if d := r.Difference; d != nil {
		tiles = append(tiles, tile{Name: "Newly denied", Value: chart.Count(d.NewlyDenied), Note: "allowed by the policies before", Class: classOf(d.NewlyDenied)},
			tile{Name: "Newly allowed", Value: chart.Count(d.NewlyAllowed), Note: "denied by the policies before"})
	}
	return append(tiles, affected(r))
}

func hasShadow(r *result.Result) bool {
	return slices.ContainsFunc(r.Policies, func(p result.Policy) bool { return p.Shadow })
}

func classOf(denied int64) string {
	if denied > 0 {
		return "denied"
	}
	return ""
}

// affected is the tile of the policy that denies the largest share of its identifiers.
func affected(r *result.Result) tile {
	var worst *result.Policy
	for i := range r.Policies {
		p := &r.Policies[i]
		if worst == nil || p.DeniedIdentifiers*max(worst.Identifiers, 1) > worst.DeniedIdentifiers*max(p.Identifiers, 1) {
			worst = p
		}
	}
	if worst == nil || worst.DeniedIdentifiers == 0 {
		return tile{Name: "Identifiers with denials", Value: "0", Note: "of any policy"}
	}
	return tile{
		Name: "Identifiers with denials", Value: chart.Count(worst.DeniedIdentifiers), Class: "denied",
		Note: chart.Percent(worst.DeniedIdentifiers, worst.Identifiers) + " of those of " + shown(worst.Name),
	}
}

func newSummary(p *result.Policy) summary {
	s := summary{
		Name: shown(p.Name), Mode: "Enforce", Limit: limitOf(p), Algorithm: p.Algorithm, Matched: chart.Count(p.Matched), Denied: chart.Count(p.Denied),
		Share: chart.Percent(p.Denied, p.Matched), Identifiers: chart.Count(p.Identifiers), DeniedIdentifiers: chart.Count(p.DeniedIdentifiers),
		Part: chart.Percent(p.DeniedIdentifiers, p.Identifiers), HasDenials: p.Denied > 0,
	}
	if p.Shadow {
		s.Mode = "Shadow"
	}
	if p.PeakUse != nil && !p.Proposed {
		s.Peak = chart.Percent(p.PeakUse.Used, p.PeakUse.Limit)
	}
	if p.FirstDenial != nil {
		s.FirstDenial = stamp(*p.FirstDenial)
	}
	return s
}

// limitOf returns, for example, "100 per 1m".
func limitOf(p *result.Policy) string {
	if p.TiersOnly {
		return "tiers"
	}
	if p.Proposed {
		return "no limit yet"
	}
	text := chart.Count(p.Limit) + " per " + window(p.WindowSeconds)
	if p.Burst > 0 {
		text += ", burst " + chart.Count(p.Burst)
	}
	return text
}

// window returns, for example, "1m", "90s" or "1h".
func window(seconds int64) string {
	switch {
	case seconds%86400 == 0 && seconds > 0:
		return fmt.Sprintf("%dd", seconds/86400)
	case seconds%3600 == 0 && seconds > 0:
		return fmt.Sprintf("%dh", seconds/3600)
	case seconds%60 == 0 && seconds > 0:
		return fmt.Sprintf("%dm", seconds/60)
	default:
		return fmt.Sprintf("%ds", seconds)
	}
}

func stamp(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05") }

// shown returns a text from a log or a policy as the page shows it: on one line, without characters that are invisible or change the direction, and not
// too long.
func shown(text string) string {
	if len(text) > 4*maxShown {
		text = text[:4*maxShown] // before escaping, which takes time for a text of 1 MB
	}
	return terminal.Shorten(terminal.Line(text), maxShown)
}
