package files

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/cmd/internal/cli/findings"
	"github.com/weir-dev/weir/internal/lintrule"
)

// TestLint_FindsTheExampleOfEachRule lints the examples of the page, and expects a section with an example for each rule, in the order of the rules.
func TestLint_FindsTheExampleOfEachRule(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "lint-rules.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := regexp.MustCompile(`(?m)^### ([a-z-]+)\n\n([^\n]*\.)`).FindAllSubmatchIndex(text, -1)
	example := regexp.MustCompile("(?s)```yaml\n# weir lint: ([a-z-]+)\n(.*?)```")
	var described []string
	for i, s := range sections {
		end := len(text)
		if i+1 < len(sections) {
			end = sections[i+1][0]
		}
		id, section := string(text[s[2]:s[3]]), string(text[s[0]:end])
		described = append(described, id)
		rule, exists := lintrule.Find(id)
		if !exists || !strings.Contains(section, "\n\n"+rule.Summary) {
			t.Errorf("the section of %s must begin with its summary: %s", id, rule.Summary)
		}
		examples := example.FindAllStringSubmatch(section, -1)
		if len(examples) == 0 {
			t.Errorf("%s has no example", id)
		}
		for _, e := range examples {
			_, stdout, stderr := runLint(e[2], "-", "-o", "json")
			var report struct{ Findings []findings.Finding }
			if err := json.Unmarshal([]byte(stdout), &report); err != nil {
				t.Fatalf("%s: %v\n%s", id, err, stderr)
			}
			if e[1] != id || !slices.ContainsFunc(report.Findings, func(f findings.Finding) bool {
				return f.Rule == id && f.Severity == rule.Severity && f.URL == rule.URL() && strings.HasSuffix(f.URL, "/docs/reference/lint-rules.md#"+id)
			}) {
				t.Errorf("the example of %s does not show it:\n%s\n%s", id, e[2], stdout)
			}
			for _, f := range report.Findings {
				if found, _ := lintrule.Find(f.Rule); f.Rule != id && found.Severity == lintrule.Error {
					t.Errorf("the example of %s has another error: %s", id, f.Text())
				}
			}
		}
	}
	if ids := lintrule.IDs(); !slices.Equal(described, ids) {
		t.Errorf("the page describes %v\nthe rules are %v", described, ids)
	}
}
