package deployment

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
)

// A reader who copies a name from the docs reaches the Service of a Limiter with the name "default".
func TestName_MatchesTheServiceNamesInTheDocs(t *testing.T) {
	root, err := fixture.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	var pages []string
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	host, found := regexp.MustCompile(`(weir-limiter[a-z-]*)\.weir-system\b`), 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range host.FindAllSubmatch(text, -1) {
			found++
			if got := string(name[1]); got != Name("default") {
				t.Errorf("%s names the Service %s, want %s", page, got, Name("default"))
			}
		}
	}
	if found < 4 {
		t.Errorf("found only %d names of Services", found)
	}
}
