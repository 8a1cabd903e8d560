package main

// prometheusOf is the data source that the user selects in the variable datasource.
func prometheusOf() *datasource { return &datasource{Type: "prometheus", UID: "${datasource}"} }

// Units of Grafana.
const (
	perSecond = "reqps"
	ratio     = "percentunit"
	seconds   = "s"
	count     = "short"
	size      = "bytes"
)

// leastTop is the least upper end of the axis of a graph with the unit. Without it, the axis of a graph with only zeros ends at 100, or at
// 10000 %. A graph of times is never all zero.
func leastTop(unit string) float64 {
	switch unit {
	case perSecond, count:
		return 1
	case ratio:
		return 0.1
	default:
		return 0
	}
}

// query is a PromQL expression and the name of its series.
type query struct{ expr, legend string }

// chart is a panel without its position.
type chart struct {
	title, description, unit string
	queries                  []query
	warn, critical           float64 // of a number: thresholds of the colors orange and red; 0: no color
}

// section is a row: first numbers, six to a line, then graphs, two to a line.
type section struct {
	title   string
	numbers []chart
	graphs  []chart
}

// base is a dashboard without content. Its series are those of the jobs and instances that the user selects.
func base(uid, title, description, metric string) dashboard {
	return dashboard{
		UID: uid, Title: title, Description: description, Tags: []string{"weir"}, SchemaVersion: 39, Refresh: "30s",
		Time: timeRange{From: "now-1h", To: "now"}, Timezone: "browser", Tooltip: 1,
		Links: []link{{Type: "dashboards", Title: "Weir", Tags: []string{"weir"}, AsDropdown: true, KeepTime: true, Variables: true}},
		Templating: templating{List: []variable{
			{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus", Current: &current{Text: "default", Value: "default"}},
			selection("job", "Job", "label_values("+metric+", job)"),
			selection("instance", "Instance", "label_values("+metric+`{job=~"$job"}, instance)`),
		}},
	}
}

// selection is a variable with several values, at first all.
func selection(name, label, query string) variable {
	return variable{
		Name: name, Label: label, Type: "query", Query: query, Datasource: prometheusOf(), Refresh: 2, Sort: 1,
		Multi: true, IncludeAll: true, AllValue: ".+", Current: &current{Text: "All", Value: "$__all"},
	}
}

// with places the sections from top to bottom.
func (d dashboard) with(sections ...section) dashboard {
	y := 0
	add := func(p panel) {
		p.ID = len(d.Panels) + 1
		d.Panels = append(d.Panels, p)
	}
	for _, s := range sections {
		open := false
		add(panel{Type: "row", Title: s.title, Grid: grid{Y: y, W: 24, H: 1}, Collapsed: &open})
		y++
		y = place(s.numbers, y, 6, 4, func(c chart, g grid) { add(number(c, g)) })
		y = place(s.graphs, y, 2, 8, func(c chart, g grid) { add(graph(c, g)) })
	}
	return d
}

// place puts charts into lines of the given number and height, from y on. A chart that is alone in its line fills it. It returns the first
// free y.
func place(charts []chart, y, perLine, height int, add func(chart, grid)) int {
	width := 24 / perLine
	for i, c := range charts {
		g := grid{X: i % perLine * width, Y: y + i/perLine*height, W: width, H: height}
		if i == len(charts)-1 && g.X == 0 {
			g.W = 24
		}
		add(c, g)
	}
	return y + (len(charts)+perLine-1)/perLine*height
}

func (c chart) panel(kind string, g grid, instant bool) panel {
	p := panel{Type: kind, Title: c.title, Description: c.description, Grid: g, Datasource: prometheusOf()}
	for i, q := range c.queries {
		p.Targets = append(p.Targets, target{RefID: string(rune('A' + i)), Datasource: prometheusOf(), Expr: q.expr, Legend: q.legend, Instant: instant})
	}
	p.FieldConfig = &fields{Defaults: defaults{Unit: c.unit}, Overrides: []any{}}
	return p
}

func number(c chart, g grid) panel {
	p := c.panel("stat", g, true)
	steps := []step{{Color: "green"}}
	if c.warn > 0 {
		steps = append(steps, step{Color: "orange", Value: &c.warn})
	}
	if c.critical > 0 {
		steps = append(steps, step{Color: "red", Value: &c.critical})
	}
	p.FieldConfig.Defaults.Color = map[string]any{"mode": "thresholds"}
	p.FieldConfig.Defaults.Thresholds = &thresholds{Mode: "absolute", Steps: steps}
	p.FieldConfig.Defaults.NoValue = "none"
	if c.unit == count { // increase extrapolates to parts of an event
		p.FieldConfig.Defaults.Decimals = new(int)
	}
	p.Options = map[string]any{
		"colorMode": "value", "graphMode": "none", "reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "values": false},
	}
	return p
}

func graph(c chart, g grid) panel {
	p := c.panel("timeseries", g, false)
	zero := 0.0
	p.FieldConfig.Defaults.Min = &zero
	p.FieldConfig.Defaults.Custom = map[string]any{"fillOpacity": 10, "lineWidth": 1, "showPoints": "never"}
	if top := leastTop(c.unit); top > 0 {
		p.FieldConfig.Defaults.Custom["axisSoftMax"] = top
	}
	p.Options = map[string]any{
		"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true},
		"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
	}
	return p
}
