package report

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWritePart_ReplacesTheTextBetweenItsMarks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	const before = "# Page\n\n<!-- other: begin -->\nkept\n<!-- other: end -->\n<!-- mine: begin; written by a test -->\n\nold\n\n<!-- mine: end -->\n\nrest\n"
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	table := Table{Title: "Title", Rows: [][]string{{"a", "b"}, {"1", "2"}}}
	for range 2 { // the same text again
		if err := WritePart(path, "mine", table.Markdown()); err != nil {
			t.Fatal(err)
		}
	}
	const want = "# Page\n\n<!-- other: begin -->\nkept\n<!-- other: end -->\n<!-- mine: begin; written by a test -->\n\n" +
		"Title.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n<!-- mine: end -->\n\nrest\n"
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	if err := WritePart(path, "missing", "text"); err == nil {
		t.Error("no error for a page without the marks")
	}
}
