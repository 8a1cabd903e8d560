package rules

import (
	"errors"
	"fmt"
	"strings"
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
		h.expression, err = compilePattern(match.Value, false)
		return h, err
	default:
		return header{}, fmt.Errorf("unknown header match type %q", match.Type)
	}
}

const (
	// maxValues is the number of values in one header that a condition is compared with.
	maxValues = 16
	// maxValuesLength is the length of a header whose values are separated, in bytes. Clients choose it, and every policy compares it.
	maxValuesLength = 4096
)

// meets is matches for a condition of a rule. A header with several values, of which a service can read one, meets it if one of them does. That is
// uncertain, so the result is unknown.
func (h *header) meets(r *Request, steps *int) (is, known bool) {
	is, known = h.matches(r, steps)
	if is || !known || h.Invert || h.Type == HeaderPresent {
		return is, known
	}
	value := r.Headers[h.Name]
	if len(value) > maxValuesLength {
		return false, false
	}
	if strings.IndexByte(value, ',') < 0 {
		return false, true
	}
	allowed := max(*steps, minPatternSteps) // of all values
	left := allowed
	defer func() { *steps -= allowed - left }()
	count := 0
	for one := range strings.SplitSeq(value, ",") {
		one = strings.Trim(one, " \t")
		if count++; count > maxValues {
			return false, false
		}
		if h.Type == HeaderExact {
			if one == h.Value {
				return false, false
			}
			continue
		}
		if is, known := h.expression.matchesWithin(one, &left, 0); is || !known {
			return false, false
		}
	}
	return false, true
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
