package main

// policy selects the policy that the user has chosen.
const policy = `policy=~"$policy"`

// noTier is the name of the series of requests that no tier applies to.
const noTier = "no tier"

// onePolicy answers the questions of the owner of a policy.
func onePolicy() dashboard {
	d := base("weir-policy", "Weir policy",
		"Decisions of one policy: what it denies, how many identifiers it counts, and which requests it misses.", "weir_rules_revision_info")
	choice := selection("policy", "Policy", `label_values(weir_decisions_total{job=~"$job"}, policy)`)
	choice.Multi, choice.IncludeAll, choice.AllValue, choice.Current = false, false, "", nil
	d.Templating.List = append(d.Templating.List, choice)
	return d.with(
		policyNow(),
		policyDecisions(),
		policyMisses(),
	)
}

// policyNow has the numbers of the moment.
func policyNow() section {
	decisions := of("weir_decisions_total", policy)
	return section{
		title: "Now",
		numbers: []chart{
			{
				title:       "Requests",
				description: "Requests that the policy matches.",
				unit:        perSecond,
				queries:     []query{{rate("", decisions), ""}},
			},
			{
				title:       "Denied",
				description: "Part of the matched requests that the policy denies. Runbook: WeirDeniesMost.",
				unit:        ratio, warn: 0.1, critical: 0.5,
				queries: []query{{"(" + denials("", policy) + ") / " + rate("", decisions), ""}},
			},
			{
				title:       "Denied requests",
				description: "Per second.",
				unit:        perSecond,
				queries:     []query{{denials("", policy), ""}},
			},
			{
				title:       "Identifiers",
				description: "Estimated live counters, as the replica with most of them sees them.",
				unit:        count,
				queries:     []query{{"max(" + of("weir_identifiers", policy) + ")", ""}},
			},
			{
				title:       "Without a usable identifier",
				description: "Part of the matched requests. Runbook: WeirIdentifiersMissing.",
				unit:        ratio, warn: 0.01, critical: 0.05,
				queries: []query{{"(" + orZero(rate("", of("weir_missing_identifier_total", policy)), rate("", decisions)) + ") / " + rate("", decisions), ""}},
			},
			{
				title:       "Would be denied",
				description: "Of a policy in Shadow. Runbook: WeirShadowDenials.",
				unit:        perSecond,
				queries:     []query{{orZero(rate("", of("weir_shadow_denials_total", policy)), rate("", decisions)), ""}},
			},
		},
	}
}

// policyDecisions has the decisions of the policy.
func policyDecisions() section {
	decisions := of("weir_decisions_total", policy)
	return section{
		title: "Decisions",
		graphs: []chart{
			{
				title:       "By result",
				description: "uncharged: another policy denied the request. unlimited: an unlimited tier applies.",
				unit:        perSecond,
				queries:     []query{{rate("result", decisions), "{{result}}"}},
			},
			{
				title:       "By source",
				description: "Where the decision was made. Cached denials cost no call to Redis.",
				unit:        perSecond,
				queries:     []query{{rate("source", decisions), "{{source}}"}},
			},
			{
				title:       "Denied part",
				description: "Of the matched requests.",
				unit:        ratio,
				queries:     []query{{"(" + denials("", policy) + ") / " + rate("", decisions), "denied"}},
			},
			{
				title:       "By tier",
				description: "Matched requests. no tier: the limit of the policy applies. _other: the namespace has too many tiers.",
				unit:        perSecond,
				queries:     []query{{named(rate("tier", decisions), "tier", noTier), "{{tier}}"}},
			},
			{
				title:       "Near the limit",
				description: "Part of the matched requests that leave less than 20 % of the limit: denials are close.",
				unit:        ratio,
				queries: []query{{
					named(rate("tier", of("weir_near_limit_total", policy))+" / on (tier) "+rate("tier", decisions), "tier", noTier),
					"{{tier}}",
				}},
			},
			{
				title:       "Denied by replica",
				description: "A large difference suggests local mode, or clients that stay with one replica.",
				unit:        perSecond,
				queries:     []query{{denials("instance", policy), "{{instance}}"}},
			},
		},
	}
}

// policyMisses has requests that the policy does not count as intended.
func policyMisses() section {
	decisions := of("weir_decisions_total", policy)
	return section{
		title: "What the policy misses",
		graphs: []chart{
			{
				title:       "Without a usable identifier",
				description: "missing: counted under the identifier -. unreadable: counted under ?.",
				unit:        perSecond,
				queries:     []query{{rate("reason", of("weir_missing_identifier_total", policy)), "{{reason}}"}},
			},
			{
				title:       "Denials in Shadow",
				description: "Requests that the policy would deny if it was enforced.",
				unit:        perSecond,
				queries:     []query{{orZero(rate("", of("weir_shadow_denials_total", policy)), rate("", decisions)), "would be denied"}},
			},
			{
				title:       "Identifiers",
				description: "Estimated live counters by replica. Runbook: WeirIdentifierOverflow.",
				unit:        count,
				queries:     []query{{"max by (instance) (" + of("weir_identifiers", policy) + ")", "{{instance}}"}},
			},
			{
				title:       "Not counted separately, or not at all",
				description: "Runbooks: WeirIdentifierOverflow, WeirPoliciesLeftOut.",
				unit:        perSecond,
				queries: []query{
					{orZero(rate("", of("weir_identifier_overflow_total", policy)), rate("", decisions)), "new identifiers that get no counter"},
					{orZero(rate("", of("weir_policies_left_out_total", policy)), rate("", decisions)), "left out: too many policies match"},
				},
			},
		},
	}
}
