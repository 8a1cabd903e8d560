package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const fakeEvents = `{"ImportPath":"","Action":"build-output","Output":"WORK=/tmp/go-build1\n"}
{"ImportPath":"example.com/dep","Action":"build-output","Output":"cat >$WORK/b1/importcfg << 'EOF'\npackagefile cmd/compile =x\nEOF\n"}
{"ImportPath":"example.com/dep","Action":"build-output","Output":"/usr/local/go/pkg/tool/linux_amd64/compile -o $WORK/b1/_pkg_.a -p dep\n"}
{"Action":"start","Package":"example.com/a"}
{"Action":"run","Package":"example.com/a","Test":"TestA"}
{"Action":"output","Package":"example.com/a","Test":"TestA","Output":"    a_test.go:3: bad\n"}
{"Action":"fail","Package":"example.com/a","Test":"TestA","Elapsed":0.5}
{"Action":"run","Package":"example.com/a","Test":"TestSkip"}
{"Action":"skip","Package":"example.com/a","Test":"TestSkip"}
{"Action":"run","Package":"example.com/a","Test":"TestStuck"}
{"Action":"output","Package":"example.com/a","Test":"TestStuck","Output":"waiting\n"}
{"Action":"output","Package":"example.com/a","Output":"FAIL\texample.com/a\t1.5s\n"}
{"Action":"fail","Package":"example.com/a","Elapsed":1.5}
{"Action":"start","Package":"example.com/b"}
{"Action":"run","Package":"example.com/b","Test":"TestB"}
{"Action":"pass","Package":"example.com/b","Test":"TestB","Elapsed":0.1}
{"Action":"output","Package":"example.com/b","Output":"ok  \texample.com/b\t(cached)\n"}
{"Action":"pass","Package":"example.com/b","Elapsed":0.1}
{"Action":"start","Package":"example.com/c"}
{"Action":"run","Package":"example.com/c","Test":"TestC"}
{"Action":"pass","Package":"example.com/c","Test":"TestC","Elapsed":0.1}
{"Action":"output","Package":"example.com/c","Output":"goleak: found unexpected goroutines\n"}
{"Action":"fail","Package":"example.com/c","Elapsed":0.2}
{"ImportPath":"example.com/d","Action":"build-output","Output":"# example.com/d\n"}
{"ImportPath":"example.com/d","Action":"build-output","Output":"d/d.go:2:1: wrong\n"}
{"ImportPath":"example.com/d","Action":"build-fail"}
{"Action":"start","Package":"example.com/d"}
{"Action":"output","Package":"example.com/d","Output":"FAIL\texample.com/d [build failed]\n"}
{"Action":"fail","Package":"example.com/d","Elapsed":0,"FailedBuild":"example.com/d"}
{"Action":"start","Package":"example.com/e"}
{"Action":"run","Package":"example.com/e","Test":"TestE"}
{"Action":"pass","Package":"example.com/e","Test":"TestE"}
{"Action":"pass","Package":"example.com/e","Elapsed":2}`

func read(t *testing.T, events string) (r *results, printed, saved string) {
	t.Helper()
	var screen, file strings.Builder
	r = newResults(&file, func(text string) { screen.WriteString(strings.TrimSuffix(text, "\n") + "\n") })
	if err := eachLine(strings.NewReader(events), r.add); err != nil {
		t.Fatal(err)
	}
	return r, screen.String(), file.String()
}

func TestResults_PrintEachFailureWithItsOutput(t *testing.T) {
	_, printed, _ := read(t, fakeEvents)
	want := `=== FAIL: example.com/a TestA (0.50s)
    a_test.go:3: bad
=== FAIL: example.com/a TestStuck (1.50s)
waiting
FAIL	example.com/a	1.5s
=== FAIL: example.com/c (0.20s)
goleak: found unexpected goroutines
=== FAIL: build of example.com/d
# example.com/d
d/d.go:2:1: wrong
=== FAIL: example.com/d (0.00s)
FAIL	example.com/d [build failed]
ok    example.com/e (2.0s)
`
	if diff := cmp.Diff(want, printed); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The last line is that of gotestsum, which CI recognizes.
func TestSummary_CountsTestsInTheLastLine(t *testing.T) {
	r, _, _ := read(t, fakeEvents)
	want := `
=== Failed, with the output above:
    example.com/a TestA
    example.com/a TestStuck
    example.com/c
    example.com/d

5 packages tested, 1 from the cache of Go
DONE 6 tests, 1 skipped, 4 failures in 61.500s`
	if diff := cmp.Diff(want, r.summary(61500*time.Millisecond)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	passed, _, _ := read(t, `{"Action":"run","Package":"example.com/e","Test":"TestE"}`)
	if got := passed.summary(time.Second); !strings.HasSuffix(got, "\nDONE 1 tests in 1.000s") {
		t.Errorf("%q", got)
	}
}

// hack/retry reads the file. The commands of builds are not in it.
func TestResults_SaveEventsWithoutCommands(t *testing.T) {
	_, _, saved := read(t, fakeEvents)
	_, want, _ := strings.Cut(fakeEvents, "compile -o $WORK/b1/_pkg_.a -p dep\\n\"}\n")
	if diff := cmp.Diff(want+"\n", saved); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestResults_CountWhatWasCompiledAndTested(t *testing.T) {
	r, _, _ := read(t, fakeEvents)
	for _, command := range []string{"mkdir -p $WORK/b2/", "cat >$WORK/b2/importcfg << 'EOF'", "/go/pkg/tool/compile -o $WORK/b2/_pkg_.a -p example.com/other"} {
		r.addCommand([]byte(command))
	}
	if r.compiled != 2 {
		t.Errorf("compiled %d packages, want example.com/dep and example.com/other", r.compiled)
	}
	if diff := cmp.Diff(map[string]bool{"example.com/b": true}, r.cached); diff != "" {
		t.Errorf("cached (-want +got)\n%s", diff)
	}
	if _, found := r.seconds["example.com/b"]; found || r.seconds["example.com/e"] != 2 {
		t.Errorf("%v: want the time of e, and not that of b, which is from the cache", r.seconds)
	}
	if len(r.running) != 0 || len(r.output) != 0 {
		t.Errorf("running %v, output of %v", r.running, r.output)
	}
}

func TestResults_PrintWhatIsNotAnEvent(t *testing.T) {
	if _, printed, saved := read(t, "go: no such module\n\n"); printed != "go: no such module\n" || saved != "" {
		t.Errorf("printed %q, saved %q", printed, saved)
	}
}
