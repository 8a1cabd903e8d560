//go:build !race

package envoy

const emptiedPools = 0
