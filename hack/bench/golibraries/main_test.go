package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

func TestRun_MeasuresAllContenders(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-rounds", "1", "-slice", "5ms"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x/time/rate", "ulule", "go-limiter", "throttled", "httprate", "weir", "redis_rate", "weir TokenBucket"} {
		if !strings.Contains(out.String(), "\n  "+name+" ") {
			t.Errorf("%s is missing in\n%s", name, &out)
		}
	}
	if strings.Contains(out.String(), "NaN") {
		t.Errorf("a figure is missing in\n%s", &out)
	}
}

func TestParse_RejectsWhatCannotBeMeasured(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "0"}, {"-slice", "0"}, {"-only", "("}, {"-parts", "("}, {"x"}, {"-unknown"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("no error for %q", args)
		}
	}
}
