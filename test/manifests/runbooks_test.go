package manifests

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/test/manifests/tool"
)

const (
	runbooks    = "docs/runbooks"
	runbookBase = "https://github.com/weir-dev/weir/blob/main/" + runbooks + "/"
)

// runbookPages returns the pages of docs/runbooks by file name.
func runbookPages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(tool.Root(t, runbooks, "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d pages in %s: %v", len(files), runbooks, err)
	}
	pages := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pages[filepath.Base(file)] = string(text)
	}
	return pages
}

func TestRunbooks_EveryAlertLinksToItsPage(t *testing.T) {
	pages := runbookPages(t)
	alerts(t).each(func(r rule) {
		file := r.Alert + ".md"
		if got, want := r.Annotations["runbook_url"], runbookBase+file; got != want {
			t.Errorf("%s: runbook_url is %q, want %q", r.Alert, got, want)
		}
		if pages[file] == "" {
			t.Errorf("%s: %s/%s does not exist", r.Alert, runbooks, file)
		}
		if !strings.Contains(pages[file], "Severity: "+r.Labels["severity"]) {
			t.Errorf("%s: %s/%s does not state the severity %s", r.Alert, runbooks, file, r.Labels["severity"])
		}
		for _, heading := range []string{"Meaning", "Impact", "Diagnosis", "Mitigation", "Prevention", "Links"} {
			if !strings.Contains(pages[file], "\n## "+heading+"\n") {
				t.Errorf("%s: %s/%s has no heading %s", r.Alert, runbooks, file, heading)
			}
		}
	})
}

func TestRunbooks_EveryPageConfirmsItsAlertWithACommand(t *testing.T) {
	pages := runbookPages(t)
	alerts(t).each(func(r rule) {
		_, diagnosis, _ := strings.Cut(pages[r.Alert+".md"], "\n## Diagnosis\n")
		diagnosis, _, _ = strings.Cut(diagnosis, "\n## ")
		if !command.MatchString(diagnosis) {
			t.Errorf("%s/%s.md: the section Diagnosis has no command", runbooks, r.Alert)
		}
	})
}

// command is a command in a block of a shell.
var command = regexp.MustCompile("```console\n *\\$ ")

func TestRunbooks_EveryAlertPageHasAnAlert(t *testing.T) {
	var names []string
	alerts(t).each(func(r rule) { names = append(names, r.Alert) })
	for file := range runbookPages(t) {
		if name, ok := strings.CutSuffix(file, ".md"); ok && strings.HasPrefix(name, "Weir") && !slices.Contains(names, name) {
			t.Errorf("%s/%s: config/prometheus has no alert %s", runbooks, file, name)
		}
	}
}

func TestRunbooks_TheIndexListsEveryPage(t *testing.T) {
	pages := runbookPages(t)
	for file := range pages {
		if file != "README.md" && !strings.Contains(pages["README.md"], "]("+file+")") {
			t.Errorf("%s/README.md does not link to %s", runbooks, file)
		}
	}
}

func TestRunbooks_LinkToFilesThatExist(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	for file, text := range runbookPages(t) {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(tool.Root(t, path.Join(runbooks, found[1]))); err != nil {
				t.Errorf("%s/%s: %v", runbooks, file, err)
			}
		}
	}
}

func TestRunbooks_UseMetricsOfTheCode(t *testing.T) {
	known := metricNames(t)
	for file, text := range runbookPages(t) {
		for _, metric := range metricName.FindAllString(text, -1) {
			if !slices.Contains(known, base(metric)) {
				t.Errorf("%s/%s: no code registers a metric %s", runbooks, file, metric)
			}
		}
	}
}
