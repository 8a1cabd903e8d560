// Package pattern compares parts of requests with what rules want: regular expressions, globs, headers, networks and entries of descriptors.
//
// A client chooses the texts, and a tenant chooses the patterns, so each comparison has a bound. Its result is unknown if it would take more.
package pattern

import (
	"regexp"
	"regexp/syntax"
	"sync"
	"unicode/utf8"
)

// The bounds of the regular expressions of a request, in steps. A step is an instruction that the matcher visits. Without bounds, the time
// would be the product of the length of the text, which the client chooses, and the size of the program.
const (
	// MaxSteps is the number of steps of all regular expressions that one request is compared with.
	MaxSteps = 10_000
	// MinSteps is the number of steps that each regular expression may take, however many were compared before it.
	MinSteps = 256
)

// Regexp is a regular expression that must match a whole text, or a part of it. It is safe for concurrent use.
type Regexp struct {
	fast    *regexp.Regexp // nil if it would need too much memory
	Program *syntax.Prog
	visits  sync.Pool // of *visit
}

// Compile compiles an RE2 expression that must match the whole text. With ignoreCase, upper and lower case are the same.
func Compile(expression string, ignoreCase bool) (*Regexp, error) {
	size, err := measureRegexp(expression, ignoreCase)
	if err != nil {
		return nil, err // before more is added, so that the message and the bounds have only the user's text
	}
	if ignoreCase {
		expression = "(?i:" + expression + ")"
	}
	return newPattern(size, anchored(expression), anchored(expression))
}

// CompileSearch is Compile for an expression that must match a part of a text.
func CompileSearch(expression string) (*Regexp, error) {
	size, err := measureRegexp(expression, false)
	if err != nil {
		return nil, err
	}
	return newPattern(size, expression, `\A(?s:.*)(?:`+expression+`)(?s:.*)\z`)
}

// anchored returns the expression that matches only whole texts.
func anchored(expression string) string { return `\A(?:` + expression + `)\z` }

// newPattern returns a pattern whose steps are counted with an expression for the whole text.
func newPattern(size regexpSize, expression, whole string) (p *Regexp, err error) {
	p = new(Regexp)
	if size.fast() {
		if p.fast, err = regexp.Compile(expression); err != nil {
			return nil, err
		}
	}
	parsed, err := syntax.Parse(whole, syntax.Perl)
	if err != nil {
		return nil, err
	}
	if p.Program, err = syntax.Compile(parsed.Simplify()); err != nil {
		return nil, err
	}
	return p, nil
}

// Matches reports whether the pattern matches text, and reduces steps by its cost. If the comparison takes more than the remaining steps,
// and more than MinSteps, the result is unknown.
func (p *Regexp) Matches(text string, steps *int) (matches, certain bool) {
	return p.MatchesWithin(text, steps, MinSteps)
}

// MatchesWithin is Matches for a comparison that may take minimum steps, however few remain.
func (p *Regexp) MatchesWithin(text string, steps *int, minimum int) (matches, certain bool) {
	if worst := len(p.Program.Inst) * (len(text) + 1); p.fast != nil && worst <= *steps {
		*steps -= worst
		return p.fast.MatchString(text), true
	}
	v, _ := p.visits.Get().(*visit)
	if v == nil {
		v = newVisit(len(p.Program.Inst))
	}
	v.left = max(*steps, minimum)
	allowed := v.left
	matches, certain = v.run(p.Program, text)
	*steps -= allowed - v.left // below 0 if only the minimum was left
	p.visits.Put(v)
	return matches, certain
}

// visit simulates a program on a text and counts its steps.
type visit struct {
	now, next set
	left      int // steps
}

func newVisit(instructions int) *visit {
	return &visit{now: newSet(instructions), next: newSet(instructions)}
}

// run reports whether the program matches the whole text, which its instructions require. The result is unknown if no steps are left.
func (v *visit) run(program *syntax.Prog, text string) (matches, certain bool) {
	previous, next := rune(-1), runeAt(text, 0)
	v.now.clear()
	v.add(program, &v.now, uint32(program.Start), syntax.EmptyOpContext(previous, next))
	for offset := 0; offset < len(text); {
		here, width := utf8.DecodeRuneInString(text[offset:])
		offset += width
		next = runeAt(text, offset)
		around := syntax.EmptyOpContext(here, next)
		v.next.clear()
		for _, pc := range v.now.members {
			if inst := &program.Inst[pc]; inst.Op != syntax.InstMatch && inst.MatchRune(here) {
				v.add(program, &v.next, inst.Out, around)
			}
			if v.left < 0 {
				return false, false
			}
		}
		if len(v.next.members) == 0 {
			return false, true
		}
		v.now, v.next = v.next, v.now
	}
	for _, pc := range v.now.members {
		matches = matches || program.Inst[pc].Op == syntax.InstMatch
	}
	return matches, v.left >= 0 // text is empty, or a check in the loop has passed
}

// add adds the instructions that pc leads to without consuming a rune.
func (v *visit) add(program *syntax.Prog, states *set, pc uint32, around syntax.EmptyOp) {
	v.left--
	if v.left < 0 || !states.visit(pc) {
		return
	}
	switch inst := &program.Inst[pc]; inst.Op {
	case syntax.InstFail:
	case syntax.InstAlt, syntax.InstAltMatch:
		v.add(program, states, inst.Out, around)
		v.add(program, states, inst.Arg, around)
	case syntax.InstEmptyWidth:
		if syntax.EmptyOp(inst.Arg)&^around == 0 {
			v.add(program, states, inst.Out, around)
		}
	case syntax.InstCapture, syntax.InstNop:
		v.add(program, states, inst.Out, around)
	default: // consumes a rune, or matches
		states.members = append(states.members, pc)
	}
}

func runeAt(text string, offset int) rune {
	if offset >= len(text) {
		return -1
	}
	r, _ := utf8.DecodeRuneInString(text[offset:])
	return r
}

// set is a set of instructions: all that were visited at a position, and those of them that are members.
type set struct {
	visited []uint32 // by instruction, the round of the last visit
	round   uint32
	members []uint32
}

func newSet(instructions int) set {
	return set{visited: make([]uint32, instructions), members: make([]uint32, 0, instructions)}
}

func (s *set) clear() {
	s.members = s.members[:0]
	if s.round++; s.round == 0 { // overflow
		clear(s.visited)
		s.round = 1
	}
}

// visit reports whether the instruction has not been visited before.
func (s *set) visit(pc uint32) bool {
	first := s.visited[pc] != s.round
	s.visited[pc] = s.round
	return first
}
