package main

// redis answers: is Redis available and fast, and what does an outage cost?
func redis() dashboard {
	return base("weir-redis", "Weir: Redis and outages", "Calls to Redis, local mode, and the counters in memory.", "weir_local_mode").with(
		redisNow(),
		callsToRedis(),
		outages(),
	)
}

// redisNow has the numbers of the moment.
func redisNow() section {
	calls := of("weir_store_duration_seconds_count")
	buckets := of("weir_store_duration_seconds_bucket")
	return section{
		title: "Now",
		numbers: []chart{
			{
				title:       "Replicas without Redis",
				description: "Runbook: WeirDecidesWithoutRedis.",
				unit:        count, critical: 1,
				queries: []query{{sum("", of("weir_local_mode")), ""}},
			},
			{
				title:       "Calls to Redis",
				description: "Calls per second. A call decides all policies of a request.",
				unit:        perSecond,
				queries:     []query{{rate("", calls), ""}},
			},
			{
				title:       "Call time, 99th percentile",
				description: "Compare it with spec.redis.timeout.",
				unit:        seconds, warn: 0.01, critical: 0.04,
				queries: []query{{quantile("0.99", "", buckets), ""}},
			},
			{
				title:       "Units not reported yet",
				description: "Counters in memory with units that Redis does not have yet.",
				unit:        count,
				queries:     []query{{sum("", of("weir_local_owing")), ""}},
			},
			{
				title:       "Units lost",
				description: "In the selected time. Limits admitted them in addition. Runbook: WeirUnitsLost.",
				unit:        count, warn: 1,
				queries: []query{{"sum(increase(" + of("weir_local_lost_units_total") + "[$__range]))", ""}},
			},
			{
				title:       "Keys that Redis evicted",
				description: "In the selected time. Runbook: WeirRedisEvictedKeys.",
				unit:        count, critical: 1,
				queries: []query{{"max(delta(" + of("weir_redis_evicted_keys") + "[$__range]))", ""}},
			},
		},
	}
}

// callsToRedis has the calls and what saves them.
func callsToRedis() section {
	calls := of("weir_store_duration_seconds_count")
	buckets := of("weir_store_duration_seconds_bucket")
	return section{
		title: "Calls to Redis",
		graphs: []chart{
			{
				title:       "Calls",
				description: "By operation.",
				unit:        perSecond,
				queries:     []query{{rate("op", calls), "{{op}}"}},
			},
			{
				title:       "Call time",
				description: "Duration of calls, failed ones included.",
				unit:        seconds,
				queries:     []query{{quantile("0.5", "op", buckets), "{{op}} 50 %"}, {quantile("0.99", "op", buckets), "{{op}} 99 %"}},
			},
			{
				title:       "Failed calls",
				description: "By kind, and the failed probes of an unavailable Redis. docs/reference/redis.md lists the kinds. Runbook: WeirStoreErrors.",
				unit:        perSecond,
				queries: []query{
					{rate("kind", of("weir_store_errors_total")), "{{kind}}"},
					{rate("kind", of("weir_redis_probe_errors_total")), "probe: {{kind}}"},
				},
			},
			{
				title:       "Time in the queue",
				description: "The part of the call time before the call is sent. If it is long, the limiter needs more processors, or Redis is slow.",
				unit:        seconds,
				queries: []query{
					{quantile("0.5", "", of("weir_redis_queue_seconds_bucket")), "50 %"},
					{quantile("0.99", "", of("weir_redis_queue_seconds_bucket")), "99 %"},
				},
			},
			{
				title:       "Calls in one round trip",
				description: "On average. Calls share round trips if there are many at the same time. The most is 64.",
				unit:        count,
				queries: []query{{rate("instance", of("weir_redis_batch_calls_sum")) + " / " +
					rate("instance", of("weir_redis_batch_calls_count")), "{{instance}}"}},
			},
			{
				title:       "Decisions by source",
				description: "store: Redis decided. local: the replica decided, without Redis.",
				unit:        perSecond,
				queries:     []query{{rate("source", of("weir_decisions_total")), "{{source}}"}},
			},
			{
				title:       "Cached denials",
				description: "They are repeated without a call to Redis.",
				unit:        count,
				queries:     []query{{sum("instance", of("weir_known_denials")), "{{instance}}"}},
			},
			{
				title:       "Corrupt counters",
				description: "Counters with a value that Weir did not write. Another application writes to the keys of Weir.",
				unit:        perSecond,
				queries:     []query{{rate("", of("weir_redis_corrupt_counters_total")), "corrupt"}},
			},
		},
	}
}

// outages has local mode and the counters in memory.
func outages() section {
	return section{
		title: "Outages",
		graphs: []chart{
			{
				title:       "Local mode",
				description: "1 while Redis, or a part of it, is unavailable to a replica.",
				unit:        count,
				queries:     []query{{"max by (instance) (" + of("weir_local_mode") + ")", "{{instance}}"}},
			},
			{
				title:       "Part of the time without Redis",
				description: "Average of the replicas, and how often Redis became unavailable.",
				unit:        ratio,
				queries:     []query{{"avg(rate(" + of("weir_local_mode_seconds_total") + "[$__rate_interval]))", "time"}},
			},
			{
				title:       "Starts of local mode",
				description: "Times that Redis became unavailable, in the interval of one point.",
				unit:        count,
				queries:     []query{{"sum by (instance) (increase(" + of("weir_local_mode_activations_total") + "[$__rate_interval]))", "{{instance}}"}},
			},
			breakerChanges(),
			{
				title:       "Units reported after an outage",
				description: "counted, uncounted (reported again) or unknown (the reply was lost).",
				unit:        perSecond,
				queries:     []query{{rate("result", of("weir_local_repaid_units_total")), "{{result}}"}},
			},
			{
				title:       "Counters in memory",
				description: "And those with units that Redis does not have yet.",
				unit:        count,
				queries:     []query{{sum("", of("weir_local_counters")), "counters"}, {sum("", of("weir_local_owing")), "not reported yet"}},
			},
			{
				title:       "Memory of the counters",
				description: "Approximate, by replica. A quarter of the memory limit is for them.",
				unit:        size,
				queries:     []query{{sum("instance", of("weir_local_bytes")), "{{instance}}"}},
			},
			{
				title:       "Evictions from memory",
				description: "Counters that ended early, and decisions that began with an estimate instead.",
				unit:        perSecond,
				queries: []query{
					{rate("", of("weir_local_evicted_total")), "evicted counters"},
					{rate("", of("weir_local_floored_total")), "estimated decisions"},
					{rate("", of("weir_local_lost_units_total")), "lost units"},
				},
			},
			{
				title:       "Redis may evict counters",
				description: "1 if maxmemory-policy is not noeviction. Runbook: WeirRedisMayEvictKeys.",
				unit:        count,
				queries:     []query{{"max by (job) (" + of("weir_redis_evicting") + ")", "{{job}}"}},
			},
			clockSkew(),
			countersAhead(),
		},
	}
}

func clockSkew() chart {
	return chart{
		title:       "Clock of Redis",
		description: "Difference to the clocks of the limiters. Runbook: WeirRedisClockWrong.",
		unit:        seconds,
		queries:     []query{{"max by (job) (abs(" + of("weir_redis_clock_skew_seconds") + "))", "{{job}}"}},
	}
}

func countersAhead() chart {
	return chart{
		title:       "Counters that started over",
		description: "Because the clock of Redis stepped back, in the interval of one point. Runbook: WeirRedisClockWrong.",
		unit:        count,
		queries:     []query{{"sum by (job) (increase(" + of("weir_redis_counters_ahead_total") + "[$__rate_interval]))", "{{job}}"}},
	}
}

// breakerChanges shows broken connections, which start no local mode.
func breakerChanges() chart {
	return chart{
		title:       "Changes of circuit breakers",
		description: "By the new state. open and closed without a start of local mode: a connection was broken, and Redis was available.",
		unit:        count,
		queries:     []query{{"sum by (state) (increase(" + of("weir_redis_breaker_changes_total") + "[$__rate_interval]))", "{{state}}"}},
	}
}
