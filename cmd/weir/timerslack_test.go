package main

import (
	"strings"
	"testing"
)

func TestDecidesRequests(t *testing.T) {
	for line, want := range map[string]bool{
		"weir serve --policies dir":      true,
		"weir --log-level debug limiter": true,
		"weir ratelimit":                 true,
		"weir":                           false,
		"weir lint serve":                false,
		"weir serv":                      false,
	} {
		if got := decidesRequests(strings.Fields(line)); got != want {
			t.Errorf("decidesRequests(%q) = %v, want %v", line, got, want)
		}
	}
}
