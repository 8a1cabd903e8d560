package format

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-dev/weir/internal/accesslog/logtime"
)

// page returns the reference page of the formats.
func page(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("../../../docs/reference/log-formats.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestDocs_ListEachFormatWithWhatItHas(t *testing.T) {
	rows := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z:A-Z_-]+)` \\| (.*) \\| (.*) \\| (.*) \\| (.*) \\|$").FindAllStringSubmatch(page(t), -1) {
		rows[row[1]] = row[2:]
	}
	for _, f := range Formats() {
		row := rows[f.Name]
		if row == nil {
			t.Errorf("the page does not list %s", f.Name)
			continue
		}
		if has := row[2] != "–" && row[2] != "of HTTP/2 requests"; has != f.HasHost && f.special != specialDecisions {
			t.Errorf("%s: host %q, but HasHost is %v", f.Name, row[2], f.HasHost)
		}
		if has := row[1] != "–"; has != (f.HasAddress || f.Name == "envoy") && f.special == 0 {
			t.Errorf("%s: address %q, but HasAddress is %v", f.Name, row[1], f.HasAddress)
		}
		if isAtEnd := strings.Contains(row[3], "end"); isAtEnd != (f.Name == "nginx" || f.Name == "ingress-nginx" || f.Name == "apache-vhost") {
			t.Errorf("%s: time %q", f.Name, row[3])
		}
	}
	if len(rows) < len(Formats())+2 {
		t.Errorf("%d rows", len(rows))
	}
}

func TestDocs_ListTheReasonsOfSkippedLines(t *testing.T) {
	text := page(t)
	for _, reason := range []SkipError{ErrNoRequest, ErrOtherMessage, ErrOtherStage, ErrRead, ErrForbidden, ErrNotFound, ErrNoResource} {
		if !strings.Contains(text, "\n| "+string(reason)+" | ") {
			t.Errorf("the page does not list %q", reason)
		}
	}
}

// The first of the keys that the page lists for a field wins, in either order on the line.
func TestDocs_ListTheKeysOfJSONInTheirOrder(t *testing.T) {
	_, section, _ := strings.Cut(page(t), "\n## JSON\n")
	section, _, _ = strings.Cut(section, "\n## ")
	type field struct {
		read  func(v *values) string
		value string
	}
	fields := map[string]field{
		"method": {func(v *values) string { return v.method }, "M"}, "path": {func(v *values) string { return v.target }, "/p"},
		"host": {func(v *values) string { return v.host }, "h"}, "address": {func(v *values) string { return v.source }, "a"},
		"time at the end": {func(v *values) string { return strconv.FormatInt(v.logged.Unix(), 10) }, "170000000"},
	}
	tested := 0
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z ]+) \| (.*) \|$`).FindAllStringSubmatch(section, -1) {
		f, found := fields[row[1]]
		if !found {
			continue
		}
		tested++
		var keys []string
		for _, key := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[2], -1) {
			keys = append(keys, key[1])
		}
		for i := range keys[:len(keys)-1] {
			for _, pair := range [][]int{{i, i + 1}, {i + 1, i}} {
				var members []string
				for _, k := range pair {
					members = append(members, fmt.Sprintf(`%q:"%s%d"`, keys[k], f.value, k))
				}
				p := newJSONLog(commonKeys(), &Settings{})
				var v values
				if err := p.parse("{"+strings.Join(members, ",")+"}", &v, &logtime.Clock{}, nil); err != nil {
					t.Error(err)
				}
				if got, want := f.read(&v), fmt.Sprintf("%s%d", f.value, i); got != want {
					t.Errorf("%s with %v: %s, want that of %s", row[1], members, got, keys[i])
				}
			}
		}
	}
	if tested != len(fields) {
		t.Errorf("%d of %d fields are on the page", tested, len(fields))
	}
}

func TestDocs_ListTheFieldsAndSourcesOfMap(t *testing.T) {
	text := page(t)
	_, err := ParseMap([]string{"x=.a"})
	for _, name := range regexp.MustCompile(`[a-z]+(:NAME)?`).FindAllString(strings.SplitN(err.Error(), "must be ", 2)[1], -1) {
		if name != "or" && !strings.Contains(text, "`"+name+"`") {
			t.Errorf("the page does not list the field %s", name)
		}
	}
	_, err = ParseMap([]string{"host=x"})
	for name := range strings.SplitSeq(strings.SplitN(err.Error(), "must be ", 2)[1], ", ") {
		if name = strings.TrimSuffix(name, " or user"); name != ".KEY" && !strings.Contains(text, "`"+name+"`") {
			t.Errorf("the page does not list the source %s", name)
		}
	}
	for _, example := range regexp.MustCompile(`--map (\S+)`).FindAllStringSubmatch(text, -1) {
		list := strings.Trim(example[1], "`")
		if strings.HasPrefix(list, `"`) { // quotes of the shell
			list = strings.Trim(list, `"`)
		}
		list = strings.ReplaceAll(strings.ReplaceAll(list, `="'`, "='"), `'"`, "'")
		if list == "FIELD=SOURCE" {
			continue
		}
		if _, err := ParseMap([]string{list}); err != nil {
			t.Error(err)
		}
	}
}
