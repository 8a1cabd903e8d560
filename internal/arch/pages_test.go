package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPages_NamePathsThatExist reads the pages that describe the repository as it is. Decision records describe what was, and can name what has gone.
func TestPages_NamePathsThatExist(t *testing.T) {
	named := 0
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "adr":
			return filepath.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		page, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		paths := repositoryPaths(string(page))
		named += len(paths)
		for _, missing := range missingPaths(paths) {
			t.Errorf("%s names %s, which does not exist", path, missing)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if named < 200 {
		t.Errorf("the pages name %d paths: the search does not find them", named)
	}
}

func TestRepositoryPaths(t *testing.T) {
	page := "`limiter/gone.go`, `limiter/gone`, `limiter/rules`, `go test ./limiter/gone`, `test/arch`\n" +
		"   ```diff internal/compile/gone.go\n" +
		"   -\tremoved\n" +
		"   ```\n" +
		"`limiter/new`\n" +
		"```diff limiter/new/new.go\n" +
		"+package new\n" +
		"```\n"
	want := []string{"limiter/gone.go", "limiter/gone", "limiter/rules", "test/arch", "internal/compile/gone.go"}
	if got := repositoryPaths(page); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := missingPaths(want), slices.Delete(slices.Clone(want), 2, 3); !slices.Equal(got, want) {
		t.Errorf("%q are missing, want %q", got, want)
	}
}

var (
	quotedPath = regexp.MustCompile("`((?:api|charts|cmd|config|controllers|docs|hack|internal|limiter|test|webhook)/[A-Za-z0-9_./-]+)`")
	editedPath = regexp.MustCompile("(?m)^ *```diff (\\S+)\n((?:.*\n)*?) *```$")
)

// repositoryPaths returns the paths that a page names as code, and those of the files that it edits. It omits what the page itself creates:
// a file whose edit only adds lines, and its directories.
func repositoryPaths(page string) (paths []string) {
	created := map[string]bool{}
	var edited []string
	for _, edit := range editedPath.FindAllStringSubmatch(page, -1) {
		onlyAdds := true
		for line := range strings.Lines(edit[2]) {
			text := strings.TrimSpace(line)
			onlyAdds = onlyAdds && (text == "" || text[0] == '+')
		}
		if !onlyAdds {
			edited = append(edited, edit[1])
			continue
		}
		for path := edit[1]; path != "."; path = filepath.Dir(path) {
			created[path] = true
		}
	}
	for _, match := range quotedPath.FindAllStringSubmatch(page, -1) {
		if path := strings.TrimSuffix(match[1], "/"); !created[path] && !strings.Contains(path, "NAME") && !strings.Contains(path, "...") {
			paths = append(paths, path)
		}
	}
	return append(paths, edited...)
}

func missingPaths(paths []string) (missing []string) {
	for _, path := range paths {
		if _, err := os.Lstat(filepath.Join(root, filepath.FromSlash(path))); err != nil {
			missing = append(missing, path)
		}
	}
	return missing
}
