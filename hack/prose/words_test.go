package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestRules_FindTheirSentences splits the rules into one rule for each word and expects Vale to report each of them for some
// sentence of testdata/words.txt. A rule with a mistake in its expression reports nothing.
func TestRules_FindTheirSentences(t *testing.T) {
	dir := t.TempDir()
	words := splitRules(t, filepath.Join(dir, "styles", "One"))
	write(t, filepath.Join(dir, ".vale.ini"), "StylesPath = styles\nMinAlertLevel = error\n[*.md]\nBasedOnStyles = One\n")
	page := filepath.Join(dir, "words.md")
	write(t, page, strings.Join(sentences(t), "\n\n"))
	out := vale(t, filepath.Join(dir, ".vale.ini"), page)
	for rule, word := range words {
		if !strings.Contains(out, ":One."+rule+":") {
			t.Errorf("no sentence of testdata/words.txt is reported for %q: add one, or repair the expression", word)
		}
	}
}

// TestConfigurations_ReportEverySentence writes the sentences as each kind of text that make lint checks.
func TestConfigurations_ReportEverySentence(t *testing.T) {
	const prose, code = "../../.vale.ini", "code.ini"
	for _, c := range []struct {
		name, config, file, before, sentence string
		none                                 bool // the rule None applies
	}{
		{"a page", prose, "page.md", "", "%s\n\n", true},
		{"comments of Go", prose, "code.go", "package code\n", "// %s\nvar _ = 1\n", true},
		{"comments of Lua", prose, "script.lua", "", "-- %s\nlocal x = 1\n", true},
		{"a manifest", prose, "object.yaml", "", "description: %s\n", false},
		{"messages of Go", code, "code.go", "package code\n", "var _ = %q\n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := sentences(t)
			var text strings.Builder
			text.WriteString(c.before)
			lines := make([]int, len(all)) // of each sentence, from 1
			for i, s := range all {
				lines[i] = 1 + strings.Count(text.String(), "\n")
				fmt.Fprintf(&text, c.sentence, s)
			}
			file := filepath.Join(t.TempDir(), c.file)
			write(t, file, text.String())
			out := vale(t, c.config, file)
			for i, s := range all {
				if strings.Contains(s, "has none") && !c.none {
					continue
				}
				if !strings.Contains(out, fmt.Sprintf("%s:%d:", file, lines[i])) {
					t.Errorf("Vale reports nothing for %q:\n%s", s, text.String())
				}
			}
		})
	}
}

// TestCheck_ReportsBrokenLinks breaks a link in each way.
func TestCheck_ReportsBrokenLinks(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "docs", "b.md"), "# The `limit` of a policy\n\n# Twice\n\n# Twice\n")
	write(t, filepath.Join(dir, "a.md"), strings.Join([]string{
		"# Top", "[1](docs/b.md)", "[2](docs/b.md#the-limit-of-a-policy)", "[3](docs/b.md#twice-1)", "[4](#top)", "[5](https://weir.example/none.md)", "[6](docs)",
		"[7](docs/c.md)", "[8](docs/b.md#twice-2)", "[9](#bottom)", "![10](docs/picture.svg)",
	}, "\n\n"))
	if out, err := exec.Command("git", "-C", dir, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	problems, links, err := check(dir)
	if err != nil {
		t.Fatal(err)
	}
	if links != 9 {
		t.Errorf("found %d relative links, want 9", links)
	}
	want := []string{
		`a.md:15: link "docs/c.md": no such file in the repository`,
		`a.md:17: link "docs/b.md#twice-2": docs/b.md has no heading with this anchor`,
		`a.md:19: link "#bottom": a.md has no heading with this anchor`,
		`a.md:21: link "docs/picture.svg": no such file in the repository`,
	}
	if got := strings.Join(problems, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// splitRules writes one rule to dir for each word of styles/Weir, and returns the words by the names of their rules.
func splitRules(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob("styles/Weir/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no rules in styles/Weir: %v", err)
	}
	words := map[string]string{}
	add := func(rule map[string]any, word string) {
		name := fmt.Sprintf("R%d", len(words))
		words[name] = word
		text, err := yaml.Marshal(rule)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name+".yml"), string(text))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var rule struct {
			Extends, Message, Level string
			Ignorecase              bool
			Tokens                  []string
			Swap                    map[string]string
		}
		if err := yaml.Unmarshal(text, &rule); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		base := func() map[string]any {
			return map[string]any{"extends": rule.Extends, "message": rule.Message, "level": rule.Level, "ignorecase": rule.Ignorecase}
		}
		for _, token := range rule.Tokens {
			one := base()
			one["tokens"] = []string{token}
			add(one, token)
		}
		for word, term := range rule.Swap {
			one := base()
			one["swap"] = map[string]string{word: term}
			add(one, word)
		}
	}
	return words
}

// sentences are the lines of testdata/words.txt.
func sentences(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/words.txt")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// vale returns one line for each alert.
func vale(t *testing.T, config, file string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command("go", "tool", "-modfile=../tools/go.mod", "vale", "--config="+config, "--output=line", file)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) { // 1: there are alerts
		t.Fatalf("vale: %v\n%s%s", err, out, stderr.String())
	}
	return string(out)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
