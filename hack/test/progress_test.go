package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCounts_StateWhatIsLeft(t *testing.T) {
	for want, c := range map[string]counts{
		"1 min 05 s: compiled 3 of 9; tested 2 of 7 packages (1 from the cache); 1 FAILED; about 2 min 00 s left; testing limiter, test/e2e": {
			took: 65 * time.Second, toCompile: 9, compiled: 3, packages: 7, tested: 2, cached: 1, failed: 1, running: []string{"test/e2e", "limiter"}, left: 2 * time.Minute,
		},
		"3 s: tested 0 of 7 packages; about 0 s left": {took: 3 * time.Second, packages: 7},
	} {
		if got := c.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestEstimate_AddsCompilationsAndTests(t *testing.T) {
	h := history{Seconds: map[string]float64{"a": 40, "b": 40, "c": 100}, Compiled: 0.5}
	for name, tt := range map[string]struct {
		toCompile int
		packages  []string
		want      time.Duration
	}{
		"four at the same time":          {0, []string{"a", "a", "a", "a", "b", "b", "b", "b"}, 80 * time.Second},
		"none is faster than itself":     {0, []string{"a", "c"}, 100 * time.Second},
		"compilations":                   {10, nil, 5 * time.Second},
		"a package without a known time": {0, []string{"limiter/new"}, 5 * time.Second},
		"one that starts servers":        {0, []string{"controllers/new"}, 20 * time.Second},
	} {
		if got := estimate(h, tt.toCompile, tt.packages); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func TestShow_PrintsALineOnlyAfterSilence(t *testing.T) {
	var out strings.Builder
	p := &progress{out: &out, status: func() string { return "busy" }}
	p.line("begun")
	p.show(time.Now())
	p.show(time.Now().Add(repeat + time.Second))
	if want := "begun\n... busy\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestShow_ReplacesTheLineOfATerminal(t *testing.T) {
	var out strings.Builder
	p := &progress{out: &out, status: func() string { return "busy for long" }, columns: func() int { return 7 }}
	p.show(time.Now())
	p.line("begun")
	p.clear()
	if want := "\r\x1b[Kbusy …\r\x1b[Kbegun\n\r\x1b[K"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestHistory_IsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.json")
	h := readHistory(path) // the file is missing
	h.Seconds["limiter"], h.Compiled = 3, 0.7
	if err := h.write(path); err != nil {
		t.Fatal(err)
	}
	if got := readHistory(path); got.Seconds["limiter"] != 3 || got.Compiled != 0.7 {
		t.Errorf("%+v", got)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := readHistory(path); got.Compiled != usualCompiled {
		t.Errorf("%+v of an invalid file", got)
	}
}
