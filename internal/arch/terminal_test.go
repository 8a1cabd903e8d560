package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommands_PrintThroughTerminal keeps commands from printing values that could contain line feeds or control a terminal. The exceptions print
// to something else than a terminal.
func TestCommands_PrintThroughTerminal(t *testing.T) {
	exceptions := map[string]string{
		"cmd/internal/cli/clitest/reference.go": "a reference page",
		"cmd/internal/cli/exit.go":              "an error, whose lines are indented",
		"go/weir/directory/directory.go":        "a hash",
		"cmd/weir/ratelimit.go":                 "an HTTP response",
		"cmd/weir/ratelimitstats.go":            "an HTTP response",
	}
	files := 0
	err := filepath.WalkDir(filepath.Join(root, "cmd"), func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		prints := strings.Contains(string(source), "fmt.Fprint") || strings.Contains(string(source), "fmt.Print")
		switch reason, isException := exceptions[filepath.ToSlash(name)]; {
		case prints && !isException:
			t.Errorf("%s prints with fmt: use terminal.Printf, Println or Row", name)
		case !prints && isException:
			t.Errorf("%s is an exception (%s) and does not print", name, reason)
		}
		return nil
	})
	if err != nil || files < 50 {
		t.Fatal(files, err)
	}
}
