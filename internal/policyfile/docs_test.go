package policyfile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
)

// TestDocs_PrintValidObjects loads every complete Weir object in docs. It expects no problems and no warnings.
func TestDocs_PrintValidObjects(t *testing.T) {
	schema, err := apischema.New()
	if err != nil {
		t.Fatal(err)
	}
	loader := policyfile.NewLoader(compile.DefaultIdentity(), schema)
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	found := 0
	err = filepath.WalkDir("../../docs", func(page string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(page) != ".md" {
			return err
		}
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		var objects []string
		for _, yaml := range block.FindAllSubmatch(text, -1) {
			if strings.HasPrefix(string(yaml[1]), "apiVersion: weir.dev/") {
				objects = append(objects, string(yaml[1]))
			}
		}
		result, err := loader.Load(strings.NewReader(strings.Join(objects, "---\n")), "-")
		if err != nil {
			return err
		}
		for _, problem := range result.Problems {
			t.Errorf("%s: %v", page, problem)
		}
		for _, warning := range result.Warnings() {
			t.Errorf("%s: warning: %v", page, warning)
		}
		found += len(objects)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 15 {
		t.Errorf("found %d code blocks with objects in docs, want at least 15", found)
	}
}
