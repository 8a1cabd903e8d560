package format

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
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

// FuzzTimes compares with the standard library.
func FuzzTimes(f *testing.F) {
	for _, seed := range []string{
		"14/Mar/2026:08:59:58 +0100", "2026-03-14T08:00:05.123456789Z", "2026-03-14T08:00:05+05:30", "31/Feb/2026:00:00:00 +0000", "2026-13-01T00:00:00Z", "1773475205.5",
	} {
		f.Add(seed)
	}
	c := &clock{}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := c.parse(text)
		for _, layout := range []string{"02/Jan/2006:15:04:05 -0700", time.RFC3339Nano} {
			want, wantErr := time.Parse(layout, text)
			if wantErr == nil && want.Format(layout) == text && (err != nil || !got.Equal(want)) {
				t.Errorf("%q: %v, %v, want %v", text, got, err, want)
			}
		}
	})
}

func TestClock_ReadsWhatOthersWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(1, 4e9).Draw(t, "second"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanosecond")).
			In(time.FixedZone("", rapid.IntRange(-14*60, 14*60).Draw(t, "offset")*60))
		c := &clock{}
		for range 2 { // the second time with the remembered date
			for layout, precision := range map[string]time.Duration{
				"02/Jan/2006:15:04:05 -0700": time.Second, time.RFC3339: time.Second, time.RFC3339Nano: time.Nanosecond, "2006-01-02 15:04:05.000000 -0700": time.Microsecond,
			} {
				got, err := c.parse(at.Format(layout))
				if want := at.Truncate(precision); err != nil || !got.Equal(want) {
					t.Fatalf("%s: %v, %v, want %v", at.Format(layout), got, err, want)
				}
			}
		}
	})
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, time.March, 14, 12, 0, 0, 500_000_000, time.UTC)
	for text, want := range map[string]time.Time{
		"1773489600.5": noon, "1773489600500": noon, "1773489600499.999999": noon.Add(-time.Nanosecond), "1773489600500.0": noon, "1773489600500000": noon, "1773489600500000000": noon, "1.7734896005e9": noon,
		"2026-03-14 12:00:00,500": noon, "14/Mar/2026:12:00:00.500": noon, "2026-03-14T12:00:60Z": noon.Add(58*time.Second + 500*time.Millisecond),
	} {
		if got, err := (&clock{}).parse(text); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if got, err := (&clock{location: berlin}).parse("14/Mar/2026:13:00:00.500"); err != nil || !got.Equal(noon) {
		t.Errorf("in Berlin: %v, %v", got, err)
	}
	for _, text := range []string{
		"", "-", "yesterday", "31/Feb/2026:00:00:00 +0000", "14/Foo/2026:00:00:00 +0000", "14/Mar/2026:24:00:00 +0000", "14/Mar/2026:12:61:00 +0000",
		"2026-03-14T12:00:00", "2026-03-14T12:00:00+1", "2026-03-14T12:00:00.Z", "2026-03-14X12:00:00Z", "0", "-5", "0.25", "99999999", "NaN", "1e400", "14/Mar/2026:12:00:00 0100",
		"14/Mar/2026:12:00:00 +9900", "14/Mar/2026:12:00:00 +0160", "2026-03-14T12:00:00-24:00", "1773489600500000.5",
	} {
		if got, err := (&clock{}).parse(text); err == nil && text != "2026-03-14T12:00:00" { // the last one is in the location of the clock
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
}
