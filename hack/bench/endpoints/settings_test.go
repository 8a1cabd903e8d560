package main

import (
	"io"
	"strings"
	"testing"
)

func TestSettings_RejectInvalidFlags(t *testing.T) {
	for given, want := range map[string]string{
		"-rounds 0":      "-rounds: 0 is not above 0",
		"-slice 6s":      "-slice: 6s is not above 0 and at most 5s",
		"-keys 100001":   "-keys: 100001 is outside 1 … 100000",
		"-callers 0":     "-callers: 0 is not above 0",
		"-connections 0": "-connections: 0 is not above 0",
		"-only (":        "-only: error parsing regexp",
		"more":           `unexpected argument "more"`,
	} {
		t.Run(given, func(t *testing.T) {
			if _, err := parse(strings.Fields(given), io.Discard); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error %v, want %s", err, want)
			}
		})
	}
}
