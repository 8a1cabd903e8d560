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
	page, tests := readPage(t, "test/README.md"), testsByPackage(t)
	for _, problem := range slices.Concat(missingTests(page, tests), missingPackages(page, tests)) {
		t.Errorf("test/README.md: %s", problem)
	}
}

// TestPages_NameTestsThatExist checks the tests that pages name as the proof of what they state.
func TestPages_NameTestsThatExist(t *testing.T) {
	for name, least := range map[string]int{"docs/concepts/security.md": 20, "docs/contributing/deployability.md": 20} {
		page := readPage(t, name)
		if named := strings.Count(page, "`Test"); named < least {
			t.Errorf("%s names %d tests, want one for each statement", name, named)
		}
		for _, problem := range missingTests(page, testsByPackage(t)) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

func TestSuites_ReportsWhatIsMissing(t *testing.T) {
	tests := map[string][]string{"a": {"TestA"}, "a/b": {"TestB"}, "c": {"TestC"}, "hack/d": {"TestD"}}
	for page, want := range map[string][]string{
		"`a`, `a/b`, `c`":             nil,
		"`a` `TestA`, `a/b`, `c`":     nil,
		"`a/b`, `c`":                  {"no package a"},
		"`a`, `a/b` `TestA`\n`c`":     {"there is no TestA in a/b"},
		"`a`, `a/b`, `c`\n`TestB`":    nil,
		"`a`, `a/b`, `c`\n`TestGone`": {"there is no TestGone in any package"},
	} {
		if got := slices.Concat(missingTests(page, tests), missingPackages(page, tests)); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", page, got, want)
		}
	}
}

var quoted = regexp.MustCompile("`([^`]+)`")

// missingTests returns a message for each test on the page that does not exist in the last package before it in the same line, or in any
// package if there is no package before it.
func missingTests(page string, tests map[string][]string) []string {
	var problems []string
	for line := range strings.Lines(page) {
		in, all := "any package", slices.Concat(slices.Collect(maps.Values(tests))...)
		for _, word := range quoted.FindAllStringSubmatch(line, -1) {
			name := word[1]
			if list, found := tests[name]; found {
				in, all = name, list
			} else if strings.HasPrefix(name, "Test") && !slices.Contains(all, name) {
				problems = append(problems, fmt.Sprintf("there is no %s in %s", name, in))
			}
		}
	}
	return problems
}

// missingPackages returns a message for each package in tests that the page does not name, except the tools in hack.
func missingPackages(page string, tests map[string][]string) []string {
	named := map[string]bool{}
	for _, word := range quoted.FindAllStringSubmatch(page, -1) {
		named[word[1]] = true
	}
	var problems []string
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
