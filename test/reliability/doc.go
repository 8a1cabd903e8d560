// Package reliability breaks the Redis of three real limiter processes under load and measures the effects on their clients: errors,
// latency, units admitted beyond the limits, and the time until Redis decides again.
//
// A [Fault] starts a Redis, breaks it and repairs it. [Run] runs one fault under a [Plan] and records all answers in a [Trial]. Pure
// functions evaluate the trial: [Measure] computes a [Result], Shortfalls compares it with an [Expectation], and [Table] formats it.
//
// The tests run the faults of [Short]; with WEIR_SOAK they run all faults, for longer. The command hack/reliability runs all faults and
// writes docs/reference/outages.md.
package reliability
