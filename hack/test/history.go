package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// A history is what the previous runs took. Packages from the cache do not change it.
type history struct {
	Seconds  map[string]float64 `json:"seconds"`  // by package
	Compiled float64            `json:"compiled"` // seconds from the start of one compilation to that of the next
}

// Assumptions about a machine with two cores, before the first run.
const (
	usualSeconds  = 5.0
	slowSeconds   = 20.0
	usualCompiled = 0.45
)

// readHistory reads a history. Without a valid file, it is empty: it is only an estimate.
func readHistory(path string) history {
	h := history{Compiled: usualCompiled}
	if text, err := os.ReadFile(path); err == nil {
		_ = json.Unmarshal(text, &h)
	}
	if h.Seconds == nil {
		h.Seconds = map[string]float64{}
	}
	return h
}

func (h history) write(path string) error {
	text, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.WriteFile(path, text, 0o644)
}

// seconds estimates the time of a package. Those that start servers take longer.
func (h history) seconds(pkg string) float64 {
	if s, ok := h.Seconds[pkg]; ok {
		return s
	}
	for _, folder := range []string{"limiter/redisstore", "cmd/", "controllers/", "webhook/", "test/"} {
		if strings.HasPrefix(pkg, folder) {
			return slowSeconds
		}
	}
	return usualSeconds
}
