package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the list of packages to "+listPage)

// The size that a reader can keep in mind. Tests and generated code do not count.
const (
	mostFiles = 20
	mostLines = 2500
)

// size is that of a package.
type size struct{ files, lines int }

// goPackage is a package of the module, with its size.
type goPackage struct {
	path, synopsis string
	size
}

// packages returns the packages of the module that have code.
func packages(t *testing.T) []goPackage {
	t.Helper()
	watchSources(t)
	generated := regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`) // build constraints can come before this line
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,Doc,GoFiles", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	var all []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir, Doc string
			GoFiles              []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v", cmd, err)
		}
		found := goPackage{path: strings.TrimPrefix(p.ImportPath, module+"/"), synopsis: p.Doc}
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if !generated.Match(text) {
				found.files++
				found.lines += bytes.Count(text, []byte("\n"))
			}
		}
		if found.files > 0 {
			all = append(all, found)
		}
	}
}

func TestPackages_HaveASizeThatAReaderCanKeepInMind(t *testing.T) {
	for _, p := range packages(t) {
		if p.files > mostFiles || p.lines > mostLines {
			t.Errorf("%s has %d files and %d lines, more than %d or %d: make packages of its parts", p.path, p.files, p.lines, mostFiles, mostLines)
		}
	}
}

const (
	listPage  = "docs/concepts/architecture.md"
	listBegin = "<!-- The packages, from their comments: go test ./internal/arch -run TestPackages_AreListed -update -->\n"
	listEnd   = "<!-- end of the packages -->\n"
)

// TestPackages_AreListedWithTheirComments keeps the list of packages equal to the first sentences of their comments.
func TestPackages_AreListedWithTheirComments(t *testing.T) {
	page := readPage(t, listPage)
	before, rest, found := strings.Cut(page, listBegin)
	listed, after, ended := strings.Cut(rest, listEnd)
	if !found || !ended {
		t.Fatalf("%s has no list of packages: %q and %q must be lines of it", listPage, listBegin, listEnd)
	}
	want := list(t)
	if listed == want {
		return
	}
	if !*update {
		t.Fatalf("%s does not list the packages as their comments do: go test ./internal/arch -run TestPackages_AreListed -update", listPage)
	}
	if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(listPage)), []byte(before+listBegin+want+listEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("| package | contents |\n|---|---|\n")
	for _, p := range packages(t) {
		tree, _, _ := strings.Cut(p.path, "/")
		if tree == "test" || tree == "hack" { // test/README.md and the comments of hack have them
			continue
		}
		if p.synopsis == "" {
			t.Errorf("%s has no comment", p.path)
		}
		fmt.Fprintf(&text, "| `%s` | %s |\n", p.path, contents(p.synopsis))
	}
	return text.String()
}

// contents is a synopsis without its first words, which name the package.
func contents(synopsis string) string {
	words := strings.SplitN(synopsis, " ", 3)
	if len(words) < 3 {
		return synopsis
	}
	return strings.NewReplacer("|", `\|`, "[", "", "]", "").Replace(words[2])
}
