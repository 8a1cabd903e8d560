//go:build !race

package rules_test

// slowdown is the factor for bounds of time: other packages are tested on the same processors.
const slowdown = 2
