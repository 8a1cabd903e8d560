package rules

import (
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// unbounded is more steps than any comparison of a test takes.
const unbounded = 1 << 30

// simulate compares text with the program of expression only.
func simulate(t testing.TB, expression, text string, steps int) (is, known bool, left int) {
	t.Helper()
	p, err := compilePattern(expression, false)
	if err != nil {
		t.Fatal(err)
	}
	v := newVisit(len(p.program.Inst))
	v.left = steps
	is, known = v.run(p.program, text)
	return is, known, v.left
}

func FuzzPattern_AgreesWithRegexp(f *testing.F) {
	for _, seed := range [][2]string{
		{`/v[0-9]+/reports/[^/]+`, "/v1/reports/a"},
		{`(?i)/V1.*`, "/v1x"},
		{`(a|b|ab)*x`, "abababx"},
		{`\b/a\b.*`, "/a b"},
		{`a{2,3}b?`, "aaa"},
		{`(?s).*`, "a\nb"},
		{`.*`, "a\nb"},
		{`(?m)^a$\n^b$`, "a\nb"},
		{`\pL+`, "\u00e9\u65e5"},
		{`[^a]`, "\xff"},
		{`\B`, ""},
		{``, ""},
		{`^$`, ""},
		{`(?U)a+?`, "aaa"},
		{`a|`, "a"},
		{`(?:(?:a?)*)*b`, "aaab"},
		{`\x{10FFFF}`, "\U0010FFFF"},
		{`(?i)\x{212a}`, "k"},
		{`\Aa\z`, "a"},
		{`a$b`, "ab"},
		{`^[\p{L}\p{N}_-]{1,64}$`, "a-\u65e5"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, expression, text string) {
		p, err := compilePattern(expression, false)
		if err != nil || len(text) > 200 {
			t.Skip()
		}
		want := regexp.MustCompile(anchored(expression)).MatchString(text)
		v := newVisit(len(p.program.Inst))
		for range 2 { // the second run uses the sets again
			v.left = unbounded
			if got, known := v.run(p.program, text); !known || got != want {
				t.Errorf("%q matches %q: %v, known %v; regexp: %v", expression, text, got, known, want)
			}
		}
	})
}

func TestPattern_CountsItsSteps(t *testing.T) {
	for expression, text := range map[string]string{
		`/v[0-9]+/reports/[^/]+`: "/v1/reports/2026-05-01", `.*\.css`: "/static/css/site/main.css", `/v1/(search|suggest|complete)/[a-z]+`: "/v1/search/abc",
		`[a-z0-9-]{1,253}`: "a-name-of-a-usual-length",
	} {
		is, known, left := simulate(t, expression, text, minPatternSteps)
		if !is || !known {
			t.Errorf("%s: a usual text takes more than the %d steps that every expression may take (left %d)", expression, minPatternSteps, left)
		}
	}
	if _, known, left := simulate(t, `(a|a?|aa)*x`, strings.Repeat("a", 60<<10), maxPatternSteps); known || left >= 0 {
		t.Errorf("a long text: known %v, %d steps left", known, left)
	}
}

// TestPattern_HoldsABoundedAmountOfMemory measures what the compilation allocates, too: it bounds its time.
func TestPattern_HoldsABoundedAmountOfMemory(t *testing.T) {
	const (
		maxHeld      = 96 << 10
		maxAllocated = 1 << 20
	)
	for _, expression := range []string{
		`^[\p{L}\p{N}_-]{1,64}$`, `[a-z0-9-]{1,253}`, strings.Repeat(`\PL`, maxClasses), strings.Repeat(`\pC`, maxClasses-1) + `\pC{980}`, `(?i)` + strings.Repeat(`\p{Lu}`, maxClasses),
		`(a?){249}`, `[a-z]{900}`, strings.Repeat(`[^\w]`, 102), `.*(` + strings.Repeat(`a|`, 200) + `b)`,
	} {
		for name, compile := range map[string]func() (*pattern, error){
			"whole": func() (*pattern, error) { return compilePattern(expression, true) }, "part": func() (*pattern, error) { return compileSearch(expression) },
		} {
			const times = 8
			var compiled [times]*pattern
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for i := range compiled {
				p, err := compile()
				if err != nil {
					t.Fatal(expression, err)
				}
				compiled[i] = p
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			held, allocated := (int(after.HeapAlloc)-int(before.HeapAlloc))/times, int(after.TotalAlloc-before.TotalAlloc)/times
			t.Logf("%.40s, %s: holds %d bytes of %d", expression, name, held, allocated)
			if held > maxHeld || allocated > maxAllocated {
				t.Errorf("%s, %s: holds %d bytes of %d, want at most %d of %d", expression, name, held, allocated, maxHeld, maxAllocated)
			}
			runtime.KeepAlive(compiled)
		}
	}
}

// maxMatchCost is the bound for costIndex: the path (8 KiB) is looked up among the exact paths of one host and of 20 wildcard hosts, the
// prefixes have 20 lengths of at most 512 bytes, and the wildcards 20 of at most 253. In addition, the readings of a path are looked up among the exact
// paths and the prefixes.
const maxMatchCost = 8<<10 + 253 + 20*512 + 20*253 + maxPatternSteps + 20*(minPatternSteps+10) + 21*maxReadingBytes + maxPatternSteps
