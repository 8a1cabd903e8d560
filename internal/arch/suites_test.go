package arch

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSuites_AreListedWithTestsThatExist compares test/README.md with the test functions of all modules: the page names every package
// with tests except the tools in hack, and every test that it names is in the package before it.
func TestSuites_AreListedWithTestsThatExist(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "test", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range checkSuites(string(page), testsByPackage(t)) {
		t.Errorf("test/README.md: %s", problem)
	}
}

func TestCheckSuites_ReportsWhatIsMissing(t *testing.T) {
	tests := map[string][]string{"a": {"TestA"}, "a/b": {"TestB"}, "c": {"TestC"}, "hack/d": {"TestD"}}
	for page, want := range map[string][]string{
		"`a`, `a/b`, `c`":             nil,
		"`a` `TestA`, `a/b`, `c`":     nil,
		"`a/b`, `c`":                  {"no package a"},
		"`a`, `a/b` `TestA`\n`c`":     {"there is no TestA in a/b"},
		"`a`, `a/b`, `c`\n`TestB`":    nil,
		"`a`, `a/b`, `c`\n`TestGone`": {"there is no TestGone in any package"},
	} {
		if got := checkSuites(page, tests); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", page, got, want)
		}
	}
}

// checkSuites returns a message for each package in tests that page does not name, and for each test on the page that does not exist in
// the last package before it in the same line, or in any package if there is no package before it.
func checkSuites(page string, tests map[string][]string) []string {
	quoted := regexp.MustCompile("`([^`]+)`")
	named := map[string]bool{}
	var problems []string
	for line := range strings.Lines(page) {
		in, all := "any package", slices.Concat(slices.Collect(maps.Values(tests))...)
		for _, word := range quoted.FindAllStringSubmatch(line, -1) {
			name := word[1]
			if list, found := tests[name]; found {
				in, all = name, list
				named[name] = true
			} else if strings.HasPrefix(name, "Test") && !slices.Contains(all, name) {
				problems = append(problems, fmt.Sprintf("there is no %s in %s", name, in))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		if !named[name] && !covers("hack/...", name) {
			problems = append(problems, "no package "+name)
		}
	}
	return problems
}

// testsByPackage returns the names of the tests in each folder.
func testsByPackage(t *testing.T) map[string][]string {
	t.Helper()
	declaration := regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(t \*testing\.T\)`)
	tests := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
				return fs.SkipDir
			}
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		for _, name := range declaration.FindAllStringSubmatch(string(text), -1) {
			if name[1] != "TestMain" {
				tests[filepath.ToSlash(folder)] = append(tests[filepath.ToSlash(folder)], name[1])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}
