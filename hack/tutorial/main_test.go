package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun_ComparesOutputWithThePage(t *testing.T) {
	for _, c := range []struct{ name, block, err string }{
		{"equal output", "$ echo a; echo b\na\nb", ""},
		{"another line", "$ echo a\nb", "page.md:2: the output differs"},
		{"a missing line", "$ seq 1\n1\n2", "page.md:2: the output differs"},
		{"an additional line", "$ echo a; echo b\na", "page.md:2: the output differs"},
		{"any text within a line", "$ echo 'took 12 ms'\ntook … ms", ""},
		{"any lines", "$ seq 9\n1\n…\n9", ""},
		{"variables last", "$ x=1\n$ echo $x\n1", ""},
		{"a continued command", "$ echo a \\\n    b\na b", ""},
		{"an expected failure", "$ ls /nowhere\n…No such file…", ""},
		{"an unexpected failure", "$ echo a && false", "page.md:2: the command failed with exit status 1"},
		{"a skipped command", "$ kind create cluster && false", ""},
		{"output without a newline", "$ printf a\na", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			page := filepath.Join(t.TempDir(), "page.md")
			if err := os.WriteFile(page, []byte("```console\n"+c.block+"\n```\n\n```yaml\n$ false\n```\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			err := run(t.Context(), page, "^kind ")
			switch {
			case c.err == "" && err != nil:
				t.Errorf("unexpected error: %v", err)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("got error %v, want one that contains %q", err, c.err)
			}
		})
	}
}

func TestRun_FailsForAPageWithoutCommands(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("# Title\n\n    $ true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), page, "^$"); err == nil {
		t.Error("no error")
	}
}
