package rules

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// Bounds of a regular expression. RE2 takes time in proportion to the text and to the program, and a short expression can
// make a large program: \pL{1000} repeated fills 512 bytes with 56 000 instructions.
const (
	maxRegexp  = 512  // bytes
	maxProgram = 1000 // instructions; [a-z0-9-]{1,253} makes about 510
)

// CompileRegexp compiles a regular expression as Weir matches it: RE2, against the whole text. It refuses expressions
// over 512 bytes and those that grow too large.
func CompileRegexp(expression string) (*regexp.Regexp, error) {
	if err := validateRegexp(expression); err != nil {
		return nil, err // the user's own text stands in the message, not our anchors
	}
	return regexp.Compile(`\A(?:` + expression + `)\z`)
}

func validateRegexp(expression string) error {
	if len(expression) > maxRegexp {
		return fmt.Errorf("the regular expression is longer than %d bytes", maxRegexp)
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return err
	}
	if len(program.Inst) > maxProgram {
		return fmt.Errorf("the regular expression `%s` makes a program of %d instructions, at most %d are matched in time; "+
			"lower its repetitions", expression, len(program.Inst), maxProgram)
	}
	return nil
}

// patternOf is the user's text of an expression that CompileRegexp anchored.
func patternOf(e *regexp.Regexp) string {
	s := e.String()
	return s[len(`\A(?:`) : len(s)-len(`)\z`)]
}
