package rules

import (
	"errors"
	"fmt"
)

// header is a compiled HeaderMatch.
type header struct {
	HeaderMatch

	expression *pattern // of the type RegularExpression
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
		h.expression, err = compilePattern(match.Value)
		return h, err
	default:
		return header{}, fmt.Errorf("unknown header match type %q", match.Type)
	}
}

// matches reports whether the header selects r. steps is for regular expressions, see [pattern.matches]. If it does not suffice, the
// result is unknown: a condition of a rule is then met, so that a client cannot avoid a limit by a long header.
func (h *header) matches(r *Request, steps *int) (is, known bool) {
	value, ok := r.Headers[h.Name]
	switch h.Type {
	case HeaderExact:
		ok = ok && value == h.Value
	case HeaderRegex:
		if !ok {
			break
		}
		if ok, known = h.expression.matches(value, steps); !known {
			return false, false
		}
	}
	return ok != h.Invert, true
}
