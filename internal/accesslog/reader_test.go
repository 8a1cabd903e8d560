package accesslog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/weir-dev/weir/internal/accesslog"
	"github.com/weir-dev/weir/internal/accesslog/format"
)

// noon is the time of the first line of logs.
var noon = time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)

// nginxLine returns a line of nginx at a time after noon.
func nginxLine(after time.Duration, path string) string {
	return fmt.Sprintf("203.0.113.7 - - [%s] \"GET %s HTTP/1.1\" 200 12 \"-\" \"curl/8\"\n", noon.Add(after).Format("02/Jan/2006:15:04:05 -0700"), path)
}

// envoyLine returns a line of Envoy for a request that began at a time after noon.
func envoyLine(start, duration time.Duration, path string) string {
	return fmt.Sprintf("[%s] \"GET %s HTTP/1.1\" 200 - 0 5 %d 4 \"203.0.113.7\" \"curl/8\" \"1\" \"shop.example\" \"10.0.0.7:80\"\n",
		noon.Add(start).Format("2006-01-02T15:04:05.000Z"), path, duration.Milliseconds())
}

// write writes a file, and returns its path.
func write(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// open opens logs until the end of the test.
func open(t testing.TB, o accesslog.Options, files ...string) *accesslog.Reader {
	t.Helper()
	r, err := accesslog.Open(t.Context(), files, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// readAll returns copies of all records until the end or an error, and checks that their starts never decrease.
func readAll(t testing.TB, r *accesslog.Reader) (records []accesslog.Record, err error) {
	t.Helper()
	for {
		batch, err := r.Next(t.Context())
		if err != nil {
			if again, same := r.Next(t.Context()); len(again) > 0 || !errors.Is(same, err) {
				t.Errorf("after %v, Next returns %d records, %v", err, len(again), same)
			}
			return records, err
		}
		if len(batch) == 0 {
			t.Fatal("an empty batch")
		}
		for i := range batch {
			if n := len(records); n > 0 && batch[i].Start.Before(records[n-1].Start) {
				t.Fatalf("record %d starts at %v, after one at %v", n, batch[i].Start, records[n-1].Start)
			}
			records = append(records, batch[i])
		}
	}
}

func paths(records []accesslog.Record) (paths []string) {
	for i := range records {
		paths = append(paths, records[i].Request.Path)
	}
	return paths
}

func compressed(t testing.TB, content []byte) map[string][]byte {
	t.Helper()
	var zipped bytes.Buffer
	for _, half := range [][]byte{content[:len(content)/2], content[len(content)/2:]} { // two members, as of logs that are appended
		z := gzip.NewWriter(&zipped)
		z.Write(half)
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	packed := encoder.EncodeAll(content, nil)
	skippable := append([]byte("\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"), packed...) // as pzstd writes it
	return map[string][]byte{"plain": content, "gzip": zipped.Bytes(), "zstd": packed, "zstd after a skippable frame": skippable}
}

func manyLines(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		b.WriteString(nginxLine(time.Duration(i)*time.Second/100, fmt.Sprintf("/v1/%d", i)))
	}
	return b.Bytes()
}

func TestReader_ReadsEveryLineOnceInAllCompressions(t *testing.T) {
	const n = 20_000
	for name, content := range compressed(t, manyLines(n)) {
		t.Run(name, func(t *testing.T) {
			r := open(t, accesslog.Options{}, write(t, "access.log", content))
			records, err := readAll(t, r)
			if !errors.Is(err, io.EOF) || len(records) != n {
				t.Fatalf("%d records, %v", len(records), err)
			}
			for i := range records {
				if got := &records[i]; got.Request.Path != fmt.Sprintf("/v1/%d", i) || got.Line != i+1 {
					t.Fatalf("record %d: line %d, path %s", i, got.Line, got.Request.Path)
				}
			}
			s := r.Stats()
			if s.Lines != n || s.Records != n || s.Bad != 0 || s.OutOfOrder != 0 || s.Bytes != int64(len(content)) || s.TotalBytes != int64(len(content)) {
				t.Errorf("%+v", s)
			}
			if !s.First.Equal(noon) || !s.Last.Equal(records[n-1].Start) || s.Files[0].Format.Name != "nginx" {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestReader_ReadsTheStandardInput(t *testing.T) {
	for name, content := range compressed(t, manyLines(3000)) {
		r := open(t, accesslog.Options{Stdin: bytes.NewReader(content)}, "-")
		records, err := readAll(t, r)
		if s := r.Stats(); !errors.Is(err, io.EOF) || len(records) != 3000 || s.TotalBytes != 0 || s.Bytes != int64(len(content)) {
			t.Errorf("%s: %d records, %v, %+v", name, len(records), err, s)
		}
	}
	both := open(t, accesslog.Options{Stdin: bytes.NewReader(manyLines(10))}, "-", write(t, "a.log", manyLines(10)))
	if _, err := readAll(t, both); !errors.Is(err, io.EOF) || both.Stats().TotalBytes != 0 || both.Stats().Records != 20 {
		t.Errorf("with a file: %v, %+v", err, both.Stats())
	}
}

func TestReader_ATruncatedFileIsAnErrorAfterItsLines(t *testing.T) {
	content := manyLines(20_000)
	for name, whole := range compressed(t, content) {
		if name == "plain" {
			continue
		}
		path := write(t, "access.log", whole[:len(whole)-len(whole)/4])
		r := open(t, accesslog.Options{}, path)
		records, err := readAll(t, r)
		if err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), path+" is truncated or damaged") {
			t.Errorf("%s: %v", name, err)
		}
		if len(records) < 10_000 || len(records) >= 20_000 {
			t.Errorf("%s: %d records", name, len(records))
		}
		if s := r.Stats(); s.Bad != 0 || s.Records != int64(len(records)) { // the part of a line at the end is no line
			t.Errorf("%s: %+v", name, s.BadLines)
		}
	}
}

// A small file is one block, whose worker has no parser yet.
func TestReader_ADamagedEndIsAnErrorWhateverTheSize(t *testing.T) {
	content := []byte(nginxLine(0, "/a") + nginxLine(1, "/b"))
	for name, whole := range compressed(t, content) {
		if name == "plain" {
			continue
		}
		wrong := slices.Clone(whole)
		wrong[len(wrong)-6] ^= 1 // the checksum of gzip, and the text or the checksum of zstd
		for what, damaged := range map[string][]byte{
			"a byte is missing": whole[:len(whole)-1], "the checksum is missing": whole[:len(whole)-8], "the checksum is wrong": wrong,
			"garbage follows": append(slices.Clone(whole), "garbage"...), "the start of another member": append(slices.Clone(whole), whole[:5]...),
		} {
			var records []accesslog.Record
			r, err := accesslog.Open(t.Context(), []string{write(t, "access.log", damaged)}, accesslog.Options{})
			if err == nil {
				records, err = readAll(t, r)
				r.Close()
			}
			if err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "is truncated or damaged") {
				t.Errorf("%s, %s: %d records, %v", name, what, len(records), err)
			}
		}
	}
}

func TestReader_ReadsTheEventsOfALine(t *testing.T) {
	event := func(second int, verb string) string {
		return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete","verb":%q,"user":{"username":"bob"},`+
			`"objectRef":{"resource":"pods","namespace":"acme","name":"p%d","apiVersion":"v1"},"requestReceivedTimestamp":%q}`,
			verb, second, noon.Add(time.Duration(second)*time.Second).Format(time.RFC3339))
	}
	list := func(events ...string) string {
		return `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[` + strings.Join(events, ",") + "]}\n"
	}
	log := list(event(2, "create"), event(1, "update"), event(3, "get"), `{"kind":"Event"}`) + list() + event(4, "patch") + "\n" + list(event(0, "create"))
	r := open(t, accesslog.Options{}, write(t, "audit.log", []byte(log)))
	records, err := readAll(t, r)
	var names []string
	for i := range records {
		names = append(names, fmt.Sprint(records[i].Request.Kubernetes.Name, " ", records[i].Line))
	}
	if want := []string{"p0 4", "p1 1", "p2 1", "p4 3"}; !errors.Is(err, io.EOF) || !slices.Equal(names, want) {
		t.Errorf("%v, %v, want %v", names, err, want)
	}
	received := strings.ReplaceAll(list(event(1, "create"), event(2, "create")), "ResponseComplete", "RequestReceived")
	if records, err := readAll(t, open(t, accesslog.Options{}, write(t, "audit.log", []byte(received)))); !errors.Is(err, io.EOF) || len(records) != 2 {
		t.Errorf("of a log with the first stage only: %d records, %v", len(records), err)
	}
	s := r.Stats()
	if s.Lines != 7 || s.Bad != 1 || s.Skipped[format.ErrRead] != 1 || s.BadLines[0].Line != 1 || s.BadLines[0].Text != `{"kind":"Event"}` {
		t.Errorf("%+v", s)
	}
}

// An EventList can be of any size and layout, as kubectl get --raw, jq and webhook backends write it.
func TestReader_ReadsDocuments(t *testing.T) {
	const events = 9600
	var list bytes.Buffer
	list.WriteString(`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[`)
	for i := range events {
		if i > 0 {
			list.WriteByte(',')
		}
		fmt.Fprintf(&list, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete","verb":"create","user":{"username":"bob"},`+
			`"objectRef":{"resource":"pods","namespace":"acme","name":"p%d","apiVersion":"v1"},"requestObject":{"a":%q},"requestReceivedTimestamp":%q}`,
			i, strings.Repeat("x", 300), noon.Add(time.Duration(i)*time.Second).Format(time.RFC3339))
	}
	list.WriteString("]}")
	if list.Len() < 5<<20 {
		t.Fatalf("the list has %d bytes", list.Len())
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, list.Bytes(), "", "  "); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"a.json": list.Bytes(), "pretty.json": pretty.Bytes(), "pretty.json.gz": compressed(t, pretty.Bytes())["gzip"], "long.json.zst": compressed(t, list.Bytes())["zstd"],
	} {
		path := write(t, name, content)
		for _, from := range []string{path, "-"} {
			in, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			r := open(t, accesslog.Options{Stdin: in}, from)
			records, err := readAll(t, r)
			stats := r.Stats()
			if !errors.Is(err, io.EOF) || len(records) != events || stats.Bad > 0 || stats.Lines < events || stats.Files[0].Format.Name != "audit" {
				t.Errorf("%s: %v, %d records, %+v", name, err, len(records), stats)
			}
			if last := records[len(records)-1]; last.Request.Kubernetes.Name != fmt.Sprintf("p%d", events-1) {
				t.Errorf("%s: the last is %+v", name, last.Request.Kubernetes)
			}
			_ = in.Close()
		}
	}

	cut := pretty.Bytes()[:pretty.Len()/2]
	records, err := readAll(t, open(t, accesslog.Options{}, write(t, "cut.json", cut)))
	if err == nil || !strings.Contains(err.Error(), "cut.json is incomplete: the JSON ends inside of a list or an object; get a complete copy") {
		t.Errorf("of a list that is cut off: %d records, %v", len(records), err)
	}
}

// The share of lines that cannot be read is one of the objects, whatever the number of their lines and of blank ones.
func TestReader_CountsObjectsOfSeveralLines(t *testing.T) {
	const good, bad = "{\n \"time\": 1700000000,\n \"method\": \"GET\",\n \"path\": \"/v1\"\n}\n\n", "{\n \"time\": \"never\",\n \"method\": \"GET\",\n \"path\": \"/v1\"\n}\n"
	r := open(t, accesslog.Options{}, write(t, "app.log", []byte(good+good+good+bad)))
	if records, err := readAll(t, r); !errors.Is(err, io.EOF) || len(records) != 3 || records[2].Line != 13 {
		t.Errorf("%v, %+v", err, records)
	}
	if s := r.Stats(); s.Lines != 4 || s.Bad != 1 || s.BadLines[0].Line != 19 {
		t.Errorf("%+v", s)
	}
}

// Archives fill the last block of a file with zeros. gzip -d ignores them.
func TestReader_IgnoresZerosAfterAGzip(t *testing.T) {
	member := func(i int) []byte { return compressed(t, []byte(nginxLine(time.Duration(i)*time.Second, "/")))["gzip"] }
	zeros := make([]byte, 10_240)
	for name, content := range map[string][]byte{
		"members": slices.Concat(member(0), member(1)), "zeros at the end": slices.Concat(member(0), member(1), zeros), "one zero": append(slices.Concat(member(0), member(1)), 0),
		"zeros between members": slices.Concat(member(0), zeros, member(1), zeros),
	} {
		records, err := readAll(t, open(t, accesslog.Options{}, write(t, "a.log.gz", content)))
		if !errors.Is(err, io.EOF) || len(records) != 2 {
			t.Errorf("%s: %v, %d records", name, err, len(records))
		}
	}
	for _, garbage := range []string{"x", "\x00\x00x", "\x1f\x8b", "\x00\x1f\x8b\x08"} {
		_, err := readAll(t, open(t, accesslog.Options{}, write(t, "a.log.gz", append(member(0), garbage...))))
		if err == nil || !strings.Contains(err.Error(), "a.log.gz is truncated or damaged") {
			t.Errorf("after a member and %q: %v", garbage, err)
		}
	}
}

func TestReader_ReadsAFileOnceWhateverItsPath(t *testing.T) {
	path := write(t, "access.log", manyLines(10))
	link, hard := filepath.Join(t.TempDir(), "link"), filepath.Join(filepath.Dir(path), "hard")
	if err := errors.Join(os.Symlink(path, link), os.Link(path, hard)); err != nil {
		t.Fatal(err)
	}
	other := write(t, "access.log", manyLines(10))
	r := open(t, accesslog.Options{}, path, link, hard, other, filepath.Join(filepath.Dir(path), "*"))
	if records, err := readAll(t, r); !errors.Is(err, io.EOF) || len(records) != 20 || len(r.Stats().Files) != 2 {
		t.Errorf("%d records, %v, %+v", len(records), err, r.Stats().Files)
	}
	empty := write(t, "empty.log", nil)
	if _, err := accesslog.Open(t.Context(), []string{empty, filepath.Join(filepath.Dir(empty), "*.log")}, accesslog.Options{}); err == nil ||
		!strings.Contains(err.Error(), "the log is empty") {
		t.Error(err)
	}
}

// Blank lines are no records, and need no memory for records.
func TestReader_BlankLinesNeedNoMemory(t *testing.T) {
	path := write(t, "access.log", slices.Concat(manyLines(1), bytes.Repeat([]byte("\n"), 8<<20), manyLines(1)))
	r := open(t, accesslog.Options{Workers: 1}, path)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	records, err := readAll(t, r)
	runtime.ReadMemStats(&after)
	if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; !errors.Is(err, io.EOF) || len(records) != 2 || allocated > 500 {
		t.Errorf("%d records, %v, %d MiB", len(records), err, allocated)
	}
}

func TestReader_FindsThePrecisionOfTimes(t *testing.T) {
	for line, want := range map[string]int64{
		nginxLine(0, "/"): 0, envoyLine(0, 0, "/"): 0, envoyLine(1500*time.Millisecond, 2*time.Millisecond, "/"): 1,
		strings.TrimRight(nginxLine(0, "/"), "\n") + ` 1 "router" "http://10.0.0.7:80" 4ms`: 0, // Traefik logs the start, and the duration in milliseconds
		`{"time":"2026-03-14T12:00:00Z","request_time":"0.25","path":"/"}`:                  0, `{"msec":"1773489600.5","path":"/"}`: 1,
	} {
		r := open(t, accesslog.Options{}, write(t, "a.log", []byte(line)))
		if _, err := readAll(t, r); !errors.Is(err, io.EOF) || r.Stats().Files[0].Fractions != want {
			t.Errorf("%s: %v, %+v", line, err, r.Stats().Files)
		}
	}
}

func TestOpen_Errors(t *testing.T) {
	directory := t.TempDir()
	for name, c := range map[string]struct {
		files []string
		o     accesslog.Options
		want  string
	}{
		"no file":        {nil, accesslog.Options{}, "no log is given"},
		"missing":        {[]string{filepath.Join(directory, "a.log")}, accesslog.Options{}, "a.log does not exist: check the name"},
		"no match":       {[]string{filepath.Join(directory, "*.log")}, accesslog.Options{}, "no file matches"},
		"directory":      {[]string{directory}, accesslog.Options{}, "is a directory: name its files"},
		"empty":          {[]string{write(t, "empty.log", []byte("\n \n"))}, accesslog.Options{}, "the log is empty"},
		"empty gzip":     {[]string{write(t, "empty.gz", compressed(t, nil)["gzip"])}, accesslog.Options{}, "the log is empty"},
		"prose":          {[]string{write(t, "prose.log", []byte("Lorem ipsum\ndolor sit\n"))}, accesslog.Options{}, `the format is unknown; the first line is "Lorem ipsum"`},
		"a wrong format": {[]string{write(t, "a.log", []byte(nginxLine(0, "/")))}, accesslog.Options{Format: "envoy"}, "look like nginx combined: set --format nginx"},
		"an unknown one": {[]string{write(t, "a.log", []byte(nginxLine(0, "/")))}, accesslog.Options{Format: "apache"}, `"apache" is invalid: must be ingress-nginx`},
		"xz":             {[]string{write(t, "a.xz", []byte("\xfd7zXZ\x00\x00"))}, accesslog.Options{}, "the compression is not supported"},
		"UTF-16":         {[]string{write(t, "a.log", []byte("\xff\xfea\x00"))}, accesslog.Options{}, "the text is UTF-16"},
		"a broken gzip":  {[]string{write(t, "a.gz", []byte("\x1f\x8b\x08\x00"))}, accesslog.Options{}, "is truncated or damaged"},
		"the start of a gzip": {
			[]string{write(t, "a.gz", compressed(t, []byte(nginxLine(0, "/")+nginxLine(1, "/")))["gzip"][:40])}, accesslog.Options{}, "is truncated or damaged",
		},
		"a long line":      {[]string{write(t, "a.log", bytes.Repeat([]byte("x"), 5<<20))}, accesslog.Options{}, "the first line is longer than 4194304 bytes"},
		"a long object":    {[]string{write(t, "a.log", slices.Concat([]byte("{"), bytes.Repeat([]byte("x"), 5<<20)))}, accesslog.Options{}, "the first line is longer than 4194304 bytes"},
		"half a list":      {[]string{write(t, "a.log", []byte("[\n{\"a\": "))}, accesslog.Options{}, "a.log is incomplete: the JSON ends inside of a list or an object; get a complete copy"},
		"negative options": {[]string{"-"}, accesslog.Options{Window: -1}, "must not be negative"},
	} {
		r, err := accesslog.Open(t.Context(), c.files, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if r != nil {
			r.Close()
		}
	}
}

func TestReader_CountsLinesOfImpossibleTimes(t *testing.T) {
	line := nginxLine(0, "/")
	path := write(t, "access.log", []byte(strings.ReplaceAll(line, "2026", "0001")+line+strings.ReplaceAll(line, "2026", "9999")+strings.ReplaceAll(line, "2026", "1969")))
	r := open(t, accesslog.Options{}, path)
	records, err := readAll(t, r)
	stats := r.Stats()
	if !errors.Is(err, io.EOF) || len(records) != 1 || stats.Bad != 3 || !strings.Contains(stats.BadLines[0].Reason, "the time 0001-03-14T12:00:00Z is not between 1970 and 2262") {
		t.Errorf("%v, %d records, %+v", err, len(records), stats)
	}
}

func TestReader_CountsAndShowsBadLines(t *testing.T) {
	var b bytes.Buffer
	for i := range 30 {
		b.WriteString(nginxLine(time.Duration(i)*time.Second, "/v1"))
		fmt.Fprintf(&b, "garbage %d\n", i)
	}
	b.WriteString("203.0.113.9 - - [14/Mar/2026:12:00:31 +0000] \"\" 400 0 \"-\" \"-\"\n")
	path := write(t, "access.log", b.Bytes())
	r := open(t, accesslog.Options{}, path)
	if _, err := readAll(t, r); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	s := r.Stats()
	if s.Lines != 61 || s.Records != 30 || s.Bad != 30 || len(s.BadLines) != 10 || s.Skipped[format.ErrNoRequest] != 1 {
		t.Fatalf("%+v", s)
	}
	want := accesslog.BadLine{File: path, Line: 4, Text: "garbage 1", Reason: `expected " " after $ident at column 9, found "1"`}
	if s.BadLines[1] != want {
		t.Errorf("%+v", s.BadLines[1])
	}
}

func TestReader_BoundsTheLengthOfLines(t *testing.T) {
	long := func(n int) string { return nginxLine(time.Second, "/"+strings.Repeat("a", n)) }
	content := nginxLine(0, "/first") + long(1<<20) + long(5<<20) + nginxLine(2*time.Second, "/last")
	r := open(t, accesslog.Options{}, write(t, "access.log", []byte(content)))
	records, err := readAll(t, r)
	if !errors.Is(err, io.EOF) || len(records) != 3 || records[2].Request.Path != "/last" || records[2].Line != 4 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	if s := r.Stats(); s.Lines != 4 || s.Bad != 1 || s.BadLines[0].Line != 3 || !strings.Contains(s.BadLines[0].Reason, "longer than 4194304 bytes") {
		t.Errorf("%+v", s)
	}
	alone := open(t, accesslog.Options{}, write(t, "access.log", []byte(long(1<<20))))
	if records, err := readAll(t, alone); !errors.Is(err, io.EOF) || len(records) != 1 {
		t.Errorf("a log of one long line: %d records, %v", len(records), err)
	}
}

func TestReader_SortsByTheStartOfRequests(t *testing.T) {
	const n = 30_000
	random := rand.New(rand.NewPCG(1, 2))
	type request struct{ start, duration time.Duration }
	requests := make([]request, n)
	for i := range requests {
		requests[i] = request{time.Duration(i) * 10 * time.Millisecond, time.Duration(random.IntN(20_000)) * time.Millisecond}
	}
	slices.SortStableFunc(requests, func(a, b request) int { return int(a.start + a.duration - b.start - b.duration) }) // as a proxy logs them
	var b bytes.Buffer
	for _, q := range requests {
		b.WriteString(envoyLine(q.start, q.duration, fmt.Sprintf("/%d", q.start.Milliseconds())))
	}
	path := write(t, "access.log", b.Bytes())
	r := open(t, accesslog.Options{}, path)
	records, err := readAll(t, r)
	if !errors.Is(err, io.EOF) || len(records) != n {
		t.Fatalf("%d records, %v", len(records), err)
	}
	for i := range records {
		if want := fmt.Sprintf("/%d", i*10); records[i].Request.Path != want {
			t.Fatalf("record %d is %s, want %s", i, records[i].Request.Path, want)
		}
	}
	if s := r.Stats(); s.Late != 0 || s.OutOfOrder != 0 {
		t.Errorf("late %d, out of order %d", s.Late, s.OutOfOrder)
	}
	short := open(t, accesslog.Options{Window: time.Second}, path)
	if records, err := readAll(t, short); !errors.Is(err, io.EOF) || len(records) != n || short.Stats().Late == 0 {
		t.Errorf("with a short window: %d records, %v, %d late", len(records), err, short.Stats().Late)
	}
	few := open(t, accesslog.Options{Pending: 1}, path)
	if records, err := readAll(t, few); !errors.Is(err, io.EOF) || len(records) != n {
		t.Errorf("with few pending records: %d records, %v", len(records), err)
	}
}

func TestReader_KeepsTheOrderOfEqualTimes(t *testing.T) {
	var b bytes.Buffer
	for i := range 5000 {
		b.WriteString(nginxLine(time.Duration(i/1000)*time.Second, fmt.Sprintf("/%d", i)))
	}
	records, err := readAll(t, open(t, accesslog.Options{}, write(t, "access.log", b.Bytes())))
	if !errors.Is(err, io.EOF) || len(records) != 5000 {
		t.Fatal(len(records), err)
	}
	for i := range records {
		if records[i].Line != i+1 {
			t.Fatalf("record %d is line %d", i, records[i].Line)
		}
	}
}

// A request that began earlier is moved before those of an earlier part of the file, but not before those with its own time.
func TestReader_KeepsTheOrderOfEqualTimesAcrossBlocks(t *testing.T) {
	var b bytes.Buffer
	for i := range 5000 { // more than a block
		b.WriteString(envoyLine(5*time.Second, 0, fmt.Sprintf("/%d", i)))
	}
	b.WriteString(envoyLine(4*time.Second, time.Second, "/earlier"))
	b.WriteString(envoyLine(5*time.Second, 0, "/5000"))
	records, err := readAll(t, open(t, accesslog.Options{}, write(t, "access.log", b.Bytes())))
	if !errors.Is(err, io.EOF) || len(records) != 5002 || records[0].Request.Path != "/earlier" {
		t.Fatal(len(records), err)
	}
	for i := range records[1:] {
		if got := records[i+1].Request.Path; got != fmt.Sprintf("/%d", i) {
			t.Fatalf("record %d is %s", i+1, got)
		}
	}
}

// A file that begins in the middle of another one is merged from there on.
func TestReader_MergesAFileThatBeginsLater(t *testing.T) {
	var long, short bytes.Buffer
	var want []string
	for i := range 7200 {
		path := fmt.Sprintf("/%d", i)
		want = append(want, path)
		long.WriteString(nginxLine(time.Duration(i)*time.Second, path))
		if i >= 3600 && i < 3700 {
			short.WriteString(nginxLine(time.Duration(i)*time.Second, path+"/short"))
			want = append(want, path+"/short")
		}
	}
	r := open(t, accesslog.Options{}, write(t, "long.log", long.Bytes()), write(t, "short.log", short.Bytes()))
	records, err := readAll(t, r)
	if !errors.Is(err, io.EOF) || !slices.Equal(paths(records), want) {
		t.Fatalf("%d records of %d, %v", len(records), len(want), err)
	}
}

func TestReader_MergesFilesByTime(t *testing.T) {
	directory := t.TempDir()
	var want []string
	logs := make([]bytes.Buffer, 5)
	for i := range 20_000 {
		// Three servers that log at the same time, and two files that follow.
		file := i % 3
		if i >= 12_000 {
			file = 3 + i/16_000
		}
		path := fmt.Sprintf("/%d", i)
		logs[file].WriteString(nginxLine(time.Duration(i)*time.Second, path))
		want = append(want, path)
	}
	for i, name := range []string{"c.log", "a.log", "b.log", "e.log", "d.log"} {
		if err := os.WriteFile(filepath.Join(directory, name), logs[i].Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pattern := filepath.Join(directory, "*.log")
	r := open(t, accesslog.Options{}, pattern, filepath.Join(directory, "a.log"))
	records, err := readAll(t, r)
	if !errors.Is(err, io.EOF) || !slices.Equal(paths(records), want) {
		t.Fatalf("%d records, %v", len(records), err)
	}
	if s := r.Stats(); len(s.Files) != 5 || s.Lines != 20_000 {
		t.Errorf("%+v", s)
	}
}

func TestReader_AClockThatJumpsIsAnError(t *testing.T) {
	log := func(from, to, step time.Duration) string {
		var text strings.Builder
		for at := from; at < to; at += step {
			text.WriteString(nginxLine(at, "/"))
		}
		return text.String()
	}
	hour := log(0, time.Hour, time.Second)
	for name, c := range map[string]struct{ content, want string }{
		"two logs in one file": {hour + hour, "the time goes back from 2026-03-14T12:59:59Z on line 3600 to 2026-03-14T12:00:00Z on line 3601"},
		"one line in 2038":     {nginxLine(12*366*24*time.Hour, "/") + hour, "goes back from 2038-"},
		"a part of a file":     {hour + log(0, 3*time.Minute, time.Second), "180 of 3780 lines are more than 1m0s behind"},
		"a small file":         {log(0, 5*time.Minute, time.Second) + log(0, time.Minute, time.Second), "60 of 360 lines are more than 1m0s behind"},
	} {
		path := write(t, "access.log", []byte(c.content))
		_, err := readAll(t, open(t, accesslog.Options{}, path))
		var order *accesslog.OrderError
		if !errors.As(err, &order) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	path := write(t, "access.log", []byte(hour+nginxLine(time.Minute, "/late")+log(time.Hour, 2*time.Hour, time.Second)))
	r := open(t, accesslog.Options{}, path)
	records, err := readAll(t, r)
	if s := r.Stats(); !errors.Is(err, io.EOF) || len(records) != 7201 || s.OutOfOrder != 1 || s.Late != 1 {
		t.Errorf("one late line: %d records, %v, %+v", len(records), err, s)
	}
}

func TestOpen_WaitsForAPipeUntilItsContextEnds(t *testing.T) {
	in, out := io.Pipe()
	t.Cleanup(func() { out.Close() })
	ctx, cancel := contextWithTimeout(t)
	defer cancel()
	if _, err := accesslog.Open(ctx, []string{"-"}, accesslog.Options{Stdin: in}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestReader_EndsWithItsContext(t *testing.T) {
	in, out := io.Pipe()
	go out.Write(manyLines(1000)) // and no end
	r := open(t, accesslog.Options{Stdin: in}, "-")
	t.Cleanup(func() { out.Close() })
	ctx, cancel := contextWithTimeout(t)
	defer cancel()
	for {
		if _, err := r.Next(ctx); err != nil {
			if !errors.Is(err, ctx.Err()) {
				t.Error(err)
			}
			return
		}
	}
}
