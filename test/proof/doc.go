// Package proof tests the guarantees of the algorithms on a real redis-server with the clock of Redis: under concurrency,
// from several processes, and while scripts are flushed and connections are closed.
//
//   - Package promise checks the admitted and the denied requests. It shares no code with the limiter.
//   - Concurrent calls of all kinds must be linearizable with respect to the algorithms of package limiter.
//
// Package storetest compares what one caller sees, decision by decision, with the definitions of the algorithms.
//
// Each test takes seconds; WEIR_SOAK repeats it for longer, see soakFor.
package proof
