package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weir-dev/weir/internal/replay/report/chart"
	"github.com/weir-dev/weir/internal/replay/result"
)

const (
	// maxBuckets is the number of points of a picture over time.
	maxBuckets = 230
	// maxTimes is the number of rows of a table over time.
	maxTimes = 48
)

// merged returns a series with at most so many buckets, which are as many times longer as the factor.
func merged(series []result.Cell, most int) (cells []result.Cell, factor int) {
	factor = max((len(series)+most-1)/most, 1)
	for i, cell := range series {
		if i%factor == 0 {
			cells = append(cells, result.Cell{})
		}
		last := &cells[len(cells)-1]
		last.Requests += cell.Requests
		last.Denied += cell.Denied
	}
	return cells, factor
}

// traffic returns the picture of requests and denials over time, and its table.
func traffic(series []result.Cell, start time.Time, bucketSeconds int64, what string) (*chart.Chart, table) {
	if len(series) == 0 {
		return nil, table{}
	}
	cells, factor := merged(series, maxBuckets)
	length := time.Duration(bucketSeconds) * time.Second * time.Duration(factor)
	at := func(i int) time.Time { return start.Add(time.Duration(i) * length) }
	end := start.Add(time.Duration(bucketSeconds) * time.Second * time.Duration(len(series)))
	largest, denials := int64(0), int64(0)
	all := chart.Series{Class: "demand", Name: "requests", Area: true, Steps: true}
	denied := chart.Series{Class: "deny", Name: "denied", Area: true, Steps: true}
	plot := chart.Plot{Label: fmt.Sprintf("%s over time: %s", what, describeSeries(cells, at)), X: chart.Times(start, end)}
	for i, cell := range cells {
		x := float64(at(i).Unix())
		all.Points = append(all.Points, chart.Point{X: x, Y: float64(cell.Requests)})
		denied.Points = append(denied.Points, chart.Point{X: x, Y: float64(cell.Denied)})
		largest, denials = max(largest, cell.Requests), denials+cell.Denied
		plot.Bands = append(plot.Bands, chart.Band{From: x, To: float64(min(at(i+1).Unix(), end.Unix())), Title: fmt.Sprintf("%s: %s requests, %s denied (%s)",
			stamp(at(i)), chart.Count(cell.Requests), chart.Count(cell.Denied), chart.Percent(cell.Denied, cell.Requests))})
	}
	for _, s := range []*chart.Series{&all, &denied} {
		s.Points = append(s.Points, chart.Point{X: float64(end.Unix()), Y: s.Points[len(s.Points)-1].Y})
	}
	plot.Y = chart.Counts(float64(largest), "requests per "+window(int64(length/time.Second)))
	if plot.Series = []chart.Series{all}; denials > 0 {
		plot.Series = append(plot.Series, denied)
	}
	return plot.Draw(), timesTable(series, start, bucketSeconds)
}

// describeSeries describes a series for readers who do not see it.
func describeSeries(cells []result.Cell, at func(int) time.Time) string {
	busiest, worst := 0, 0
	for i, cell := range cells {
		if cell.Requests > cells[busiest].Requests {
			busiest = i
		}
		if cell.Denied > cells[worst].Denied {
			worst = i
		}
	}
	text := fmt.Sprintf("most requests at %s, %s", stamp(at(busiest)), chart.Count(cells[busiest].Requests))
	if cells[worst].Denied > 0 {
		text += fmt.Sprintf("; most denials at %s, %s", stamp(at(worst)), chart.Count(cells[worst].Denied))
	}
	return text
}

func timesTable(series []result.Cell, start time.Time, bucketSeconds int64) table {
	t := table{Heads: []string{"Time (UTC)", "Requests", "Denied", "Share"}, Left: 1}
	cells, factor := merged(series, maxTimes)
	for i, cell := range cells {
		at := start.Add(time.Duration(i*factor) * time.Duration(bucketSeconds) * time.Second)
		t.Rows = append(t.Rows, []string{stamp(at), chart.Count(cell.Requests), chart.Count(cell.Denied), chart.Percent(cell.Denied, cell.Requests)})
	}
	return t
}

// heat returns the map of hours and policies: the share of requests that each policy denies in each hour of the day.
func heat(r *result.Result) (*chart.Chart, string, table) {
	if len(r.Policies) == 0 || len(r.Series) == 0 {
		return nil, "", table{}
	}
	h := chart.Heat{Label: "Share of denied requests for each policy and hour of the day"}
	t := table{Heads: []string{"Policy"}, Left: 1}
	for hour := range 24 {
		h.Columns = append(h.Columns, fmt.Sprintf("%02d", hour))
		t.Heads = append(t.Heads, fmt.Sprintf("%02d", hour))
	}
	for _, i := range mostDenied(r.Policies) {
		p := &r.Policies[i]
		row := chart.HeatRow{Name: shown(p.Name)}
		cells := []string{shown(p.Name)}
		for hour, cell := range p.HoursOfDay {
			row.Cells = append(row.Cells, chart.HeatCell{Level: level(cell), Title: fmt.Sprintf("%s, %02d:00 to %02d:59: %s requests, %s denied (%s)",
				shown(p.Name), hour, hour, chart.Count(cell.Requests), chart.Count(cell.Denied), chart.Percent(cell.Denied, cell.Requests))})
			share := ""
			if cell.Requests > 0 {
				share = chart.Percent(cell.Denied, cell.Requests)
			}
			cells = append(cells, share)
		}
		h.Rows, t.Rows = append(h.Rows, row), append(t.Rows, cells)
	}
	return h.Draw(), "Each cell is the share of requests that the policy denies in this hour of the day (UTC).", t
}

// level returns the level of a cell of the heat map.
func level(cell result.Cell) int {
	if cell.Denied == 0 {
		if cell.Requests > 0 {
			return -1
		}
		return 0
	}
	share := float64(cell.Denied) / float64(cell.Requests)
	bounds := levelBounds()
	for i, bound := range bounds {
		if share <= bound {
			return i + 1
		}
	}
	return len(bounds) + 1
}

// levelBounds are the largest shares of the levels of heat, except the last.
func levelBounds() []float64 { return []float64{0.001, 0.01, 0.05, 0.2} }

// curves returns the pictures of what other limits would deny, one of requests and one of identifiers, and their table.
func curves(p *result.Policy) ([]*chart.Chart, table) {
	c := p.Curve
	if c == nil || len(c.Points) == 0 {
		return nil, table{}
	}
	t := table{Heads: []string{"Limit per " + window(p.WindowSeconds), "Denied requests", "Share", "Identifiers with denials", "Share"}}
	for _, point := range c.Points {
		t.Rows = append(t.Rows, []string{
			chart.Count(point.Limit), chart.Count(point.DeniedRequests), chart.Percent(point.DeniedRequests, c.Requests),
			chart.Count(point.DeniedIdentifiers), chart.Percent(point.DeniedIdentifiers, c.Identifiers),
		})
	}
	requests := curve(p, "deny", "denied requests", c.Requests, func(point *result.CurvePoint) int64 { return point.DeniedRequests })
	identifiers := curve(p, "second", "identifiers with denials", c.Identifiers, func(point *result.CurvePoint) int64 { return point.DeniedIdentifiers })
	requests.Height = 200
	requests.X.Title = ""
	return []*chart.Chart{requests.Draw(), identifiers.Draw()}, t
}

// curve returns the picture of one value of the points of a curve, as a share of whole.
func curve(p *result.Policy, class, name string, whole int64, value func(*result.CurvePoint) int64) *chart.Plot {
	points := p.Curve.Points
	limit := func(i int) float64 { return float64(points[i].Limit) }
	s := chart.Series{Class: class, Name: name, Dots: true}
	plot := &chart.Plot{X: chart.LogCounts(limit(0), limit(len(points)-1), "limit: units per "+window(p.WindowSeconds))}
	largest := 0.0
	for i := range points {
		n := value(&points[i])
		share := ratio(n, whole)
		s.Points = append(s.Points, chart.Point{X: limit(i), Y: share})
		largest = max(largest, share)
		from, to := limit(i), limit(i)
		if i > 0 {
			from = math.Sqrt(limit(i-1) * limit(i)) // halfway on the axis
		}
		if i+1 < len(points) {
			to = math.Sqrt(limit(i) * limit(i+1))
		}
		plot.Bands = append(plot.Bands, chart.Band{From: from, To: to, Title: fmt.Sprintf("limit %s: %s %s (%s)", chart.Count(points[i].Limit), chart.Count(n), name,
			chart.Percent(n, whole))})
	}
	plot.Y = chart.Shares(largest, "share")
	plot.Series, plot.Marks = []chart.Series{s}, marks(p)
	plot.Label = fmt.Sprintf("Share of %s with other limits of %s: from %s at %s to %s at %s", name, shown(p.Name), chart.Percent(value(&points[0]), whole),
		chart.Count(points[0].Limit), chart.Percent(value(&points[len(points)-1]), whole), chart.Count(points[len(points)-1].Limit))
	return plot
}

func ratio(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// marks returns the limit of a policy, and the one that is suggested for its window and algorithm.
func marks(p *result.Policy) (marks []chart.Mark) {
	if p.HasLimit() {
		marks = append(marks, chart.Mark{At: float64(p.Limit), Text: "limit " + chart.Count(p.Limit)})
	}
	for i := range p.Suggestions {
		if s := &p.Suggestions[i]; s.WindowSeconds == p.WindowSeconds && s.Algorithm == p.Algorithm && s.Limit != p.Limit {
			marks = append(marks, chart.Mark{At: float64(s.Limit), Text: "suggested " + chart.Count(s.Limit), Other: true})
		}
	}
	slices.SortFunc(marks, func(a, b chart.Mark) int { return cmp.Compare(a.At, b.At) })
	return marks
}

// use returns the picture of the identifiers by what they asked for, and its table.
func use(p *result.Policy) (*chart.Chart, table) {
	if len(p.Use) == 0 {
		return nil, table{}
	}
	units := "most units in one window of " + window(p.WindowSeconds)
	t := table{Heads: []string{"Units per " + window(p.WindowSeconds), "Identifiers", "Share"}, Left: 1}
	largest := int64(1)
	for _, bin := range p.Use {
		largest = max(largest, bin.Identifiers)
	}
	end := p.Use[len(p.Use)-1].To + 1
	if p.HasLimit() {
		end = max(end, p.Limit+1)
	}
	plot := chart.Plot{X: chart.LogCounts(1, float64(end), units), Y: chart.LogCounts(1, float64(largest)*1.1, "identifiers, on a logarithmic scale"), Height: 240}
	plot.Y.Min = 0.7 // so that a bar of 1 is visible
	over := int64(0)
	for _, bin := range p.Use {
		isOver := p.HasLimit() && bin.From > p.Limit
		if isOver {
			over += bin.Identifiers
		}
		name := chart.Count(bin.From)
		if bin.To > bin.From {
			name += " to " + chart.Count(bin.To)
		}
		plot.Bars = append(plot.Bars, chart.Bar{
			From: float64(max(bin.From, 1)), To: float64(bin.To + 1), Value: float64(bin.Identifiers), Over: isOver,
			Title: fmt.Sprintf("%s units: %s identifiers (%s)", name, chart.Count(bin.Identifiers), chart.Percent(bin.Identifiers, p.Identifiers)),
		})
		t.Rows = append(t.Rows, []string{name, chart.Count(bin.Identifiers), chart.Percent(bin.Identifiers, p.Identifiers)})
	}
	plot.Marks = marks(p)
	plot.Label = fmt.Sprintf("Identifiers of %s by their %s; %s ask for more than the limit", shown(p.Name), units, chart.Count(over))
	return plot.Draw(), t
}
