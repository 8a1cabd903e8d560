package storetest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
)

// step adds a step to the message of a failure.
func (h *history) step(format string, args ...any) {
	h.steps = append(h.steps, fmt.Sprintf(format, args...))
}

// fail ends the history, and prints its steps.
func (h *history) fail(rt *rapid.T, format string, args ...any) {
	rt.Helper()
	rt.Fatalf("%s\nafter these steps:\n\t%s", fmt.Sprintf(format, args...), strings.Join(h.steps, "\n\t"))
}

// describe returns a limit as in a scenario file.
func describe(limit limiter.Limit) string {
	text := fmt.Sprintf("%s %d %v", limit.Algorithm(), limit.Units(), limit.Window())
	if limit.Burst() > 0 {
		text += fmt.Sprintf(" %d", limit.Burst())
	}
	return text
}

// String returns a charge as in a scenario file.
func (c charge) String() string {
	text := fmt.Sprintf("%s*%d", c.name, c.Cost)
	switch most, bounded := c.Limit.MaxDelay(); {
	case bounded && most > 0:
		text += "!" + most.String()
	case bounded:
		text += "!"
	}
	if c.Debt {
		text += "+"
		if c.Whole {
			text += "+"
		}
	}
	if c.Shadow {
		text += "~"
	}
	return text
}

// logCommand logs the command that repeats a failed test. Package rapid first repeats the failed history, which it has
// written to a file.
func logCommand(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	directory, _ := os.Getwd()
	var parts []string
	for ; directory != filepath.Dir(directory); directory = filepath.Dir(directory) {
		if _, err := os.Stat(filepath.Join(directory, "go.mod")); err == nil {
			break
		}
		parts = append([]string{filepath.Base(directory)}, parts...)
	}
	t.Logf("repeat it with: go test -count=1 ./%s -run '^%s$'", path.Join(parts...), strings.ReplaceAll(t.Name(), "/", "$/^"))
}
