package format

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// lines returns the lines of an example log.
func lines(t testing.TB, name string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimRight(string(content), "\n"), "\n")
}

// parseAll returns the records and errors of lines, as indented JSON.
func parseAll(t testing.TB, f *Format, s *Settings, lines []string) string {
	t.Helper()
	p, err := f.NewParser(s, lines)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i, line := range lines {
		var r Record
		err := p.Parse(line, &r)
		var skip SkipError
		var list ListError
		switch {
		case errors.As(err, &list):
			fmt.Fprintf(&b, "%d list:\n%s", i+1, parseAll(t, f, s, list))
		case errors.As(err, &skip):
			fmt.Fprintf(&b, "%d skipped: %s\n", i+1, skip)
		case err != nil:
			fmt.Fprintf(&b, "%d bad: %v\n", i+1, err)
		default:
			fmt.Fprintf(&b, "%d %s\n", i+1, recordJSON(t, &r))
		}
	}
	return b.String()
}

// recordJSON returns the fields of a record that are set.
func recordJSON(t testing.TB, r *Record) string {
	t.Helper()
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		t.Fatal(err)
	}
	prune(fields)
	if k := r.Request.Kubernetes; k != nil && k.Object != nil {
		fields["Object"] = string(k.Object)
	}
	pruned, err := json.MarshalIndent(fields, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(pruned)
}

// prune removes the fields with zero values.
func prune(fields map[string]any) {
	for key, value := range fields {
		switch v := value.(type) {
		case map[string]any:
			prune(v)
			if len(v) == 0 {
				delete(fields, key)
			}
		case nil:
			delete(fields, key)
		case string, bool, float64:
			if v == "" || v == false || v == 0.0 {
				delete(fields, key)
			}
		}
	}
}

func TestFormats_ReadTheirExampleLogs(t *testing.T) {
	for _, f := range Formats() {
		t.Run(f.Name, func(t *testing.T) {
			lines := lines(t, f.Name)
			detected, err := Detect(lines, &Settings{})
			if err != nil || detected.Name != f.Name {
				t.Errorf("detected as %q, %v", detected.Name, err)
			}
			got := parseAll(t, &f, &Settings{Domain: "shop"}, lines)
			golden := filepath.Join("testdata", f.Name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
