package main

import (
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

const example = `package example

const Size = 2 * 3

type flag bool

func Result(a, b int, on, off bool) string {
	n := a*10 - b
	n += 2
	if a < b && on ||
		!off {
		n++
	}
	for i := 0; i < a && i < 10; i++ {
		if i == 1 {
			continue
		}
		n = n % 7
	}
	var odd flag = n%2 == 1
	if odd {
		return "odd " + name(-n)
	}
	return name(n)
}

func strings(int) string { return "" }

func odd(n int) int {
	for { // the function must not leave the loop
		if n == 0 {
			n = 1
			continue
		}
		return n
	}
}

func name(n int) string {
	if n < 0 {
		return "negative"
	}
	_ = "a" +
		"b" + strings(n)
	names := []string{"zero", "one", "two", "three", "four", "five", "six"}
	if n < len(names) {
		return names[n]
	}
	return "many"
}
`

// gremlinsOf returns the mutants that gremlins reports for a file: each rule for each operator.
func gremlinsOf(t *testing.T, name, source string) []*Mutant {
	t.Helper()
	report := gremlinsReport{}
	report.Files = append(report.Files, struct {
		Name      string `json:"file_name"`
		Mutations []struct {
			Rule   string `json:"type"`
			Status string `json:"status"`
			Line   int    `json:"line"`
			Column int    `json:"column"`
		} `json:"mutations"`
	}{Name: name})
	for i, line := range strings.Split(source, "\n") {
		for column := range line {
			if column > 0 && strings.ContainsAny(line[column-1:column], "+-<>=!&|") || strings.HasPrefix(line[column:], ":=") {
				continue
			}
			for rule, replacements := range gremlinsRules() {
				for operator := range replacements {
					rest, found := strings.CutPrefix(line[column:], operator)
					if found && (rest == "" || !strings.ContainsAny(rest[:1], "+-<>=!&|")) {
						report.Files[0].Mutations = append(report.Files[0].Mutations, struct {
							Rule   string `json:"type"`
							Status string `json:"status"`
							Line   int    `json:"line"`
							Column int    `json:"column"`
						}{rule, "RUNNABLE", i + 1, column + 1})
					}
				}
			}
		}
	}
	data, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, name), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	output := filepath.Join(root, "gremlins.json")
	if err := os.WriteFile(output, data, 0o600); err != nil {
		t.Fatal(err)
	}
	mutants, err := readGremlins(root, ".", output)
	if err != nil {
		t.Fatal(err)
	}
	return mutants
}

// run prints Result for some arguments, with the mutant of an environment.
const run = `package example

import (
	"fmt"
	"testing"
)

func TestResult(t *testing.T) {
	for a := range 4 {
		for b := range 4 {
			for _, on := range []bool{true, false} {
				fmt.Println(Size, Result(a, b, on, true), Result(b, a, on, false))
			}
		}
	}
}
`

// For every mutant with an id, the program with all mutants prints what a program with this mutant alone prints.
func TestNewSchema_BehavesAsEachMutantAlone(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example\n\ngo 1.26\n", "example.go": example, "example_test.go": run} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	temporary := t.TempDir()
	s := &suite{root: root, folder: "."}
	binary := filepath.Join(temporary, "all.test")
	mutants := gremlinsOf(t, "example.go", example)
	schema, err := newSchema(root, ".", temporary, mutants, func(overlay string) ([]byte, error) {
		return s.build(t.Context(), binary, overlay)
	})
	if err != nil {
		t.Fatal(err)
	}
	if output, err := s.build(t.Context(), binary, schema.overlay); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	usual := outputOf(t, binary, 0)
	together, seen := 0, map[string]bool{"INCREMENT_DECREMENT": true} // i-- does not end
	for _, m := range mutants {
		if m.id != 0 {
			together++
		}
		if m.id == 0 || seen[m.Rule] || seen[m.Rule+m.text] { // a build takes half a second
			continue
		}
		seen[m.Rule+m.text] = true
		changed, overlay := filepath.Join(temporary, "one.go"), filepath.Join(temporary, "one.json")
		if err := os.WriteFile(changed, m.apply([]byte(example)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := writeOverlay(overlay, map[string]string{filepath.Join(root, "example.go"): changed}); err != nil {
			t.Fatal(err)
		}
		alone := filepath.Join(temporary, "one.test")
		if output, err := s.build(t.Context(), alone, overlay); err != nil {
			t.Errorf("%s: %v\n%s", describe(m), err, output)
			continue
		}
		want, got := outputOf(t, alone, 0), outputOf(t, binary, m.id)
		if got != want {
			t.Errorf("%s: together with the other mutants it prints\n%s\nalone it prints\n%s", describe(m), got, want)
		}
		if m.Rule == "ARITHMETIC_BASE" && got == usual {
			t.Errorf("%s prints the same as the code", describe(m))
		}
	}
	if together < 15 {
		t.Errorf("only %d of %d mutants are in the program", together, len(mutants))
	}
	for _, m := range mutants { // a constant, and a condition of a type that is not bool
		if (m.Before == "const Size = 2 * 3" || m.Before == "if odd {") && m.id != 0 {
			t.Errorf("%s has an id, but does not compile with the others", describe(m))
		}
	}
}

func TestSupportFile_ReplacesEmbeddedScripts(t *testing.T) {
	root, temporary := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example\n\ngo 1.26\n", "one.lua": "one ", "two.lua": "two",
		"example.go": `package example

import (
	"embed"
	"io/fs"
)

var (
	//go:embed one.lua
	one string
	//go:embed *.lua
	embedded embed.FS
	parts    fs.FS = embedded
)

func scripts() string {
	two, _ := fs.ReadFile(parts, "two.lua")
	return one + string(two)
}
`,
		"example_test.go": "package example\n\nimport (\n\t\"fmt\"\n\t\"testing\"\n)\n\nfunc TestScripts(t *testing.T) { fmt.Println(scripts()) }\n",
		"changed.lua":     "mutant ",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, binary := &suite{root: root, folder: "."}, filepath.Join(temporary, "all.test")
	schema, err := newSchema(root, ".", temporary, nil, func(overlay string) ([]byte, error) { return s.build(t.Context(), binary, overlay) })
	if err != nil {
		t.Fatal(err)
	}
	if output, err := s.build(t.Context(), binary, schema.overlay); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for script, want := range map[string]string{"": "one two\n", "one.lua": "mutant two\n", "two.lua": "one mutant \n"} {
		t.Setenv(scriptName, script)
		t.Setenv(scriptFile, filepath.Join(root, "changed.lua"))
		if got := outputOf(t, binary, 0); !strings.HasPrefix(got, want) {
			t.Errorf("with a mutant of %q, the program prints %q, want %q", script, got, want)
		}
	}
}

func outputOf(t *testing.T, binary string, id int) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), binary)
	command.Env = append(os.Environ(), fmt.Sprintf("%s=%d", mutantID, id))
	output, err := command.CombinedOutput()
	lines := strings.Split(string(output), "\n")
	if err != nil {
		return lines[0] // a panic prints addresses
	}
	return string(output)
}

func TestReadGremlins_KeepsTheGroupingOfConditions(t *testing.T) {
	after := map[string]bool{}
	for _, m := range gremlinsOf(t, "a.go", "package a\n\nfunc f(a, b, c bool) bool { return a && b || !c }\n") {
		after[m.After] = true
	}
	for _, want := range []string{
		"func f(a, b, c bool) bool { return (a || b) || !c }",
		"func f(a, b, c bool) bool { return (a && b) && !c }",
	} {
		if !after[want] {
			t.Errorf("no mutant %q in %v", want, after)
		}
	}
}

func TestReadGremlins_HasNoMutantOfAnAddress(t *testing.T) {
	for _, m := range gremlinsOf(t, "a.go", "package a\n\nfunc f(x T) { g(&x) }\n") {
		if m.Rule != dropStatement {
			t.Errorf("mutant %s", describe(m))
		}
	}
}

func TestReadGremlins_HasNoMinusBetweenStrings(t *testing.T) {
	source := "package a\n\nfunc f(s string, n int) (string, int) {\n\ts += \" (\" + s + \")\"\n\treturn s + (s + `:`) + s, n + 1\n}\n"
	var got []string
	for _, m := range gremlinsOf(t, "a.go", source) {
		if m.Rule != dropStatement {
			got = append(got, m.After)
		}
	}
	want := []string{`s = " (" + s + ")"`, "return s + (s + `:`) + s, n - 1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mutants (-want +got):\n%s", diff)
	}
}

func TestOwnMutants_DropStatementsAndNegateConditions(t *testing.T) {
	source := "package a\n\nfunc f(mu M, on bool) {\n\tmu.Lock()\n\tdefer mu.close()\n\tdefer cancel()\n\tdefer timer.Stop()\n\tx := 1\n\tx = 2\n\tlog.Info(x)\n\tlog.FromContext(ctx).Error(err, x)\n\t_ = x\n\tif !on {\n\t\tsend(x)\n\t}\n}\n"
	if _, err := parser.ParseFile(token.NewFileSet(), "a.go", source, 0); err != nil {
		t.Fatal(err)
	}
	mutants, err := ownMutants("a.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range mutants {
		m.show([]byte(source))
		got = append(got, m.Before+" → "+m.After)
	}
	want := "defer mu.close() → (dropped)\nx = 2 → (dropped)\nif !on { → if on {\nsend(x) → (dropped)"
	if strings.Join(got, "\n") != want {
		t.Errorf("mutants\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}
