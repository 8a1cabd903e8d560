// Package lease lets a replica admit requests from memory, on units that it has spent in the store ahead.
//
// A lease is a number of units of one counter. The replica spends them together with a request, admits later requests on them, and
// returns the rest when the lease ends: after its maximum age, or with the window that the units were spent in. Every admitted unit has
// been spent in the store before, so no request is admitted that the store has not admitted a short time ago.
// docs/concepts/leases.md derives what that guarantees for each algorithm.
//
// Only charges with [limiter.LeaseTerms] are leased, and only if all charges of a request have them: otherwise the store is called anyway.
// Leases only allow. Every denial is one of the store.
package lease
