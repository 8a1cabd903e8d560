package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFailures_AreTestsThatFailedNotOnlyBecauseOfLatency(t *testing.T) {
	const events = `{"Action":"output","Package":"github.com/weir-dev/weir/a","Test":"TestSlow","Output":"  a.go:1: LATENCY: 0 % of the CPU time was stolen: p99\n"}
{"Action":"fail","Package":"github.com/weir-dev/weir/a","Test":"TestSlow"}
{"Action":"fail","Package":"github.com/weir-dev/weir/a"}
{"Action":"output","Package":"github.com/weir-dev/weir/b","Test":"TestWrong/x","Output":"  b.go:1: 3 units over\n"}
{"Action":"fail","Package":"github.com/weir-dev/weir/b","Test":"TestWrong/x"}
{"Action":"fail","Package":"github.com/weir-dev/weir/b","Test":"TestWrong"}
{"Action":"pass","Package":"github.com/weir-dev/weir/b","Test":"TestRight"}
{"Action":"fail","Package":"github.com/weir-dev/weir/b"}
{"Action":"output","Package":"github.com/weir-dev/weir/c","Output":"panic: c\n"}
{"Action":"fail","Package":"github.com/weir-dev/weir/c"}
`
	var log strings.Builder
	got, err := failures(strings.NewReader(events), &log)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b TestWrong/x", "c"}, got); diff != "" {
		t.Errorf("failed tests (-want +got):\n%s", diff)
	}
	if want := "  b.go:1: 3 units over\npanic: c\n"; log.String() != want {
		t.Errorf("log %q, want %q", log.String(), want)
	}
	if _, err := failures(strings.NewReader("FAIL\n"), &log); err == nil {
		t.Error("no error for a line that is not an event")
	}
}

func TestVersionOf_PrefersTheVersionOfAFork(t *testing.T) {
	for info, want := range map[string]string{
		"# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n":                         "Redis 7.0.15",
		"# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n":     "Valkey 9.1.2",
		"# Server\r\nredict_version:7.3.6\r\nredict_mode:standalone\r\nredis_version:7.2.4\r\n": "Redict 7.3.6",
		"# Server\r\n": "",
	} {
		if got, err := versionOf(info); got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v, want %q", info, got, err, want)
		}
	}
}

func TestSplice_WritesTheResultsBetweenTheMarks(t *testing.T) {
	groups := []group{{name: "Redis", columns: []column{{name: "stores"}, {name: "faults"}}, results: []result{
		{server: server{source: "Debian"}, version: "Redis 7.0.15", failed: [][]string{nil, nil}},
		{server: server{source: "PyPI", lacks: "TLS"}, version: "Redis 6.2.14", failed: [][]string{{"a TestA", "b TestB"}, nil}},
	}}}
	want := `# Compatibility

` + begin + `

| Redis | from | stores | faults |
| --- | --- | --- | --- |
| Redis 7.0.15 | Debian | passed | passed |
| Redis 6.2.14 (without TLS) | PyPI | failed: a TestA, b TestB | passed |

` + end + `

Text.
`
	got, err := splice([]byte("# Compatibility\n\n"+begin+"\nold\n"+end+"\n\nText.\n"), format(groups))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if _, err := splice([]byte("no marks"), ""); err == nil {
		t.Error("no error for a page without marks")
	}
	if diff := cmp.Diff([]string{"Redis 6.2.14: a TestA", "Redis 6.2.14: b TestB"}, groups[0].results[1].failures()); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}
