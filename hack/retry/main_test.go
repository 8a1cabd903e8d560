package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const pkg = "github.com/weir-dev/weir/test/reliability"

func out(test, line string) event {
	return event{Action: "output", Package: pkg, Test: test, Output: line + "\n"}
}
func fail(test string) event  { return event{Action: "fail", Package: pkg, Test: test} }
func begin(test string) event { return event{Action: "run", Package: pkg, Test: test} }

const (
	slow  = "    a_test.go:1: LATENCY: 12 % of the CPU time was stolen: p99 is 30 ms"
	calm  = "    a_test.go:1: LATENCY: 4 % of the CPU time was stolen: p99 is 30 ms"
	other = "    a_test.go:2: 3 units over"
)

func TestForgiven_ForgivesOnlyLatency(t *testing.T) {
	const forgiven = "test/reliability TestA: too slow while 12 % of the CPU time was stolen"
	latencyOnly := []event{begin("TestA"), out("TestA", slow), fail("TestA"), fail("")}
	tests := map[string]struct {
		events []event
		want   string // the line, or the error
	}{
		"a slow test":                  {latencyOnly, forgiven},
		"a slow subtest":               {[]event{out("TestA/x", slow), fail("TestA/x"), out("TestA", "--- FAIL: TestA (0.1s)"), fail("TestA"), fail("")}, strings.Replace(forgiven, "TestA", "TestA/x", 1)},
		"nothing":                      {nil, "no test failed"},
		"only passed":                  {[]event{begin("TestA"), {Action: "pass", Package: pkg, Test: "TestA"}}, "no test failed"},
		"too little stolen":            {[]event{out("TestA", calm), fail("TestA"), fail("")}, "test/reliability TestA: too slow while 4 % of the CPU time was stolen; at least 5 % explain it"},
		"one of two explained":         {[]event{out("TestA", slow), out("TestA", calm), fail("TestA"), fail("")}, "test/reliability TestA: too slow while 4 % of the CPU time was stolen; at least 5 % explain it"},
		"another failure":              {append(latencyOnly, out("TestB", other), fail("TestB")), "test/reliability TestB: failed, not because of latency"},
		"a mark in a log of a program": {[]event{out("TestA", "LATENCY: 12 % of the CPU time was stolen: p99 is 30 ms"), out("TestA", other), fail("TestA"), fail("")}, "test/reliability TestA: failed, not because of latency"},
		"a parent that reports": {
			[]event{out("TestA/x", slow), fail("TestA/x"), out("TestA", other), fail("TestA"), fail("")},
			"test/reliability TestA: may have failed in another way than its subtests",
		},
		"a data race":      {append(latencyOnly, out("TestA", "WARNING: DATA RACE")), "test/reliability TestA: WARNING: DATA RACE"},
		"a panic":          {append(latencyOnly, out("", "panic: nil map")), "test/reliability: panic: nil map"},
		"a leak":           {append(latencyOnly, out("", "goleak: Errors on successful test run: found unexpected goroutines:")), "test/reliability: goleak: Errors on successful test run: found unexpected goroutines:"},
		"a timeout":        {append(latencyOnly, begin("TestB")), "test/reliability TestB: did not end"},
		"a failed package": {[]event{out("", "exit status 1"), fail("")}, "test/reliability: failed, not because of latency"},
		"a failed build":   {append(latencyOnly, event{Action: "build-fail", ImportPath: "example.com/x"}), "example.com/x: build failed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := retry(write(t, tt.events))
			if wantError := tt.want != forgiven && name != "a slow subtest"; (err != nil) != wantError {
				t.Fatalf("line %q, error %v", got, err)
			}
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func write(t *testing.T, events []event) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "events")
	if err := os.WriteFile(path, []byte(lines(t, events)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func lines(t *testing.T, events []event) string {
	t.Helper()
	var text strings.Builder
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(line, '\n'))
	}
	return text.String()
}

func TestRetry_RejectsWhatIsNotAnEvent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	if err := os.WriteFile(path, []byte("FAIL\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, filepath.Join(t.TempDir(), "missing")} {
		if line, err := retry(path); err == nil {
			t.Errorf("%s: %q, want an error", path, line)
		}
	}
}

// fakeMake fails as often as the file $FAKE_FAILURES has lines, and then passes. It removes a line and writes it as the events of the tests.
const fakeMake = `#!/bin/sh
echo "made $1"
[ "$1" = "$FAKE_TARGET" ] && [ -s "$FAKE_FAILURES" ] || exit 0
head -n 1 "$FAKE_FAILURES" | sed 's/;;/\n/g' >"${WEIR_TEST_EVENTS:-/dev/null}"
sed -i 1d "$FAKE_FAILURES"
exit 1
`

func TestCI_RepeatsOnlyTestsAndOnlyIfTheyWereSlow(t *testing.T) {
	const reason = "make test was repeated (test/reliability TestA: too slow while 12 % of the CPU time was stolen)"
	reasonOfAll := strings.Replace(reason, "make test", "make test-all", 1)
	isSlow := strings.ReplaceAll(strings.TrimSpace(lines(t, []event{out("TestA", slow), fail("TestA"), fail("")})), "\n", ";;")
	other := strings.TrimSpace(lines(t, []event{fail("TestA")}))
	type outcome struct {
		target   string
		failures []string // the events of each attempt that fails
		passes   bool
		last     string // line of the output
	}
	tests := map[string]outcome{
		"nothing fails":        {"test", nil, true, "=== all checks passed"},
		"slow once":            {"test", []string{isSlow}, true, "=== all checks passed; " + reason},
		"slow twice":           {"test", []string{isSlow, isSlow}, true, "=== all checks passed; " + reason + "; " + reason},
		"slow three times":     {"test", []string{isSlow, isSlow, isSlow}, false, "=== FAILED: make test; " + reason + "; " + reason},
		"slow, then a failure": {"test", []string{isSlow, other}, false, "=== FAILED: make test; " + reason},
		"a failure":            {"test", []string{other}, false, "=== FAILED: make test"},
		"all tests, slow once": {"test-all", []string{isSlow}, true, "=== all checks passed; " + reasonOfAll},
		"a failure of all":     {"test-all", []string{other}, false, "=== FAILED: make test-all"},
		"a finding of verify":  {"verify", []string{isSlow}, false, "=== FAILED: make verify"},
		"a finding of lint":    {"lint", []string{isSlow}, false, "=== FAILED: make lint"},
	}
	if _, err := os.ReadFile("../../.ci/run"); err != nil { // so that Go runs the test again when the script changes
		t.Fatal(err)
	}
	bin := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "retry"), ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for path, script := range map[string]string{
		"make": fakeMake, "go": "#!/bin/sh\n[ \"$1\" = run ] && shift 2 && exec retry \"$@\"\nexit 0\n",
	} {
		if err := os.WriteFile(filepath.Join(bin, path), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	labs := map[string]string{"without a cluster": "/nonexistent"}
	if os.Getuid() == 0 { // make e2e runs only as root
		labs["with a cluster"] = filepath.Join(bin, "make") // any program
		tests["a failure of e2e"] = outcome{"e2e", []string{isSlow}, false, "=== FAILED: make e2e"}
	}
	for lab, path := range labs {
		for name, tt := range tests {
			if tt.target == "e2e" && path == "/nonexistent" {
				continue
			}
			t.Run(name+" "+lab, func(t *testing.T) {
				failures := filepath.Join(t.TempDir(), "failures")
				if err := os.WriteFile(failures, []byte(strings.Join(append(tt.failures, ""), "\n")), 0o600); err != nil {
					t.Fatal(err)
				}
				cmd := exec.CommandContext(t.Context(), "bash", "../../.ci/run")
				cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "LAB="+path, "FAKE_TARGET="+tt.target, "FAKE_FAILURES="+failures)
				text, err := cmd.CombinedOutput()
				lines := strings.Split(strings.TrimSpace(string(text)), "\n")
				if last, _, _ := strings.Cut(lines[len(lines)-1], " (after "); (err == nil) != tt.passes || last != tt.last {
					t.Errorf("error %v, last line %q, want %q; output:\n%s", err, last, tt.last, text)
				}
				if tt.passes {
					for _, target := range []string{"test", "test-all", "verify", "lint", "test-gateways", "mutate-diff"} {
						if !slices.Contains(lines, "made "+target) {
							t.Errorf("make %s did not run; output:\n%s", target, text)
						}
					}
				}
			})
		}
	}
}
