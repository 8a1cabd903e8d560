package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

// server is a process under test.
type server struct {
	process *fixture.WeirProcess
	grpc    string // host:port
	http    string // host:port
	ops     string // host:port of its metrics
	dueAt   time.Time
}

// totals are the counters of a server.
type totals struct {
	processor time.Duration
	decisions float64 // all decisions, including those with a call to Redis
	cached    float64 // from the denial cache
}

func (t totals) since(before totals) totals {
	return totals{
		processor: t.processor - before.processor, decisions: t.decisions - before.decisions, cached: t.cached - before.cached,
	}
}

func (s *server) totals(ctx context.Context) (totals, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.ops+"/metrics", nil)
	if err != nil {
		return totals{}, err
	}
	got, err := roundTrip(http.DefaultTransport, request)
	if err != nil {
		return totals{}, fmt.Errorf("metrics: %w", err)
	}
	return parseTotals(got.Body)
}

// parseTotals parses the text format of Prometheus.
func parseTotals(text []byte) (totals, error) {
	var t totals
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		name, number, found := cutLast(line, " ")
		if !found || strings.HasPrefix(line, "#") {
			continue
		}
		value, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return totals{}, fmt.Errorf("metrics: %q: %w", line, err)
		}
		switch {
		case name == "process_cpu_seconds_total":
			t.processor = time.Duration(value * float64(time.Second))
		case strings.HasPrefix(name, "weir_decisions_total{"):
			t.decisions += value
			if strings.Contains(name, `source="cache"`) {
				t.cached += value
			}
		}
	}
	return t, nil
}

func cutLast(s, separator string) (before, after string, found bool) {
	at := strings.LastIndex(s, separator)
	if at < 0 {
		return s, "", false
	}
	return s[:at], s[at+len(separator):], true
}

func (s *server) stop() error {
	if s == nil || s.process == nil {
		return nil
	}
	return s.process.Stop()
}
