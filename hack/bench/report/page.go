package report

import (
	"fmt"
	"os"
	"strings"
)

// Markdown returns the table for a page, below its title.
func (t Table) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s.\n\n", t.Title)
	for i, row := range t.Rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString("|" + strings.Repeat("---|", len(row)) + "\n")
		}
	}
	return b.String()
}

// WritePart replaces the part of a page between the lines <!-- NAME: begin … --> and <!-- NAME: end -->.
func WritePart(path, name, text string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, hasBegin := strings.Cut(string(page), "<!-- "+name+": begin")
	mark, rest, hasMark := strings.Cut(rest, "-->\n")
	_, after, hasEnd := strings.Cut(rest, "<!-- "+name+": end -->")
	if !hasBegin || !hasMark || !hasEnd {
		return fmt.Errorf("%s must contain the lines <!-- %s: begin --> and <!-- %[2]s: end -->", path, name)
	}
	text = before + "<!-- " + name + ": begin" + mark + "-->\n\n" + strings.TrimSpace(text) + "\n\n<!-- " + name + ": end -->" + after
	return os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // the developer names the page
}
