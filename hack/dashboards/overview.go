package main

// overview answers: does Weir work, what does it decide, and which policies deny?
func overview() dashboard {
	return base("weir-overview", "Weir overview", "Decisions of all limiters, and the state of the operator.", "weir_rules_revision_info").with(
		overviewNow(),
		decisionsOfAll(),
		requestsThatNeedAttention(),
		replicas(),
		operator(),
	)
}

// overviewNow has the numbers of the moment.
func overviewNow() section {
	return section{
		title: "Now",
		numbers: []chart{
			{
				title:       "Requests",
				description: "Requests with a decision, per second, at all endpoints.",
				unit:        perSecond,
				queries:     []query{{rate("", of("weir_decision_duration_seconds_count")), ""}},
			},
			{
				title:       "Denied decisions",
				description: "Part of the decisions by policies that deny. Policies in Shadow deny no request.",
				unit:        ratio,
				queries:     []query{{"(" + denials("") + ") / " + rate("", of("weir_decisions_total")), ""}},
			},
			{
				title: "Decision time, 99th percentile",
				description: "One request in a hundred takes longer. The endpoint auth is not " +
					"included: it delays requests of a LeakyBucket on purpose.",
				unit: seconds, warn: 0.01, critical: 0.05,
				queries: []query{{quantile("0.99", "", of("weir_decision_duration_seconds_bucket", `endpoint!="auth"`)), ""}},
			},
			{
				title:       "Replicas with rules",
				description: "Limiters that have an active rule set.",
				unit:        count,
				queries:     []query{{"count(" + of("weir_rules_revision_info") + ")", ""}},
			},
			{
				title:       "Replicas without Redis",
				description: "Limiters that apply onStoreFailure. Runbook: WeirDecidesWithoutRedis.",
				unit:        count, critical: 1,
				queries: []query{{sum("", of("weir_local_mode")), ""}},
			},
			{
				title:       "Policies",
				description: "Policies in the active rule sets. Each job is one Limiter.",
				unit:        count,
				queries:     []query{{"sum(max by (job) (" + of("weir_rules_policies", `limiter=""`) + "))", ""}},
			},
		},
	}
}

// decisionsOfAll has the decisions of all policies.
func decisionsOfAll() section {
	return section{
		title: "Decisions",
		graphs: []chart{
			{
				title:       "Requests by endpoint",
				description: "Requests with a decision.",
				unit:        perSecond,
				queries:     []query{{rate("endpoint", of("weir_decision_duration_seconds_count")), "{{endpoint}}"}},
			},
			{
				title:       "Responses by code",
				description: "HTTP status, or status of gRPC, of all requests. Runbook for those without a decision: WeirRequestsFail.",
				unit:        perSecond,
				queries:     []query{{rate("endpoint, code", of("weir_requests_total")) + " > 0", "{{endpoint}} {{code}}"}},
			},
			{
				title:       "Decisions by result",
				description: "One request has one decision for each policy that it matches. Decisions of policies in Shadow are included.",
				unit:        perSecond,
				queries:     []query{{rate("result", of("weir_decisions_total")), "{{result}}"}},
			},
			{
				title:       "Policies that deny most",
				description: "Denied requests of the ten policies with most of them.",
				unit:        perSecond,
				queries:     []query{{topDenials(), "{{policy}}"}},
			},
			{
				title:       "Policies nearest to their limit",
				description: "Part of the requests that leave less than 20 % of the limit, of the ten policies with the largest part.",
				unit:        ratio,
				queries: []query{{"topk(10, " + rate("policy", of("weir_near_limit_total")) + " / on (policy) " +
					rate("policy", of("weir_decisions_total")) + ")", "{{policy}}"}},
			},
			{
				title:       "Busiest policies",
				description: "Decisions of the ten policies with most of them.",
				unit:        perSecond,
				queries:     []query{{"topk(10, " + rate("policy", of("weir_decisions_total")) + ")", "{{policy}}"}},
			},
			{
				title:       "Decision time",
				description: "From the start of a request to its decision.",
				unit:        seconds,
				queries: []query{
					{quantile("0.5", "endpoint", of("weir_decision_duration_seconds_bucket")), "{{endpoint}} 50 %"},
					{quantile("0.99", "endpoint", of("weir_decision_duration_seconds_bucket")), "{{endpoint}} 99 %"},
				},
			},
			{
				title:       "Where decisions are made",
				description: "The source of each decision: the store, a cached denial, local mode and others.",
				unit:        perSecond,
				queries:     []query{{rate("source", of("weir_decisions_total")), "{{source}}"}},
			},
		},
	}
}

// requestsThatNeedAttention has what is not limited as intended.
func requestsThatNeedAttention() section {
	return section{
		title: "Requests that need attention",
		graphs: []chart{
			{
				title:       "Rejected because of overload",
				description: "Requests without a decision. Runbook: WeirShedding.",
				unit:        perSecond,
				queries:     []query{{rate("endpoint", of("weir_shed_total")), "{{endpoint}}"}},
			},
			{
				title:       "Without a decision",
				description: "invalid: the endpoint rejected the request. unavailable: no rules, or onStoreFailure: Deny without Redis.",
				unit:        perSecond,
				queries:     []query{{rate("endpoint, reason", of("weir_failed_requests_total")), "{{endpoint}} {{reason}}"}},
			},
			{
				title:       "Without a policy",
				description: "Requests that no policy matched. They are not limited.",
				unit:        perSecond,
				queries:     []query{{rate("", of("weir_unmatched_total")), "no policy"}},
			},
			{
				title:       "Without a usable identifier",
				description: "They share one counter for each policy. Runbook: WeirIdentifiersMissing.",
				unit:        perSecond,
				queries:     []query{{rate("policy, reason", of("weir_missing_identifier_total")), "{{policy}} {{reason}}"}},
			},
			{
				title:       "Denials of policies in Shadow",
				description: "Requests that would be denied. Runbook: WeirShadowDenials.",
				unit:        perSecond,
				queries:     []query{{rate("policy", of("weir_shadow_denials_total")), "{{policy}}"}},
			},
			{
				title:       "Most identifiers",
				description: "Live counters of the ten policies with most of them. Runbook: WeirIdentifierOverflow.",
				unit:        count,
				queries:     []query{{"topk(10, max by (policy) (" + of("weir_identifiers") + "))", "{{policy}}"}},
			},
			{
				title:       "Requests that a policy does not count",
				description: "The policy has too many identifiers, or too many policies match.",
				unit:        perSecond,
				queries: []query{
					{rate("policy", of("weir_identifier_overflow_total")), "{{policy}}: too many identifiers"},
					{rate("policy", of("weir_policies_left_out_total")), "{{policy}}: too many policies"},
				},
			},
		},
	}
}

// replicas compares the replicas.
func replicas() section {
	return section{
		title: "Replicas",
		graphs: []chart{
			{
				title:       "Replicas by revision of the rules",
				description: "More than one revision for minutes: runbook WeirRulesDiffer.",
				unit:        count,
				queries: []query{{"count by (job, revision) (label_replace(" + of("weir_rules_revision_info") +
					`, "revision", "$1", "revision", "sha256:(.{12}).*"))`, "{{job}} {{revision}}"}},
			},
			{
				title:       "Requests by replica",
				description: "Connections stay with the replica to which they were made.",
				unit:        perSecond,
				queries:     []query{{rate("instance", of("weir_decision_duration_seconds_count")), "{{instance}}"}},
			},
			{
				title:       "Processors",
				description: "Processors that each limiter uses.",
				unit:        count,
				queries:     []query{{sum("instance", ofLimiters("rate("+of("process_cpu_seconds_total")+"[$__rate_interval])")), "{{instance}}"}},
			},
			{
				title:       "Memory",
				description: "Resident memory of each limiter.",
				unit:        size,
				queries:     []query{{sum("instance", ofLimiters(of("process_resident_memory_bytes"))), "{{instance}}"}},
			},
		},
	}
}

// operator has the metrics of the operator, which is another job: the variables do not select it.
func operator() section {
	return section{
		title: "Operator (all Limiters)",
		graphs: []chart{
			{
				title:       "Policies that are not enforced",
				description: "By reason. Runbooks: WeirPoliciesRejected, WeirPolicyBudgetExceeded.",
				unit:        count,
				queries:     []query{{"max by (limiter, reason) (weir_policy_problems)", "{{limiter}} {{reason}}"}},
			},
			{
				title:       "Part of the policy budget in use",
				description: "At 1, new policies are not enforced.",
				unit:        ratio,
				queries:     []query{{"max by (limiter, resource) (weir_policy_budget_used_ratio)", "{{limiter}} {{resource}}"}},
			},
			{
				title:       "Time until all replicas have an edit",
				description: "The 90th percentile. Runbook: WeirPropagationSlow.",
				unit:        seconds,
				queries:     []query{{"histogram_quantile(0.9, sum by (le) (increase(weir_propagation_seconds_bucket[$__range])))", "90 %"}},
			},
		},
	}
}
