package rules

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// The bounds of a regular expression. The time that RE2 needs is proportional to the length of the text and to the size of the
// program. A short expression can compile to a large program: 512 bytes of repeated \pL{1000} compile to 56 000 instructions.
const (
	maxRegexp  = 512  // bytes
	maxProgram = 1000 // instructions; [a-z0-9-]{1,253} compiles to about 510
)

// CompileRegexp compiles an RE2 expression that must match the whole text. It rejects expressions over 512 bytes and expressions that
// compile to more than 1000 instructions.
func CompileRegexp(expression string) (*regexp.Regexp, error) {
	if err := validateRegexp(expression); err != nil {
		return nil, err // before the anchors are added, so that the message has only the user's text
	}
	return regexp.Compile(anchored(expression))
}

// anchored returns the expression that matches only whole texts.
func anchored(expression string) string { return `\A(?:` + expression + `)\z` }

func validateRegexp(expression string) error {
	if len(expression) > maxRegexp {
		return fmt.Errorf("the regular expression must be at most %d bytes long", maxRegexp)
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
		return fmt.Errorf("the regular expression `%s` compiles to %d instructions, but the maximum is %d; "+
			"use fewer or smaller repetitions", expression, len(program.Inst), maxProgram)
	}
	return nil
}
