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

// orZero is expr, or 0 while the metric of expr has no series yet but other has. Without it, a panel of rare events is empty until the first.
func orZero(expr, other string) string { return expr + " or 0 * " + other }

// denials returns the denied requests per second, summed by labels. weir_decisions_total also counts what a policy in Shadow would deny.
func denials(by string, matchers ...string) string {
	all := rate(by, of("weir_decisions_total", append(matchers, `result="denied"`)...))
	return all + " - (" + orZero(rate(by, of("weir_shadow_denials_total", matchers...)), all) + ")"
}

// topDenials returns the ten policies with most denied requests per second, without policies in Shadow.
func topDenials(matchers ...string) string {
	return "topk(10, " + rate("policy", of("weir_decisions_total", append(matchers, `result="denied"`)...)) + " unless " +
		rate("policy", of("weir_shadow_denials_total", matchers...)) + " > 0)"
}

// named replaces the empty value of a label: Grafana cannot show an empty name.
func named(expr, label, name string) string {
	return `label_replace(` + expr + `, "` + label + `", "` + name + `", "` + label + `", "")`
}

// ofLimiters are the series of expr that are of limiters. Every process has some metrics, and if the user selects all jobs, job matches all.
func ofLimiters(expr string) string { return expr + " and on (job, instance) " + of("weir_local_mode") }
