package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-dev/weir/internal/replay/simulate"
)

func TestSimulate_WritesTextReportAndPicture(t *testing.T) {
	scenario := filepath.Join("..", "..", "config", "scenarios", "boundary-burst.yaml")
	page, picture := filepath.Join(t.TempDir(), "report.html"), filepath.Join(t.TempDir(), "picture.svg")
	status, out, errors := runWithInput(t, "", "simulate", "--report", page, "--picture", picture, scenario)
	if status != 0 || !strings.Contains(out, "FixedWindow           100/60s  240       200       40") {
		t.Errorf("%d %s\n%s", status, errors, out)
	}
	for path, want := range map[string]string{page: "<!DOCTYPE html>", picture: "<svg xmlns="} {
		content, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(bytes.TrimSpace(content), []byte(want)) {
			t.Errorf("%s: %v, %.40s", path, err, content)
		}
	}
	status, out, errors = runWithInput(t, "", "simulate", "-o", "json", "--seed", "9", scenario)
	var results []simulate.Result
	if status != 0 || json.Unmarshal([]byte(out), &results) != nil || len(results) != 1 || results[0].Seed != 9 || len(results[0].Variants) != 3 {
		t.Errorf("%d %s\n%.200s", status, errors, out)
	}
}

func TestSimulate_NamesWhatIsWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scenario.yaml")
	if err := os.WriteFile(file, []byte("title: a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, arguments := range map[string][]string{
		"missing argument: name a scenario": {}, "scenario.yaml:1: duration: is required": {file}, "simulate: " + file + "x does not exist: check the name": {file + "x"},
		`--output "xml" is invalid`: {"-o", "xml", file}, "--picture needs one scenario": {"--picture", "a.svg", file, file}, "--seed -1 is invalid": {"--seed", "-1", file},
		"--report: " + file + " is an input": {"--report", file, file}, "--picture: " + file + " is an input": {"--picture", file, file},
	} {
		if status, _, errors := runWithInput(t, "", append([]string{"simulate"}, arguments...)...); status != 2 || !strings.Contains(errors, want) {
			t.Errorf("%v: %d %s, want %q", arguments, status, errors, want)
		}
	}
}
