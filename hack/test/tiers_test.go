package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTiers_AreThoseOfThePage compares the table of test/README.md with tierOf. internal/arch checks that the page names all packages.
func TestTiers_AreThoseOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../test/README.md")
	if err != nil {
		t.Fatal(err)
	}
	tiers := tiersOfPage(string(page))
	for pkg, tier := range tiers {
		want := "`" + tierOf(pkg) + "`"
		if slices.Contains(modules(), pkg) {
			want = "`" + targetTestAll + "`"
		}
		if tier != want && tier != "–" { // – has a target of its own
			t.Errorf("test/README.md: tier %s of %s, want %s", tier, pkg, want)
		}
	}
	for pkg := range onlyTestAll() {
		if tiers[pkg] == "" {
			t.Errorf("%s is only in make test-all, and has no row in test/README.md", pkg)
		}
	}
	for _, module := range modules() {
		if tiers[module] == "" {
			t.Errorf("module %s has no row in test/README.md", module)
		}
	}
}

// tiersOfPage returns the last column of the table with the packages, by package.
func tiersOfPage(page string) map[string]string {
	tiers := map[string]string{}
	quoted := regexp.MustCompile("`([^`]+)`")
	_, table, _ := strings.Cut(page, "| package | proves | on | time | tier |\n")
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		columns := strings.Split(line, "|")
		for _, name := range quoted.FindAllStringSubmatch(columns[1], -1) {
			tiers[name[1]] = strings.TrimSpace(columns[len(columns)-2])
		}
	}
	return tiers
}

func TestOnlyTestAll_NamesFoldersThatExist(t *testing.T) {
	for pkg, reason := range onlyTestAll() {
		if _, err := os.Stat("../../" + pkg); err != nil || reason == "" {
			t.Errorf("%s: %v, reason %q", pkg, err, reason)
		}
	}
	for _, module := range modules() {
		if _, err := os.Stat("../../" + module + "/go.mod"); err != nil {
			t.Error(err)
		}
	}
}
