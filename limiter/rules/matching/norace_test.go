//go:build !race

package matching_test

// slowdown is the factor for bounds of time.
const slowdown = 1
