package pattern

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
	p, err := Compile(expression, false)
	if err != nil {
		t.Fatal(err)
	}
	v := newVisit(len(p.Program.Inst))
	v.left = steps
	is, known = v.run(p.Program, text)
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
		p, err := Compile(expression, false)
		if err != nil || len(text) > 200 {
			t.Skip()
		}
		want := regexp.MustCompile(anchored(expression)).MatchString(text)
		v := newVisit(len(p.Program.Inst))
		for range 2 { // the second run uses the sets again
			v.left = unbounded
			if got, known := v.run(p.Program, text); !known || got != want {
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
		is, known, left := simulate(t, expression, text, MinSteps)
		if !is || !known {
			t.Errorf("%s: a usual text takes more than the %d steps that every expression may take (left %d)", expression, MinSteps, left)
		}
	}
	if _, known, left := simulate(t, `(a|a?|aa)*x`, strings.Repeat("a", 60<<10), MaxSteps); known || left >= 0 {
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
		for name, compile := range map[string]func() (*Regexp, error){
			"whole": func() (*Regexp, error) { return Compile(expression, true) }, "part": func() (*Regexp, error) { return CompileSearch(expression) },
		} {
			const times = 8
			var compiled [times]*Regexp
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

func TestPattern_StepsAreSharedByTheExpressionsOfARequest(t *testing.T) {
	p, err := Compile(`(/a|a/|/|a)*x`, false)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("/a", 30<<10)
	steps := MaxSteps
	if _, known := p.Matches(text, &steps); known || steps > 0 || steps < -10 {
		t.Errorf("known %v, %d steps left, want none", known, steps)
	}
	if is, known := p.Matches("/a/ax", &steps); !is || !known {
		t.Errorf("a short text after all steps are used: %v, known %v, want a match", is, known)
	}
	if is, known := p.Matches("/a/a", &steps); is || !known {
		t.Errorf("a short text after all steps are used: %v, known %v, want no match", is, known)
	}
}
