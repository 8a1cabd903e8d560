package main

import "strings"

// of returns the series of a metric that the user has selected, with further matchers: of("weir_shed_total", `endpoint="rls"`).
func of(metric string, matchers ...string) string {
	return metric + "{" + strings.Join(append([]string{`job=~"$job"`, `instance=~"$instance"`}, matchers...), ", ") + "}"
}

// rate returns the increase per second of a counter, summed by labels ("" for one sum).
func rate(by, series string) string { return sum(by, "rate("+series+"[$__rate_interval])") }

func sum(by, expr string) string {
	if by == "" {
		return "sum(" + expr + ")"
	}
	return "sum by (" + by + ") (" + expr + ")"
}

// quantile returns a quantile ("0.99") of a classic histogram, by labels.
func quantile(q, by, buckets string) string {
	if by != "" {
		by = ", " + by
	}
	return "histogram_quantile(" + q + ", " + rate("le"+by, buckets) + ")"
}
