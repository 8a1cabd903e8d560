//go:build !race

package expr_test

// slowdown is the factor for bounds of time.
const slowdown = 1
