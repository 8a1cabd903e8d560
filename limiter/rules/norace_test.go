//go:build !race

package rules_test

// slowdown is the factor for bounds of time.
const slowdown = 1
