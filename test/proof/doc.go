// Package proof holds the proof, on a real redis-server and with Redis' own clock, that what Weir decides is what it
// promises: under concurrency, from several processes, while scripts are flushed and connections killed.
//
//   - What was admitted is held to the promises by a checker that knows nothing of how it is decided: package promise.
//   - Concurrent calls of all kinds are held to the pure algorithms: they must be linearizable.
//   - Random histories are played on Redis and on the pure algorithms: package storetest.
//
// Each takes seconds; WEIR_SOAK makes it go on for long, see soakFor.
package proof
