package accesslog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// Each case is a text, and its records on the lines on which they begin. Several records of one line are on the lines after it.
func TestDocuments_ReturnsEachObjectOnItsLine(t *testing.T) {
	const padding = "                                 "
	for text, want := range map[string]string{
		"{\n \"a\": 1,\n \"b\": [\n  2\n ]\n}\n{\"c\": 3}\n": "1:{  \"a\": 1,  \"b\": [   2  ] }|7:{\"c\": 3}",
		"[\n{\"a\": 1},\n{\n\"a\": 2}\n]\n":                  "2:{\"a\": 1}|3:{ \"a\": 2}",
		"[{\"a\": \"}{][,\\\"\\\\\"}, {}]":                   "1:{\"a\": \"}{][,\\\"\\\\\"}|2:{}",
		"[1, \"a,]\", {}, null]\n{}":                         "1:1|2:\"a,]\"|3:{}|4:null|5:{}",
		"[]\n{\"a\":\n1}":                                    "2:{\"a\": 1}",
		"\ufeff[{\"a\": 1}]":                                 "1:{\"a\": 1}",
		`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[{"a":1},{"a":2}]}` + "\n" + `{"b":1}`:     `1:{"a":1}|2:{"a":2}|3:{"b":1}`,
		"{\n\"apiVersion\": \"v1\",\n\"items\": [\n{\"a\": {\"items\": [\n]}},\n{}\n],\n\"kind\": \"List\"\n}\n{\"b\": 1}\n": "4:{\"a\": {\"items\": [ ]}}|6:{}|10:{\"b\": 1}",
		`{"items":[],"kind":"}"}{"a":1}`:                          `1:{"a":1}`,
		`{"other":1,"items":[{"a":1}]}`:                           `1:{"other":1,"items":[{"a":1}]}`,
		`{"items":[[{"a":1}],{"b":1}],"kind":"EventList"}`:        `1:[{"a":1}]|2:{"b":1}`,
		"[{}]\nno JSON, [really] {\n[{\"a\":1}]":                  `1:{}|2:no JSON, [really] {|3:{"a":1}`,
		"{\"items\":" + padding + "[{}," + padding + "{}]}\r\n{}": "1:{}|2:{}|3:{}",
	} {
		for name, in := range map[string]io.Reader{
			"in one part": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text)), "with the error": iotest.DataErrReader(strings.NewReader(text)),
		} {
			out, err := io.ReadAll(newDocuments(in))
			var got []string
			for i, line := range strings.Split(string(out), "\n") {
				if line != "" {
					got = append(got, fmt.Sprintf("%d:%s", i+1, line))
				}
			}
			if joined := strings.Join(got, "|"); err != nil || joined != want {
				t.Errorf("%q %s: %v\ngot  %s\nwant %s", text, name, err, joined, want)
			}
		}
	}
}

func TestDocuments_FailIfTheyAreIncomplete(t *testing.T) {
	const whole = `{"kind":"EventList","items":[{"a":"b"},{"a":{}}],"metadata":{}}`
	for n := 1; n < len(whole); n++ {
		if _, err := io.ReadAll(newDocuments(strings.NewReader(whole[:n]))); !errors.Is(err, errIncomplete) {
			t.Errorf("%s: %v, want %v", whole[:n], err, errIncomplete)
		}
	}
	broken := errors.New("broken")
	if _, err := io.ReadAll(newDocuments(io.MultiReader(strings.NewReader(whole[:40]), iotest.ErrReader(broken)))); !errors.Is(err, broken) {
		t.Errorf("%v, want the error of the input", err)
	}
}

// Whatever the layout of JSON is, its objects are the same, and each begins on its line.
func TestDocuments_DoNotDependOnTheLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-c"\\{}\[\]:, ]{0,12}`)
		var records []string
		for i := range rapid.IntRange(1, 6).Draw(t, "records") {
			value := map[string]any{"id": i, "text": text.Draw(t, "text")}
			if rapid.Bool().Draw(t, "nested") {
				value["nested"] = []any{map[string]any{"key": text.Draw(t, "value")}, []any{}, nil, 1.5}
			}
			encoded, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			records = append(records, string(encoded))
		}
		list := rapid.SampledFrom([]string{"[%s]", `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[%s]}`, `{"items":[%s],"kind":"List"}`}).Draw(t, "list")
		compact := fmt.Sprintf(list, strings.Join(records, ","))
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, []byte(compact), "", rapid.SampledFrom([]string{"", " ", "\t", "    "}).Draw(t, "indentation")); err != nil {
			t.Fatal(err)
		}
		for _, written := range []string{compact, pretty.String()} {
			out, err := io.ReadAll(newDocuments(iotest.HalfReader(strings.NewReader(written))))
			if err != nil {
				t.Fatalf("%s: %v", written, err)
			}
			var got []string
			lines := strings.Split(written, "\n")
			for i, line := range strings.Split(string(out), "\n") {
				if line == "" {
					continue
				}
				var one bytes.Buffer
				if err := json.Compact(&one, []byte(line)); err != nil {
					t.Fatalf("%s\n%s: %v", written, line, err)
				}
				got = append(got, one.String())
				if written != compact && !strings.HasPrefix(strings.TrimSpace(lines[i]), "{") {
					t.Errorf("%s\nline %d is not the start of %s", written, i+1, line)
				}
			}
			if strings.Join(got, "\n") != strings.Join(records, "\n") {
				t.Errorf("%s\ngot  %q\nwant %q", written, got, records)
			}
		}
	})
}

// Lines of logs are not documents: one object on each line, a text that begins with a bracket, and a line that is cut off.
func TestIsDocument(t *testing.T) {
	long := strings.Repeat("x", sampleSize)
	for text, want := range map[string]bool{
		"": false, "\n": false, "{}\n{}\n": false, `{"a":{"b":1}}` + "\n": false, "[2026-03-14T12:00:00.000Z] \"GET / HTTP/1.1\"\n": false,
		"{\"a\": 1,\n{\"a\": 2}\n": false, "{\"a\": \"cut off\n{\"a\": 2}\n": false, `{"a":"` + long: false, `{"items":[{"a":1}]}` + "\n" + `{"items":[]}`: false, `[1]`: false, "{": false,
		"\ufeff{\n": false, "{\nx": false, "text\n{\n\"a\"": false,
		"[{": true, " [\n {": true, "{\n  \"a\"": true, "\ufeff{\n\"": true, "{\"a\": [\n[": true, "{\n}\n": true, `{"items":[{"a":1}]}` + "\n\n": true, `{"kind":"List","items":[]}`: true, `{"items":[{"a":"` + long: true,
	} {
		if got := isDocument([]byte(text)); got != want {
			t.Errorf("%.40q: %t, want %t", text, got, want)
		}
	}
}

// endlessList is an EventList of many items.
type endlessList struct {
	head  string
	item  string
	items int
}

func (e *endlessList) Read(p []byte) (n int, err error) {
	for n == 0 {
		switch {
		case e.head != "":
			n = copy(p, e.head)
			e.head = e.head[n:]
		case e.items == 0:
			return 0, io.EOF
		default:
			e.head = e.item
			if e.items--; e.items == 0 {
				e.head = "{}]}"
			}
		}
	}
	return n, nil
}

func TestDocuments_KeepNoListInMemory(t *testing.T) {
	const items = 1 << 17
	d := newDocuments(&endlessList{head: `{"kind":"EventList","items":[`, item: `{"a":"` + strings.Repeat("x", 1<<10) + `"},`, items: items})
	lines, largest := 0, 0
	buffer := make([]byte, 64<<10)
	for {
		n, err := d.Read(buffer)
		lines += bytes.Count(buffer[:n], []byte{'\n'})
		largest = max(largest, cap(d.out))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if lines != items || largest > 4*blockSize {
		t.Errorf("%d lines, want %d; %d bytes in memory", lines, items, largest)
	}
}
