package findings_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"github.com/xeipuuv/gojsonschema"

	"github.com/weir-dev/weir/cmd/internal/cli/findings"
	"github.com/weir-dev/weir/internal/lintrule"
)

func newReport(t *testing.T) *findings.Report {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	finding := func(rule, file string, line int, message string) findings.Finding {
		r, exists := lintrule.Find(rule)
		if !exists {
			t.Fatalf("there is no rule %s", rule)
		}
		return findings.Finding{
			Rule: rule, Severity: r.Severity, File: file, Line: line, Column: 3, Policy: "shop/a", Field: "spec.limit", Message: message, URL: r.URL(),
		}
	}
	suppressed := finding(lintrule.LargeLog, "policies/a b.yaml", 9, "large")
	suppressed.Suppressed = "We have the memory."
	return &findings.Report{
		Version: "v1.2.3",
		Findings: []findings.Finding{
			finding(lintrule.InvalidValue, "policies/a b.yaml", 7, "100% wrong: a, b\nand c\x1b[31m"),
			finding(lintrule.InvalidValue, filepath.Join(here, "policies", "a b.yaml"), 8, "100% wrong: a, b\nand c\x1b[31m"),
			finding(lintrule.WindowBoundary, "-", 0, "bursts"),
			finding(lintrule.Overridden, "policies/c.yaml", 2, "overridden"),
			suppressed,
		},
		Objects: []findings.Object{{Name: "shop/a", File: "policies/a b.yaml", Line: 1}, {Name: "shop/fine", File: "policies/a b.yaml", Line: 20}},
		Summary: "1 policy",
	}
}

func written(t *testing.T, r *findings.Report, format string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b, format); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sarifSchema returns the schema of SARIF 2.1.0, which the library for SARIF has as a constant that it does not export. Its own validation is only for
// what it has written.
func sarifSchema(t *testing.T) *gojsonschema.Schema {
	t.Helper()
	library, err := build.Import("github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif", ".", build.FindOnly)
	if err != nil {
		t.Fatal(err)
	}
	source, err := parser.ParseFile(token.NewFileSet(), filepath.Join(library.Dir, "schema.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	ast.Inspect(source, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			text, err = strconv.Unquote(literal.Value)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	schema, err := gojsonschema.NewSchema(gojsonschema.NewStringLoader(text))
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestWrite_SARIFIsValidByItsSchema(t *testing.T) {
	schema := sarifSchema(t)
	for name, report := range map[string]*findings.Report{"findings": newReport(t), "no findings": {}} {
		text := written(t, report, findings.SARIF)
		result, err := schema.Validate(gojsonschema.NewBytesLoader(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range result.Errors() {
			t.Errorf("%s: %s", name, problem)
		}
		log, err := sarif.FromBytes(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if want := sarif.NewReport().Version; log.Version != want {
			t.Errorf("version %q, want %q", log.Version, want)
		}
		run := log.Runs[0]
		if len(run.Tool.Driver.Rules) != len(lintrule.All()) || len(run.Results) != len(report.Findings) {
			t.Errorf("%s: %d rules, %d results", name, len(run.Tool.Driver.Rules), len(run.Results))
		}
		if !bytes.Contains(text, []byte(`"results": [`)) {
			t.Errorf("%s: GitHub needs a list of results:\n%s", name, text)
		}
		for i, result := range run.Results {
			if rule := run.Tool.Driver.Rules[result.RuleIndex]; *rule.ID != *result.RuleID {
				t.Errorf("result %d has index %d of rule %s, and is %s", i, result.RuleIndex, *rule.ID, *result.RuleID)
			}
			place := result.Locations[0].PhysicalLocation
			if strings.HasPrefix(*place.ArtifactLocation.URI, "/") || *place.Region.StartLine < 1 {
				t.Errorf("result %d: %s:%d", i, *place.ArtifactLocation.URI, *place.Region.StartLine)
			}
		}
	}
	for _, broken := range []string{`"startLine": 0`, `"startsLine": 7`} {
		text := strings.Replace(string(written(t, newReport(t), findings.SARIF)), `"startLine": 7`, broken, 1)
		if result, err := schema.Validate(gojsonschema.NewStringLoader(text)); err != nil || result.Valid() {
			t.Errorf("the schema accepts %s, so that it proves nothing: %v", broken, err)
		}
	}
}

func TestWrite_GitHubEscapesWhatItsCommandsMeanOtherwise(t *testing.T) {
	got := string(written(t, newReport(t), findings.GitHub))
	url := "https://github.com/weir-dev/weir/blob/main/docs/reference/lint-rules.md#"
	want := "::error file=policies/a b.yaml,line=7,col=3,title=invalid-value::shop/a: spec.limit: 100%25 wrong: a, b and c\\u001b[31m (" + url + "invalid-value)\n" +
		"::error file=policies/a b.yaml,line=8,col=3,title=invalid-value::shop/a: spec.limit: 100%25 wrong: a, b and c\\u001b[31m (" + url + "invalid-value)\n" +
		"::warning file=stdin,line=1,col=3,title=window-boundary::shop/a: spec.limit: bursts (" + url + "window-boundary)\n" +
		"::notice file=policies/c.yaml,line=2,col=3,title=overridden::shop/a: spec.limit: overridden (" + url + "overridden)\n" +
		"1 policy\n"
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// GitLab hides an issue with the fingerprint of another one.
func TestWrite_GitLabHasOneFingerprintForEachIssue(t *testing.T) {
	var issues []struct {
		Description, CheckName string `json:"-"`
		Fingerprint            string
		Severity               string
		Location               struct {
			Path  string
			Lines struct{ Begin int }
		}
	}
	text := written(t, newReport(t), findings.GitLab)
	if err := json.Unmarshal(text, &issues); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, issue := range issues {
		if seen[issue.Fingerprint] || issue.Fingerprint == "" || issue.Location.Lines.Begin < 1 || filepath.IsAbs(issue.Location.Path) ||
			!slices.Contains([]string{"info", "minor", "major"}, issue.Severity) {
			t.Errorf("%+v", issue)
		}
		seen[issue.Fingerprint] = true
	}
	if len(issues) != 4 {
		t.Errorf("%d issues:\n%s", len(issues), text)
	}
	moved := newReport(t)
	moved.Findings[0].Line = 100
	if before, after := string(text), string(written(t, moved, findings.GitLab)); strings.Replace(before, `"begin": 7`, `"begin": 100`, 1) != after {
		t.Error("a fingerprint depends on the line")
	}
	if empty := written(t, &findings.Report{}, findings.GitLab); string(empty) != "[]\n" {
		t.Errorf("%q", empty)
	}
}

func TestWrite_JUnitHasATestForEachObject(t *testing.T) {
	for strict, failures := range map[bool]int{false: 1, true: 2} {
		r := newReport(t)
		r.Strict = strict
		var suites findings.Suites
		text := written(t, r, findings.JUnit)
		if err := xml.Unmarshal(text, &suites); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if suites.Failures != failures || suites.Tests != 4 || !r.Failed() {
			t.Errorf("strict %t: %d of %d tests fail:\n%s", strict, suites.Failures, suites.Tests, text)
		}
		if first := suites.Suites[0].Cases[0]; len(first.Failures) != 2 || first.File != "policies/a b.yaml" || first.Failures[0].Type != lintrule.InvalidValue {
			t.Errorf("%+v", first)
		}
	}
}

func TestReport_SuppressedFindingsDoNotFail(t *testing.T) {
	r := newReport(t)
	r.Strict, r.Findings = true, r.Findings[3:]
	if r.Failed() {
		t.Error("a note and a suppressed warning fail")
	}
	r.Findings[1].Suppressed = ""
	if !r.Failed() {
		t.Error("a warning does not fail with strict")
	}
}

func TestWriteText_IsBounded(t *testing.T) {
	r := &findings.Report{Summary: "many"}
	for i := range findings.MaxPrinted + 7 {
		r.Findings = append(r.Findings, findings.Finding{Rule: "a", Severity: lintrule.Error, File: "a.yaml", Line: i + 1, Message: "wrong"})
	}
	lines := strings.Split(string(written(t, r, findings.Text)), "\n")
	if len(lines) != findings.MaxPrinted+3 || lines[findings.MaxPrinted] != "and 7 more" {
		t.Error(len(lines), fmt.Sprint(lines[len(lines)-3:]))
	}
}

// Code hosts find a file only by its path from the root of the repository, however the command line names it.
func TestWrite_PathsAreRelative(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for given, want := range map[string]string{
		"a.yaml": "a.yaml", "./a.yaml": "a.yaml", filepath.Join(dir, "b", "a.yaml"): "b/a.yaml", filepath.Join("..", filepath.Base(dir), "a.yaml"): "a.yaml",
		filepath.Join("..", "elsewhere", "a.yaml"): "../elsewhere/a.yaml", "-": "stdin",
	} {
		var b strings.Builder
		r := findings.Report{Findings: []findings.Finding{{Rule: lintrule.InvalidValue, Severity: lintrule.Error, File: given, Line: 1, Message: "a"}}}
		if err := r.Write(&b, findings.GitLab); err != nil || !strings.Contains(b.String(), `"path": "`+want+`"`) {
			t.Errorf("%s: %v, want the path %s\n%s", given, err, want, b.String())
		}
	}
}
