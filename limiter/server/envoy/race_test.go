//go:build race

package envoy

// emptiedPools is the number of allocations of a call that the race detector causes: it makes sync.Pool drop some values.
const emptiedPools = 4
