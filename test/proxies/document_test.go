package proxies_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
)

// document is docs/how-to/forward-auth.md: its code blocks by the text after the opening fence, such as "nginx closed".
func document(t *testing.T) map[string]string {
	t.Helper()
	root, err := fixture.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "how-to", "forward-auth.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]string{}
	parts := strings.Split(string(text), "```")
	for i := 1; i < len(parts); i += 2 {
		info, block, _ := strings.Cut(parts[i], "\n")
		blocks[info] = block
	}
	return blocks
}

// replace replaces every occurrence of each old in text. It fails the test if one is missing, because then the document has changed.
func replace(t *testing.T, text string, oldNew ...string) string {
	t.Helper()
	for i := 0; i < len(oldNew); i += 2 {
		if !strings.Contains(text, oldNew[i]) {
			t.Fatalf("docs/how-to/forward-auth.md: %q not found in\n%s", oldNew[i], text)
		}
		text = strings.ReplaceAll(text, oldNew[i], oldNew[i+1])
	}
	return text
}
