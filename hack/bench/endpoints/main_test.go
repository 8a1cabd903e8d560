package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
)

// TestMain serves the baseline when this program was started for that.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == serveBaseline {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestRun_MeasuresEachRowOnRealServers(t *testing.T) {
	var out bytes.Buffer
	args := strings.Fields("-parts rows -rounds 1 -slice 50ms -keys 50 -callers 4 -connections 2")
	if err := run(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{rlsBaseline, checkBaseline, authBaseline, rlsKnown, checkKnown, authKnown, rlsRedis, checkRedis, authRedis} {
		_, rest, found := strings.Cut(out.String(), "\n  "+row+" ")
		line, _, _ := strings.Cut(rest, "\n")
		known := "–"
		switch {
		case strings.HasSuffix(row, "known denials"):
			known = "100 %"
		case strings.HasSuffix(row, "through Redis"):
			known = "0 %"
		}
		if !found || !strings.HasSuffix(line, " "+known) {
			t.Errorf("row %q: %q, wanted is one that ends in %s", row, line, known)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}
