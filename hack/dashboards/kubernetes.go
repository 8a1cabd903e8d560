package main

const (
	// throttle selects the endpoint that API servers call.
	throttle = `endpoint="throttle"`
	// hook selects the webhooks of Limiters.
	hook = `name=~".+[.]throttle[.]weir[.]dev"`
)

// byAPIServer returns the series of a metric of API servers about the webhooks of Limiters.
func byAPIServer(metric, matchers string) string {
	return "apiserver_admission_webhook_" + metric + "{" + hook + matchers + "}"
}

// kubernetes answers: what do limits on writes to the Kubernetes API cost and deny? It compares what limiters and API servers see.
func kubernetes() dashboard {
	return base("weir-kubernetes", "Weir: Kubernetes API throttling", "Writes to the Kubernetes API that limiters decide.", "weir_rules_revision_info").with(
		kubernetesNow(),
		throttlingLimiters(),
		throttlingAPIServers(),
	)
}

// kubernetesNow has the numbers of the moment.
func kubernetesNow() section {
	requests := of("weir_decision_duration_seconds_count", throttle)
	buckets := of("weir_decision_duration_seconds_bucket", throttle)
	return section{
		title: "Now",
		numbers: []chart{
			{
				title:       "Writes",
				description: "Writes that limiters decide, per second.",
				unit:        perSecond,
				queries:     []query{{rate("", requests), ""}},
			},
			{
				title:       "Rejected writes",
				description: "Part of the calls that the webhook of Weir rejected, as API servers see them.",
				unit:        ratio,
				queries: []query{{"sum(rate(" + byAPIServer("request_total", `, rejected="true"`) +
					"[$__rate_interval])) / sum(rate(" + byAPIServer("request_total", "") + "[$__rate_interval]))", ""}},
			},
			{
				title:       "Decision time, 99th percentile",
				description: "In the limiter.",
				unit:        seconds, warn: 0.01, critical: 0.05,
				queries: []query{{quantile("0.99", "", buckets), ""}},
			},
			{
				title:       "Added to a write, 99th percentile",
				description: "What API servers wait for the webhook.",
				unit:        seconds, warn: 0.05, critical: 0.25,
				queries: []query{{"histogram_quantile(0.99, sum by (le) (rate(" +
					byAPIServer("admission_duration_seconds_bucket", "") + "[$__rate_interval])))", ""}},
			},
			{
				title:       "Writes without a limit",
				description: "In the selected time: no limiter answered, and the API server admitted the write.",
				unit:        count, warn: 1,
				queries: []query{{"sum(increase(" + byAPIServer("fail_open_count", "") + "[$__range]))", ""}},
			},
			{
				title:       "Replicas without Redis",
				description: "Runbook: WeirDecidesWithoutRedis.",
				unit:        count, critical: 1,
				queries: []query{{sum("", of("weir_local_mode")), ""}},
			},
		},
	}
}

// throttlingLimiters has what limiters decide.
func throttlingLimiters() section {
	requests := of("weir_decision_duration_seconds_count", throttle)
	buckets := of("weir_decision_duration_seconds_bucket", throttle)
	decisions := of("weir_decisions_total", `policy=~"_cluster/.+"`) // only a ClusterRateLimitPolicy matches writes
	return section{
		title: "Limiters",
		graphs: []chart{
			{
				title:       "Writes",
				description: "Writes that each limiter decides.",
				unit:        perSecond,
				queries:     []query{{rate("instance", requests), "{{instance}}"}},
			},
			{
				title:       "Decision time",
				description: "In the limiter.",
				unit:        seconds,
				queries:     []query{{quantile("0.5", "", buckets), "50 %"}, {quantile("0.99", "", buckets), "99 %"}},
			},
			{
				title:       "Denials by policy",
				description: "Of ClusterRateLimitPolicies, which can also limit other requests.",
				unit:        perSecond,
				queries:     []query{{topDenials(`policy=~"_cluster/.+"`), "{{policy}}"}},
			},
			{
				title:       "Decisions by axis",
				description: "What the policies count by: Tenant, User, Namespace and others.",
				unit:        perSecond,
				queries:     []query{{rate("axis, result", decisions), "{{axis}} {{result}}"}},
			},
			{
				title:       "Rejected because of overload",
				description: "Writes without a decision. Runbook: WeirShedding.",
				unit:        perSecond,
				queries:     []query{{rate("instance", of("weir_shed_total", throttle)), "{{instance}}"}},
			},
		},
	}
}

// throttlingAPIServers has what API servers see. They are another job, which the variables do not select.
func throttlingAPIServers() section {
	return section{
		title: "API servers (all Limiters)",
		graphs: []chart{
			{
				title:       "Calls of the webhook",
				description: "By operation and whether the write was rejected.",
				unit:        perSecond,
				queries: []query{{"sum by (operation, rejected) (rate(" + byAPIServer("request_total", "") +
					"[$__rate_interval]))", "{{operation}} rejected={{rejected}}"}},
			},
			{
				title:       "Time added to a write",
				description: "What API servers wait for the webhook, with the network.",
				unit:        seconds,
				queries: []query{
					{"histogram_quantile(0.5, sum by (le) (rate(" + byAPIServer("admission_duration_seconds_bucket", "") +
						"[$__rate_interval])))", "50 %"},
					{"histogram_quantile(0.99, sum by (le) (rate(" + byAPIServer("admission_duration_seconds_bucket", "") +
						"[$__rate_interval])))", "99 %"},
				},
			},
			{
				title:       "Rejections by status",
				description: "429: a limit. Other codes: a policy with onStoreFailure: Deny, or a call that failed.",
				unit:        perSecond,
				queries: []query{{"sum by (error_type, rejection_code) (rate(" + byAPIServer("rejection_count", "") +
					"[$__rate_interval]))", "{{rejection_code}} {{error_type}}"}},
			},
			{
				title:       "Writes without a limit",
				description: "No limiter answered in time, and failurePolicy admits the write.",
				unit:        perSecond,
				queries:     []query{{"sum by (name) (rate(" + byAPIServer("fail_open_count", "") + "[$__rate_interval]))", "{{name}}"}},
			},
		},
	}
}
