// Package proof tests the guarantees of the algorithms on a real redis-server with the clock of Redis: under concurrency,
// from several processes, and while scripts are flushed and connections are closed.
//
//   - Package promise checks the admitted and the denied requests. It shares no code with the limiter.
//   - Concurrent calls of all kinds must be linearizable with respect to the algorithms of package limiter.
//   - Random histories must have the same decisions on Redis and with the algorithms of package limiter: package storetest.
//
// Each test takes seconds; WEIR_SOAK repeats it for longer, see soakFor.
package proof
