package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write config/grafana")

func TestAll_FilesAreCurrent(t *testing.T) {
	files, err := filepath.Glob("../../config/grafana/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(all()) && !*update {
		t.Errorf("config/grafana has %d dashboards, want %d", len(files), len(all()))
	}
	for _, d := range all() {
		path := filepath.Join("../../config/grafana", d.UID+".json")
		if *update {
			if err := os.WriteFile(path, d.json(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(d.json()), string(got)); diff != "" {
			t.Errorf("%s is not current; run: make generate (-generated +file):\n%s", path, diff)
		}
	}
}
