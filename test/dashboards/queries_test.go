package dashboards

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/kubernetes"
)

// query is a query of a dashboard with values in place of its variables.
type query struct{ where, expr string }

// A fault that gives data to metrics without series in a healthy system.
type fault string

const (
	redisStopped    fault = "Redis is stopped"
	redisRestarted  fault = "Redis is available again"
	limitersStopped fault = "the limiters are stopped"
)

// zeroUntil has the metrics that do not increase, or have no series, until a fault happens.
var zeroUntil = map[string]fault{
	"weir_store_errors_total":                     redisStopped,
	"weir_local_repaid_units_total":               redisRestarted,
	"apiserver_admission_webhook_fail_open_count": limitersStopped,
}

// faultOf returns the fault that the query needs to return more than 0, or "" if it returns data while all is well.
func (q query) faultOf() fault {
	for metric, f := range zeroUntil {
		if strings.Contains(q.expr, metric) {
			return f
		}
	}
	return ""
}

var replacements = strings.NewReplacer("$job", ".+", "$instance", ".+", "$policy", ".+", "$__rate_interval", "20s", "$__range", "5m")

var labelValues = regexp.MustCompile(`^label_values\((.+), ([a-z]+)\)$`)

// queries returns the queries of all panels and variables.
func queries(t *testing.T) []query {
	t.Helper()
	var all []query
	for _, d := range dashboards(t) {
		for _, v := range d.Templating.List {
			if found := labelValues.FindStringSubmatch(v.Query); found != nil {
				all = append(all, query{d.UID + ": variable " + v.Name, replacements.Replace(fmt.Sprintf("count by (%s) (%s)", found[2], found[1]))})
			}
		}
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				for _, expr := range alternatives(target.Expr) {
					all = append(all, query{d.UID + ": " + p.Title, replacements.Replace(expr)})
				}
			}
		}
	}
	return all
}

// alternatives returns both sides of an expression of the form A or B, because B hides an A without data. Other expressions it returns as they
// are.
func alternatives(expr string) []string {
	left, right, is := strings.Cut(expr, " or ")
	if !is || strings.Count(left, "(") != strings.Count(left, ")") {
		return []string{expr}
	}
	return []string{left, right}
}

func TestQueries_ReturnDataInPrometheus(t *testing.T) {
	must(t, fixture.TrackWeir(t.Context()))
	w, err := kubernetes.Start(t.Context(), os.Stderr)
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.Logs(0))
		}
		must(t, w.Stop())
	})
	p := prepare(t, w)
	load := startLoad(t, w)
	all := queries(t)
	of := func(f fault) []query {
		return slices.DeleteFunc(slices.Clone(all), func(q query) bool { return q.faultOf() != f })
	}
	if total := len(of("")) + len(of(redisStopped)) + len(of(redisRestarted)) + len(of(limitersStopped)); total != len(all) || total < 80 {
		t.Fatalf("%d of %d queries", total, len(all))
	}
	awaitData(t, p, "all is well", of(""))
	for _, q := range all {
		if f := q.faultOf(); f != "" {
			if values, err := p.values(t.Context(), q.expr); err != nil || slices.ContainsFunc(values, isPositive) {
				t.Errorf("%s returns %v before %s: %v", q.where, values, f, err)
			}
		}
	}
	w.Redis.Kill()
	awaitData(t, p, string(redisStopped), of(redisStopped))
	must(t, w.Redis.Restart(t.Context()))
	awaitData(t, p, string(redisRestarted), of(redisRestarted))
	load.stopChecks()
	must(t, w.StopLimiters(t.Context()))
	awaitData(t, p, string(limitersStopped), of(limitersStopped))
}

// isPositive reports whether a value of Prometheus is a number above 0.
func isPositive(value string) bool { return value != "NaN" && value != "0" }

// awaitData waits until each query has returned a number, above 0 if it needs a fault.
func awaitData(t *testing.T, p prometheus, when string, missing []query) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	count := len(missing)
	err := fixture.Poll(ctx, poll, func(ctx context.Context) error {
		var errs []error
		missing = slices.DeleteFunc(missing, func(q query) bool {
			values, err := p.values(ctx, q.expr)
			found := slices.ContainsFunc(values, func(v string) bool { return isPositive(v) || v == "0" && q.faultOf() == "" })
			if err == nil && !found {
				err = fmt.Errorf("no data, only %v", values)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", q.where, q.expr, err))
			}
			return found
		})
		return errors.Join(errs...)
	})
	if err != nil {
		t.Errorf("while %s: %v", when, err)
	}
	t.Logf("%s: %d queries returned data", when, count-len(missing))
}
