package dashboards

import (
	"regexp"
	"strings"
	"testing"
)

// ofOtherJobs matches metrics of the operator and of API servers. The variables job and instance select limiters.
var ofOtherJobs = regexp.MustCompile(`\bweir_policy_|\bweir_propagation_|\bapiserver_`)

// The rules are those that Grafana's dashboard-linter has for dashboards with Prometheus.
func TestDashboards_FollowTheConventionsOfGrafana(t *testing.T) {
	for _, d := range dashboards(t) {
		t.Run(d.UID, func(t *testing.T) {
			if d.Title == "" || d.Description == "" || d.SchemaVersion < 39 || len(d.UID) > 40 {
				t.Error("a dashboard needs a title, a description, a schemaVersion from 39 on and a uid of at most 40 characters")
			}
			if d.Editable == nil || *d.Editable {
				t.Error("the dashboard must not be editable, because an update replaces it")
			}
			lintVariables(t, d)
			ids := map[int]bool{}
			for _, p := range d.Panels {
				if ids[p.ID] || p.ID == 0 {
					t.Errorf("%s: the id %d is missing or not unique", p.Title, p.ID)
				}
				ids[p.ID] = true
				if p.Type != "row" {
					lintPanel(t, p)
				}
			}
		})
	}
}

func lintVariables(t *testing.T, d dashboard) {
	t.Helper()
	byName := map[string]variable{}
	for _, v := range d.Templating.List {
		byName[v.Name] = v
		if v.Label == "" {
			t.Errorf("variable %s has no label", v.Name)
		}
		if v.Type == "query" && (v.Refresh != 2 || !ofVariable(v.Datasource) || !strings.HasPrefix(v.Query, "label_values(")) {
			t.Errorf("variable %s must read label values of ${datasource} when the time range changes: %+v", v.Name, v)
		}
	}
	if v := byName["datasource"]; v.Type != "datasource" || v.Query != "prometheus" {
		t.Errorf("the variable datasource is %+v, want one that selects a Prometheus", v)
	}
	for _, name := range []string{"job", "instance"} {
		if v := byName[name]; v.Type != "query" || !v.Multi || v.AllValue != ".+" {
			t.Errorf("the variable %s is %+v, want a selection of several values, where all is .+", name, v)
		}
	}
}

func ofVariable(d *datasource) bool {
	return d != nil && *d == datasource{"prometheus", "${datasource}"}
}

var (
	counter  = regexp.MustCompile(`\b[a-z_]+(_total|_bucket|_count)\{`)
	selector = regexp.MustCompile(`\b[a-z_]+\{[^}]*\}`)
	window   = regexp.MustCompile(`\}\[([^\]]*)\]`)
)

func lintPanel(t *testing.T, p panel) {
	t.Helper()
	if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || !ofVariable(p.Datasource) || len(p.Targets) == 0 {
		t.Errorf("panel %d %q needs a title, a description, a unit, ${datasource} and queries", p.ID, p.Title)
	}
	if p.Grid.W <= 0 || p.Grid.H <= 0 || p.Grid.X+p.Grid.W > 24 {
		t.Errorf("%s: the position %+v is outside the 24 columns", p.Title, p.Grid)
	}
	for _, target := range p.Targets {
		if !ofVariable(target.Datasource) {
			t.Errorf("%s: a query must use ${datasource}", p.Title)
		}
		for _, found := range window.FindAllStringSubmatch(target.Expr, -1) {
			if found[1] != "$__rate_interval" && found[1] != "$__range" {
				t.Errorf("%s: the window [%s] must be $__rate_interval or $__range", p.Title, found[1])
			}
		}
		for _, series := range selector.FindAllString(target.Expr, -1) {
			if !ofOtherJobs.MatchString(series) && !strings.Contains(series, `{job=~"$job", instance=~"$instance"`) {
				t.Errorf("%s: %s must select job and instance", p.Title, series)
			}
			increases := regexp.MustCompile(`(rate|increase)\(` + regexp.QuoteMeta(series) + `\[`)
			if counter.MatchString(series) && !increases.MatchString(target.Expr) {
				t.Errorf("%s: the counter %s must be in rate or increase", p.Title, series)
			}
		}
	}
}
