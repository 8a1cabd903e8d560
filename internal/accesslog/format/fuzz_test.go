package format

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzParsers parses any line in all formats. A record has a time, a request, and a path; an error has a text; the same line gives the same record.
func FuzzParsers(f *testing.F) {
	files, err := filepath.Glob("testdata/*.log")
	if err != nil || len(files) == 0 {
		f.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			f.Add(strings.TrimRight(line, "\n"))
		}
	}
	for _, seed := range []string{"", " ", `"`, "{", "{}", "[", `{"a":`, ` [`, strings.Repeat("[", 100), `{"request":{"method":[[["GET"]]]}}`} {
		f.Add(seed)
	}
	m, err := ParseMap([]string{"method=.request.method", `claim:org=.claims."a.b"`, "header:x-t=path:1", "header:x-c=cookie:s", "host='h'", "domain=query:d", "user=capture:2"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, line string) {
		for _, form := range Formats() {
			settings := []*Settings{{}}
			if form.keys != nil {
				settings = append(settings, &Settings{Map: m})
			}
			for _, s := range settings {
				p, err := form.NewParser(s, nil)
				if err != nil {
					t.Fatal(err)
				}
				var first, second Record
				firstErr, secondErr := p.Parse(line, &first), p.Parse(line, &second)
				if diff := cmp.Diff(first, second, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" || fmt.Sprint(firstErr) != fmt.Sprint(secondErr) {
					t.Errorf("%s: the second time differs:\n%s", form.Name, diff)
				}
				switch q := &first.Request; {
				case firstErr != nil && firstErr.Error() == "":
					t.Errorf("%s: an error without a text", form.Name)
				case firstErr == nil && (first.Start.IsZero() || first.Logged.IsZero()):
					t.Errorf("%s: no time: %+v", form.Name, first)
				case firstErr == nil && q.Kubernetes == nil && first.Recorded == nil && !strings.HasPrefix(q.Path, "/"):
					t.Errorf("%s: path %q", form.Name, q.Path)
				}
			}
		}
	})
}

// FuzzDetect finds a format of any lines without a panic, and only one that reads a line.
func FuzzDetect(f *testing.F) {
	f.Add("203.0.113.7 - - [14/Mar/2026:08:59:58 +0100] \"GET / HTTP/1.1\" 200 1\nx")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Split(text, "\n")
		found, err := Detect(lines, &Settings{})
		if err == nil && found.Check(lines, &Settings{}) != nil {
			t.Errorf("detected %s, which reads no line", found.Name)
		}
	})
}

// FuzzLayouts compiles any format of nginx and Envoy, and parses any line with it.
func FuzzLayouts(f *testing.F) {
	f.Add(combinedLayout, `203.0.113.7 - - [14/Mar/2026:08:59:58 +0100] "GET / HTTP/1.1" 200 1 "-" "-"`)
	f.Add(envoyLayoutText, "x")
	f.Add("$msec|${request}", "1700000000.1|GET / HTTP/1.1")
	f.Add("%START_TIME(%s)% %REQ(A?B):5%", "1 2")
	f.Fuzz(func(t *testing.T, text, line string) {
		for _, prefix := range []string{nginxPrefix, envoyPrefix} {
			form, err := Named(prefix + text)
			if err != nil {
				continue
			}
			p, err := form.NewParser(&Settings{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var r Record
			_ = p.Parse(line, &r)
		}
	})
}
