package rules

import (
	"errors"
	"fmt"
	"regexp"
)

// header is a compiled HeaderMatch.
type header struct {
	HeaderMatch

	expression *regexp.Regexp // of the type RegularExpression
}

func compileHeader(match HeaderMatch) (header, error) {
	h := header{HeaderMatch: match}
	if match.Name == "" {
		return header{}, errors.New("a header match must have a name")
	}
	switch match.Type {
	case HeaderExact, HeaderPresent:
		return h, nil
	case HeaderRegex:
		var err error
		h.expression, err = CompileRegexp(match.Value)
		return h, err
	default:
		return header{}, fmt.Errorf("unknown header match type %q", match.Type)
	}
}

func (h *header) matches(r *Request) bool {
	value, ok := r.Headers[h.Name]
	switch h.Type {
	case HeaderExact:
		ok = ok && value == h.Value
	case HeaderRegex:
		ok = ok && h.expression.MatchString(value)
	}
	return ok != h.Invert
}
