//go:build race

package celexpr_test

// slowdown is the factor for bounds of time with the race detector.
const slowdown = 20
