package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseDiff_ReturnsTheLinesThatWereAdded(t *testing.T) {
	got, err := parseDiff(`--- limiter/a.go
+++ limiter/a.go
@@ -3 +3,2 @@ func f() {
@@ -9,2 +10,0 @@
@@ -20,0 +20 @@
--- limiter/gone.go
+++ /dev/null
@@ -1,9 +0,0 @@
`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(changes{"limiter/a.go": {{3, 4}, {20, 20}}}, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	for line, want := range map[int]bool{2: false, 3: true, 4: true, 5: false, 10: false, 20: true} {
		if got.contain(&Mutant{File: "limiter/a.go", Line: line}) != want {
			t.Errorf("line %d changed: %v, want %v", line, !want, want)
		}
	}
}

func TestChanges_PackagesAreThoseWithChangedCode(t *testing.T) {
	c := changes{"limiter/a_test.go": nil, "limiter/local/b.go": nil, "limiter/redisstore/c.lua": nil, "limiter/denials/deep/d.go": nil}
	got := c.packages([]string{"limiter", "limiter/denials", "limiter/local", "limiter/redisstore"})
	if want := []string{"limiter/local", "limiter/redisstore"}; !slices.Equal(got, want) {
		t.Errorf("packages %q, want %q", got, want)
	}
}

func mutantOf(status Status) *Mutant {
	return &Mutant{Package: "p", File: "p/a.go", In: "f", Line: 7, Before: "if a < b {", After: "if a <= b {", Status: status, Killer: "TestF"}
}

func TestExplain_FindsWrongExplanations(t *testing.T) {
	right := Survivor{File: "p/a.go", Line: "if a < b {", Mutants: []string{"if a <= b {"}, Reason: "equal is impossible"}
	elsewhere, other := right, right
	elsewhere.In = "g"
	other.Mutants = []string{"if a > b {"}
	for name, test := range map[string]struct {
		survivor Survivor
		status   Status
		whole    []string
		explains bool
		problem  string
	}{
		"a survivor":                            {right, Survived, []string{"p"}, true, ""},
		"a survivor that no test executes":      {right, NotCovered, []string{"p"}, true, ""},
		"a mutant that a test kills":            {right, Killed, []string{"p"}, false, `"TestF" is killed`},
		"a mutant that does not compile":        {right, NotViable, []string{"p"}, false, "does not compile"},
		"a mutant that was not tested":          {right, "", []string{"p"}, false, ""},
		"another function":                      {elsewhere, Survived, []string{"p"}, false, "no such mutant"},
		"another mutation":                      {other, Survived, []string{"p"}, false, "no such mutant"},
		"a package whose mutants are not known": {other, Survived, nil, false, ""},
	} {
		m := mutantOf(test.status)
		found, problems := explain([]*Survivor{&test.survivor}, []*Mutant{m}, test.whole)
		if (found[m] != nil) != test.explains {
			t.Errorf("%s: explained %v, want %v", name, !test.explains, test.explains)
		}
		if all := strings.Join(problems, "\n"); (all == "") != (test.problem == "") || !strings.Contains(all, test.problem) {
			t.Errorf("%s: problems %q, want %q", name, all, test.problem)
		}
	}
}

func TestRows_ScoreLeavesOutEquivalentMutantsOnly(t *testing.T) {
	var mutants []*Mutant
	why := explained{}
	for range 8 {
		mutants = append(mutants, mutantOf(Killed))
	}
	for _, s := range []*Survivor{nil, {Equivalent: true}, {}} {
		m := mutantOf(Survived)
		if mutants = append(mutants, m); s != nil {
			why[m] = s
		}
	}
	lua := mutantOf(TimedOut)
	lua.File = "p/a.lua"
	mutants = append(mutants, lua, mutantOf(NotCovered), mutantOf(NotViable), mutantOf(""))
	got := rows(mutants, why)
	if len(got) != 2 || got[0].name != "p" || got[1].name != "p (Lua)" {
		t.Fatalf("rows %+v", got)
	}
	want := row{name: "p", mutants: 12, killed: 8, survived: 3, notCovered: 1, explained: 2, equivalent: 1}
	if *got[0] != want {
		t.Errorf("row %+v, want %+v", *got[0], want)
	}
	if score := got[0].score(); score < 0.727 || score > 0.728 { // 8 of 11
		t.Errorf("score %v", score)
	}
	if got[1].killed != 1 || got[1].timedOut != 1 || got[1].score() != 1 {
		t.Errorf("row of the scripts %+v", *got[1])
	}
}

func TestReport_FailsAtASurvivorWithoutAnExplanation(t *testing.T) {
	survivor := &Survivor{File: "p/a.go", Line: "if a < b {", Mutants: []string{"if a <= b {"}, Equivalent: true, Reason: "r"}
	for name, test := range map[string]struct {
		statuses  []Status
		survivors []*Survivor
		fails     string
	}{
		"all killed":                 {[]Status{Killed, Killed}, nil, ""},
		"a survivor":                 {[]Status{Killed, Survived}, nil, "1 mutants survived without an explanation"},
		"an explained survivor":      {[]Status{Survived}, []*Survivor{survivor}, ""},
		"an explanation that lapsed": {[]Status{Killed}, []*Survivor{survivor}, "is killed, remove it"},
	} {
		var mutants []*Mutant
		for _, s := range test.statuses {
			mutants = append(mutants, mutantOf(s))
		}
		root := t.TempDir()
		if err := os.Mkdir(filepath.Join(root, "dist"), 0o700); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		err := (&runner{root: root, out: &out}).report(test.survivors, mutants, mutants, []string{"p"})
		if (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
			t.Errorf("%s: error %v, want %q", name, err, test.fails)
		}
		if text := readFile(t, filepath.Join(root, "dist", "mutation.md")); !strings.Contains(text, "| p | ") {
			t.Errorf("%s: report\n%s", name, text)
		}
	}
}

func TestReadSurvivors_RejectsIncompleteEntries(t *testing.T) {
	for text, want := range map[string]string{
		"[]": "",
		"- {file: a.go, line: x, mutants: [y], reason: r}":         "",
		"- {file: a.go, line: x, mutants: [y]}":                    "needs file, line, mutants and reason",
		"- {file: a.go, line: x, mutants: [], reason: r}":          "needs file, line, mutants and reason",
		"- {file: a.go, line: x, mutants: [y], reason: r, why: w}": "field why not found",
	} {
		file := filepath.Join(t.TempDir(), "survivors.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readSurvivors(file); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

// The explanations of the project are complete, and their files exist.
func TestSurvivors_NameFilesOfTheProject(t *testing.T) {
	survivors, err := readSurvivors("survivors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range survivors {
		if !strings.Contains(oneLine(readFile(t, "../../"+s.File)), oneLine(s.Line)) {
			t.Errorf("%s has no line %q", s.File, s.Line)
		}
	}
}

func TestSuite_RunsTheTestsThatKilledOthersFirst(t *testing.T) {
	s := &suite{quick: []string{"TestA"}, slow: []string{"TestB", "TestC", "TestD"}, kills: map[string]int{"TestD": 2, "TestA": 9}}
	var patterns []string
	for _, p := range s.phases() {
		patterns = append(patterns, p.pattern)
	}
	if want := []string{"^(TestA)$", "^(TestD)$", "^(TestB|TestC)$"}; !slices.Equal(patterns, want) {
		t.Errorf("phases %q, want %q", patterns, want)
	}
}

func TestTopFolders_ContainAllPackages(t *testing.T) {
	got := topFolders([]string{"limiter/local", "limiter/server", "limiter/server/envoy", "controllers/ruleset/report", "limiter/serverless"})
	if want := []string{"controllers/ruleset", "limiter/local", "limiter/server", "limiter/serverless"}; !slices.Equal(got, want) {
		t.Errorf("folders %q, want %q", got, want)
	}
	got = topFolders([]string{"limiter", "limiter/engine", "limiter/rules/expr", "limiter/rules/matching"})
	if want := []string{"limiter", "limiter/rules"}; !slices.Equal(got, want) {
		t.Errorf("folders %q, want %q, because packages of limiter/rules test each other", got, want)
	}
}

func TestSample_IsEvenlyDistributed(t *testing.T) {
	all := make([]*Mutant, 10)
	for i := range all {
		all[i] = &Mutant{Line: i}
	}
	var lines []int
	for _, m := range sample(all, 4) {
		lines = append(lines, m.Line)
	}
	if want := []int{0, 2, 5, 7}; !slices.Equal(lines, want) {
		t.Errorf("lines %v, want %v", lines, want)
	}
}

func TestOtherTests_RemovesTheTestsOfOtherPackages(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"limiter/a_test.go", "limiter/a.go", "limiter/engine/b_test.go", "limiter/local/c_test.go", "limiter/rules/d_test.go", "webhook/e_test.go"} {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for selected, want := range map[string][]string{
		"limiter":       {"limiter/engine/b_test.go", "limiter/local/c_test.go", "limiter/rules/d_test.go"},
		"limiter/local": {"limiter/a_test.go", "limiter/rules/d_test.go"}, // the engine also tests it
	} {
		removed := map[string]string{}
		for _, name := range want {
			removed[filepath.Join(root, name)] = ""
		}
		if got := otherTests(root, "limiter", []string{selected}, false); !maps.Equal(got, removed) {
			t.Errorf("%s: removes %v, want %v", selected, slices.Sorted(maps.Keys(got)), want)
		}
	}
}
