package pattern

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The bounds of a regular expression. They are checked before the work that they bound. The time that RE2 needs is proportional to the
// length of the text and to the size of the program. A short expression can compile to a large program: 512 bytes of repeated \pL{1000}
// compile to 56 000 instructions. An instruction can have a large table: \pL has 659 ranges of 8 bytes. To ignore the case of a range takes
// the parser a time for each character of the range.
const (
	maxRegexp  = 512    // bytes
	maxProgram = 1000   // instructions; [a-z0-9-]{1,253} compiles to about 510
	maxClasses = 6      // Unicode classes, such as \pL; a class has up to 1424 runes of 4 bytes, and takes 0.1 ms to parse
	maxFolded  = 32_768 // characters in ranges whose case is ignored; 40 ns each
)

// The bounds of the expressions that package regexp compiles too. It copies the table of an instruction for each repetition. Larger ones
// are only simulated, see pattern.
const (
	maxFastProgram = 256  // instructions
	maxFastRunes   = 2048 // in the tables of all instructions
)

// ValidateRegexp rejects an expression that is not valid RE2, or whose compilation takes more than about a millisecond and 96 KiB:
// expressions over 512 bytes, with more than 6 Unicode classes, with more than 1000 instructions, or that ignore the case of more than
// 32 768 characters in ranges.
//
// With ignoreCase, upper and lower case are the same.
func ValidateRegexp(expression string, ignoreCase bool) error {
	_, err := measureRegexp(expression, ignoreCase)
	return err
}

// regexpSize is the size of the program of an expression, with all repetitions.
type regexpSize struct {
	instructions, runes int
}

func (s regexpSize) times(n int) regexpSize { return regexpSize{s.instructions * n, s.runes * n} }

func (s regexpSize) plus(other regexpSize) regexpSize {
	return regexpSize{s.instructions + other.instructions, s.runes + other.runes}
}

// fast reports whether package regexp needs little memory for an expression.
func (s regexpSize) fast() bool { return s.instructions <= maxFastProgram && s.runes <= maxFastRunes }

// measureRegexp returns the size of an expression without compiling it, or rejects it.
func measureRegexp(expression string, ignoreCase bool) (size regexpSize, err error) {
	if len(expression) > maxRegexp {
		return size, fmt.Errorf("the regular expression must be at most %d bytes long", maxRegexp)
	}
	if n := strings.Count(expression, `\p`) + strings.Count(expression, `\P`); n > maxClasses {
		return size, fmt.Errorf("the regular expression `%s` has %d Unicode classes such as \\p{L}, but the maximum is %d; "+
			"repeat a class with + or {n}, or use ranges such as a-z", expression, n, maxClasses)
	}
	if n := rangedCharacters(expression); n > maxFolded && (ignoreCase || ignoresCase.MatchString(expression)) {
		return size, fmt.Errorf("the regular expression `%s` ignores the case of ranges with %d characters, but the maximum is %d; "+
			"use smaller ranges, or distinguish the case", expression, n, maxFolded)
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return size, err
	}
	if size = programSize(parsed).plus(regexpSize{instructions: 2}); size.instructions > maxProgram { // the match, and a failure
		return size, fmt.Errorf("the regular expression `%s` compiles to %d instructions, but the maximum is %d; "+
			"use fewer or smaller repetitions", expression, size.instructions, maxProgram)
	}
	return size, nil
}

// programSize returns the approximate size of the program of a syntax tree: the compiler simplifies some repetitions of
// repetitions. The parser permits at most 1000 repetitions, those of an outer repetition included.
func programSize(e *syntax.Regexp) (size regexpSize) {
	for _, sub := range e.Sub {
		size = size.plus(programSize(sub))
	}
	own := regexpSize{instructions: 1}
	switch e.Op {
	case syntax.OpLiteral:
		own = regexpSize{len(e.Rune), 2 * len(e.Rune)}
	case syntax.OpCharClass:
		own.runes = len(e.Rune)
	case syntax.OpCapture:
		own.instructions = 2
	case syntax.OpConcat:
		own.instructions = 0
	case syntax.OpAlternate:
		own.instructions = len(e.Sub) - 1
	case syntax.OpRepeat:
		if e.Max < 0 { // x{2,} is xx+
			return size.times(max(1, e.Min)).plus(regexpSize{instructions: 1})
		}
		if e.Max > 0 {
			return size.times(e.Max).plus(regexpSize{instructions: e.Max - e.Min}) // x{1,3} is x(x(x)?)?
		}
	default: // an instruction, besides those of the operand of * + ?
	}
	return size.plus(own)
}

// ignoresCase finds flags such as (?i) and (?s-i:. It finds texts that only look like flags too, for example in a class.
var ignoresCase = regexp.MustCompile(`\(\?[a-zA-Z-]*i`)

// rangedCharacters returns how many characters the ranges of an expression have together. It counts whatever looks like a range, also
// outside of brackets.
func rangedCharacters(expression string) (n int) {
	var low, dash rune // the two characters before c
	for expression != "" {
		c, size := characterAt(expression)
		if dash == '-' {
			n += int(max(0, c-low+1))
		}
		low, dash, expression = dash, c, expression[size:]
	}
	return n
}

// characterAt returns the character that an expression begins with, and its size in bytes. Of an escape that has no code point in
// hexadecimal digits, it is the character after the backslash.
func characterAt(expression string) (c rune, size int) {
	rest, escaped := strings.CutPrefix(expression, `\`)
	if !escaped {
		return utf8.DecodeRuneInString(expression)
	}
	if digits, end, found := strings.Cut(rest, "}"); found && strings.HasPrefix(digits, "x{") {
		value, _ := strconv.ParseInt(digits[2:], 16, 32) // 0 if the expression is invalid
		return rune(value), len(expression) - len(end)
	}
	if rest == "" {
		return utf8.RuneError, 1
	}
	c, size = utf8.DecodeRuneInString(rest)
	return c, 1 + size
}
