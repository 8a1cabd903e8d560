package findings

import (
	"fmt"
	"io"
	"strings"

	"github.com/weir-dev/weir/internal/lintrule"
	"github.com/weir-dev/weir/internal/terminal"
)

// writeGitHub writes workflow commands of GitHub Actions, which become annotations of the files: https://docs.github.com/actions/reference/workflow-commands.
// GitHub shows ten of each level for a step, so that the summary follows.
func (r *Report) writeGitHub(w io.Writer) error {
	text := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	for _, f := range r.counted() {
		level := string(f.Severity)
		if f.Severity == lintrule.Note {
			level = "notice"
		}
		place := fmt.Sprintf("file=%s,line=%d", property.Replace(relative(f.File)), max(f.Line, 1))
		if f.Column > 0 {
			place += fmt.Sprintf(",col=%d", f.Column)
		}
		if _, err := terminal.Printf(w, "::%s %s,title=%s::%s\n", level, place, property.Replace(f.Rule),
			text.Replace(f.about()+" ("+f.URL+")")); err != nil {
			return err
		}
	}
	_, err := terminal.Println(w, r.Summary)
	return err
}

// gitLabIssue is an issue of a code quality report: https://docs.gitlab.com/ci/testing/code_quality/.
type gitLabIssue struct {
	Description string         `json:"description"`
	CheckName   string         `json:"check_name"`
	Fingerprint string         `json:"fingerprint"`
	Severity    string         `json:"severity"`
	Location    gitLabLocation `json:"location"`
}

type gitLabLocation struct {
	Path  string      `json:"path"`
	Lines gitLabLines `json:"lines"`
}

type gitLabLines struct {
	Begin int `json:"begin"`
}

func (r *Report) writeGitLab(w io.Writer) error {
	severities := map[lintrule.Severity]string{lintrule.Error: "major", lintrule.Warning: "minor", lintrule.Note: "info"}
	issues, found := []gitLabIssue{}, r.counted()
	prints := fingerprints(found)
	for i, f := range found {
		issues = append(issues, gitLabIssue{f.about(), f.Rule, prints[i], severities[f.Severity], gitLabLocation{relative(f.File), gitLabLines{max(f.Line, 1)}}})
	}
	return encode(w, issues)
}
