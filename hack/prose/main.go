// Program prose resolves the links in the Markdown files of the repository, offline: the file that a relative link names
// must exist, and have the heading that its fragment names. It prints one line per broken link and fails if there is any.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// root is the repository, seen from this module.
const root = "../.."

func main() {
	problems, links, err := check(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
	for _, p := range problems {
		fmt.Println(p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
	fmt.Printf("prose: %d relative links resolve\n", links)
}

// check returns a line for each broken link below dir, and the number of relative links.
func check(dir string) (problems []string, links int, err error) {
	list := exec.CommandContext(context.Background(), "git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md")
	list.Dir = dir
	out, err := list.Output()
	if err != nil {
		return nil, 0, fmt.Errorf("list the Markdown files: %w", err)
	}
	pages := map[string]*page{}
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSuffix(name, "\n")
		p, err := load(dir, name)
		if errors.Is(err, fs.ErrNotExist) { // deleted, and not yet committed
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		pages[name] = p
	}
	if len(pages) == 0 {
		return nil, 0, fmt.Errorf("no Markdown file in %s", dir)
	}
	for name, p := range pages {
		for _, l := range p.links {
			links++
			if why := broken(dir, name, l, pages); why != "" {
				problems = append(problems, fmt.Sprintf("%s:%d: link %q: %s", name, l.line, l.target, why))
			}
		}
	}
	slices.Sort(problems)
	return problems, links, nil
}

// page is what links need of a Markdown file.
type page struct {
	anchors map[string]bool
	links   []link
}

type link struct {
	target string // relative: a path, a fragment or both
	line   int
}

func load(dir, name string) (*page, error) {
	source, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return nil, fmt.Errorf("read a page: %w", err)
	}
	p := &page{anchors: map[string]bool{}}
	document := goldmark.New(goldmark.WithParserOptions(parser.WithAutoHeadingID())).Parser().Parse(text.NewReader(source))
	err = ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			p.addAnchor(anchor(string(n.Lines().Value(source))))
		case *ast.Link:
			p.addLink(string(n.Destination), lineOf(n, source))
		case *ast.Image:
			p.addLink(string(n.Destination), lineOf(n, source))
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, fmt.Errorf("walk %s: %w", name, err)
	}
	return p, nil
}

// addAnchor adds the anchor of a heading; a second heading with the same text gets -1, and so on, as GitHub does it.
func (p *page) addAnchor(name string) {
	unique := name
	for i := 1; p.anchors[unique]; i++ {
		unique = fmt.Sprintf("%s-%d", name, i)
	}
	p.anchors[unique] = true
}

func (p *page) addLink(target string, line int) {
	if u, err := url.Parse(target); err == nil && u.IsAbs() {
		return
	}
	p.links = append(p.links, link{target: target, line: line})
}

// anchor is the fragment that GitHub gives a heading: lower case, without punctuation, hyphens for spaces.
func anchor(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case r == ' ':
			b.WriteRune('-')
		case r == '-' || r == '_' || r > 127 || ('a' <= r && r <= 'z') || ('0' <= r && r <= '9'):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// lineOf is the line of the block that n is in, from 1.
func lineOf(n ast.Node, source []byte) int {
	for n != nil && n.Type() != ast.TypeBlock {
		n = n.Parent()
	}
	if n == nil || n.Lines().Len() == 0 {
		return 1
	}
	return 1 + strings.Count(string(source[:n.Lines().At(0).Start]), "\n")
}

// broken returns why a link of the page name does not resolve, "" if it does.
func broken(dir, name string, l link, pages map[string]*page) string {
	path, fragment, _ := strings.Cut(l.target, "#")
	to := name
	if path != "" {
		unescaped, err := url.PathUnescape(path)
		if err != nil {
			return err.Error()
		}
		to = filepath.ToSlash(filepath.Join(filepath.Dir(name), unescaped))
	}
	if _, err := os.Stat(filepath.Join(dir, to)); err != nil {
		return "no such file in the repository"
	}
	if fragment == "" {
		return ""
	}
	if p := pages[to]; p == nil || !p.anchors[fragment] {
		return to + " has no heading with this anchor"
	}
	return ""
}
