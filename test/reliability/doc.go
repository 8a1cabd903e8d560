// Package reliability breaks the Redis of three real limiter processes under load and measures what their clients notice:
// errors, waiting, units admitted beyond the limits, and how long it takes until Redis decides again.
//
// A [Fault] starts a Redis, breaks it and repairs it. [Run] plays one fault under a [Plan] and keeps the log of all
// answers, a [Trial]. What follows from the log is decided by pure functions: [Measure] makes a [Result] of it, Shortfalls
// holds that to the [Expectation], [Table] writes it down.
//
// The tests play the faults of [Short]; WEIR_SOAK makes them play all, for longer. The command hack/reliability plays all
// and writes docs/reference/outages.md.
package reliability
