// Package contributing has a test for the pages in docs/contributing: it does what they describe.
package contributing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.." // the directory of the module, relative to this package

// contribution is a page of docs/contributing that adds something which Weir does not have.
type contribution struct {
	page string
	// generators are the parts of make generate that can change files because of the page: makeAPI, or packages whose tests write reference pages.
	generators []string
	// tests of a package that the page adds or changes. They pass only if all of its steps have been followed.
	pkg   string
	tests []string
}

const makeAPI = "generate-api"

func contributions() []contribution {
	return []contribution{
		{"add-a-policy-field.md", []string{makeAPI}, "internal/compile", []string{"TestGolden/contact", "TestIsRedundant_ConsidersEveryFieldOfARule"}},
		{"add-a-metric.md", []string{"cmd/weir"}, "limiter/server", []string{"TestCheck_CountsTheBytesOfBodies"}},
		{"add-a-decision-layer.md", nil, "limiter/store", []string{"TestChain_DeniesClosedPolicies", "TestChain_Conforms"}},
		{"add-an-endpoint.md", []string{"cmd/weir", "cmd/kubectl-weir"}, "limiter/server", []string{"TestPeek_CountsNothing"}},
	}
}

// TestPages_AddWhatTheyDescribe follows each page on a copy of the repository: it makes the edits, generates, and runs the tests that the page adds.
// The files that differ then must be those that the page names. Programs are built in this directory with the changed files as an overlay, so
// that the go command compiles only what the edits change. They run in the copy.
func TestPages_AddWhatTheyDescribe(t *testing.T) {
	for _, c := range contributions() {
		t.Run(c.page, func(t *testing.T) {
			text := readPage(t, "docs/contributing/"+c.page)
			s := copyRepository(t)
			want := s.edit(text)
			for _, line := range regexp.MustCompile("(?m)^   - .*$").FindAllString(text, -1) {
				for _, path := range regexp.MustCompile("`([^`]+/[^`]+\\.[a-z]+)`").FindAllStringSubmatch(line, -1) {
					want = append(want, path[1])
				}
			}
			s.generate(c.generators)
			for _, test := range c.tests {
				if out := s.test(c.pkg, "-test.v", "-test.run=^"+strings.ReplaceAll(test, "/", "$/^")+"$"); !strings.Contains(out, "--- PASS: "+test+" ") {
					t.Errorf("%s has no %s:\n%s", c.pkg, test, out)
				}
			}
			slices.Sort(want)
			if got, want := s.changed(), slices.Compact(want); !slices.Equal(got, want) {
				t.Errorf("the steps change\n%s\nand the page names\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// TestPages_NameEachListOfEndpoints keeps the page complete about lists that no test compares.
func TestPages_NameEachListOfEndpoints(t *testing.T) {
	page := readPage(t, "docs/contributing/add-an-endpoint.md")
	list, found := regexp.MustCompile(`\bcheck\W+auth\W+rls\W+ext_authz\b`), 0
	for _, path := range sources(t) {
		isProduct := strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "docs/reference/")
		if !isProduct || !list.MatchString(readPage(t, path)) {
			continue
		}
		found++
		if !strings.Contains(page, path) {
			t.Errorf("%s lists the endpoints, and the page about endpoints does not name it", path)
		}
	}
	if found < 3 {
		t.Errorf("%d files list the endpoints", found)
	}
}

// sources returns the paths of the files of the repository that git does not ignore.
func sources(t *testing.T) (paths []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	for path := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if info, err := os.Lstat(filepath.Join(root, path)); err == nil && info.Mode().IsRegular() { // git lists deleted files too
			paths = append(paths, path)
		}
	}
	return paths
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// scratch is a copy of the repository.
type scratch struct {
	*testing.T

	dir      string
	original map[string][]byte // by path
}

func copyRepository(t *testing.T) scratch {
	t.Helper()
	s := scratch{t, t.TempDir(), map[string][]byte{}}
	for _, path := range sources(t) {
		s.original[path] = []byte(readPage(t, path))
		s.write(path, s.original[path])
		if strings.HasSuffix(path, ".sh") {
			if err := os.Chmod(s.path(path), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

func (s scratch) path(path string) string { return filepath.Join(s.dir, filepath.FromSlash(path)) }

func (s scratch) write(path string, content []byte) {
	s.Helper()
	if err := os.MkdirAll(filepath.Dir(s.path(path)), 0o755); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(s.path(path), content, 0o644); err != nil {
		s.Fatal(err)
	}
}

// edit makes the edits of a page, and returns the paths of their files. An edit is a block of code with the language diff and the path of the
// file. Its lines without a sign and those with a minus are in the file once. A block that has only lines with a plus is a new file.
func (s scratch) edit(page string) (paths []string) {
	s.Helper()
	for _, block := range regexp.MustCompile("(?ms)^   ```diff (\\S+)\n(.*?)^   ```$").FindAllStringSubmatch(page, -1) {
		path := block[1]
		var before, after strings.Builder
		for line := range strings.Lines(block[2]) {
			sign, line := strings.TrimPrefix(line, "   ")[:1], strings.TrimPrefix(line, "   ")[1:]
			if sign != "+" {
				before.WriteString(line)
			}
			if sign != "-" {
				after.WriteString(line)
			}
		}
		paths = append(paths, path)
		if before.Len() == 0 {
			s.write(path, []byte(after.String()))
			continue
		}
		content, err := os.ReadFile(s.path(path))
		if n := bytes.Count(content, []byte(before.String())); err != nil || n != 1 {
			s.Fatalf("%s has %d times the lines of the page (%v):\n%s", path, n, err, before.String())
		}
		s.write(path, bytes.Replace(content, []byte(before.String()), []byte(after.String()), 1))
	}
	if len(paths) == 0 {
		s.Fatal("the page has no edit")
	}
	return paths
}

// generate does what make generate does with the generators.
func (s scratch) generate(generators []string) {
	s.Helper()
	for _, generator := range generators {
		if generator != makeAPI {
			s.test(generator, "-test.run=^TestReference_", "-update")
			continue
		}
		s.run(s.dir, "make", makeAPI)
		s.run(s.dir, "hack/install.sh", "chart")
		s.write("docs/reference/api.md", s.run(root, "go", "run", "-overlay="+s.overlay(), "./hack/apireference"))
	}
}

// test builds the tests of a package with the edits, runs them in the copy, and returns what they print.
func (s scratch) test(pkg string, arguments ...string) string {
	s.Helper()
	program := filepath.Join(s.TempDir(), "test")
	s.run(root, "go", "test", "-c", "-vet=off", "-ldflags=-s", "-overlay="+s.overlay(), "-o", program, "./"+pkg)
	return string(s.run(s.path(pkg), program, arguments...))
}

// overlay returns the file that makes the go command read the changed files of the copy instead of the original ones.
func (s scratch) overlay() string {
	s.Helper()
	absolute, err := filepath.Abs(root)
	if err != nil {
		s.Fatal(err)
	}
	replace := map[string]string{}
	for _, path := range s.changed() {
		replace[filepath.Join(absolute, filepath.FromSlash(path))] = s.path(path)
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		s.Fatal(err)
	}
	file := filepath.Join(s.TempDir(), "overlay.json")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		s.Fatal(err)
	}
	return file
}

// changed returns the paths of files that differ from the original ones, sorted. A deleted file is followed by that fact.
func (s scratch) changed() (paths []string) {
	s.Helper()
	present := map[string]bool{}
	err := filepath.WalkDir(s.dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		path := filepath.ToSlash(strings.TrimPrefix(file, s.dir+string(filepath.Separator)))
		present[path] = true
		if before, existed := s.original[path]; !existed || !bytes.Equal(before, content) {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
	for path := range s.original {
		if !present[path] {
			paths = append(paths, path+" (deleted)")
		}
	}
	slices.Sort(paths)
	return paths
}

func (s scratch) run(dir, name string, arguments ...string) []byte {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), name, arguments...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		s.Fatal(fmt.Errorf("%s: %w\n%s%s", cmd, err, out, &stderr))
	}
	return out
}
