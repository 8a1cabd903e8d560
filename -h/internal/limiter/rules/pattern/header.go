package pattern

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weir-dev/weir/go/internal/limiter/rules"
)

// Header is a compiled rules.HeaderMatch.
type Header struct {
	rules.HeaderMatch

	Regexp *Regexp // of the type RegularExpression
}

// CompileHeader compiles a match. The error names an unknown type, a missing name or an invalid expression.
func CompileHeader(match rules.HeaderMatch) (Header, error) {
	h := Header{HeaderMatch: match}
	if match.Name == "" {
		return Header{}, errors.New("a header match must have a name")
	}
	switch match.Type {
	case rules.HeaderExact, rules.HeaderPresent:
		return h, nil
	case rules.HeaderRegex:
		var err error
		h.Regexp, err = Compile(match.Value, false)
		return h, err
	default:
		return Header{}, fmt.Errorf("unknown header match type %q", match.Type)
	}
}

const (
	// maxValues is the number of values in one header that a condition is compared with.
	maxValues = 16
	// maxValuesLength is the length of a header whose values are separated, in bytes. Clients choose it, and every policy compares it.
	maxValuesLength = 4096
)

// Meets is matches for a condition of a rule. A header with several values, of which a service can read one, meets it if one of them does. That is
// uncertain, so the result is unknown.
func (h *Header) Meets(r *rules.Request, steps *int) (meets, certain bool) {
	meets, certain = h.matches(r, steps)
	if meets || !certain || h.Invert || h.Type == rules.HeaderPresent {
		return meets, certain
	}
	value, _ := r.Header(h.Name)
	if len(value) > maxValuesLength {
		return false, false
	}
	if strings.IndexByte(value, ',') < 0 {
		return false, true
	}
	allowed := max(*steps, MinSteps) // of all values
	left := allowed
	defer func() { *steps -= allowed - left }()
	count := 0
	for one := range strings.SplitSeq(value, ",") {
		one = strings.Trim(one, " \t")
		if count++; count > maxValues {
			return false, false
		}
		if h.Type == rules.HeaderExact {
			if one == h.Value {
				return false, false
			}
			continue
		}
		if matches, certain := h.Regexp.MatchesWithin(one, &left, 0); matches || !certain {
			return false, false
		}
	}
	return false, true
}

// matches reports whether the header selects r. steps is for regular expressions, see [Regexp.Matches]. If it does not suffice, the
// result is unknown: a condition of a rule is then met, so that a client cannot avoid a limit by a long header.
func (h *Header) matches(r *rules.Request, steps *int) (matches, certain bool) {
	value, ok := r.Header(h.Name)
	switch h.Type {
	case rules.HeaderExact:
		ok = ok && value == h.Value
	case rules.HeaderRegex:
		if !ok {
			break
		}
		if ok, certain = h.Regexp.Matches(value, steps); !certain {
			return false, false
		}
	}
	return ok != h.Invert, true
}
