//go:build !race

package celexpr_test

// slowdown is the factor for bounds of time.
const slowdown = 1
