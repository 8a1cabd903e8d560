package pattern

import (
	"errors"
	"strings"

	"github.com/weir-dev/weir/go/internal/limiter/rules"
)

const (
	// maxExcept is the length of the longest value that a policy can leave out, in bytes.
	maxExcept = 512
	// maxGlobText is the length of the longest value that is compared with patterns. Clients choose the values. A longer one meets every pattern,
	// and no pattern leaves it out: a client must not avoid a policy by a long value.
	maxGlobText = 4096
)

// Entry is a compiled rules.DescriptorMatch.
type Entry struct {
	key, value string
	pattern    glob // nil unless the match has a pattern
	// except has the values that do not match, and exceptGlobs the patterns that are no values.
	except      map[string]bool
	exceptGlobs []glob
}

// CompileDescriptor compiles the matches of the entries of a descriptor.
func CompileDescriptor(match []rules.DescriptorMatch) ([]Entry, error) {
	var entries []Entry
	for _, m := range match {
		switch {
		case m.Key == "":
			return nil, errors.New("a descriptor match must have a key")
		case m.Value != "" && (m.Pattern != "" || len(m.Except) > 0):
			return nil, errors.New("a descriptor match with a value must not have pattern and except")
		}
		e := Entry{key: m.Key, value: m.Value}
		if m.Pattern != "" {
			e.pattern = newGlob(m.Pattern)
		}
		for _, text := range m.Except {
			if strings.Contains(text, "*") {
				e.exceptGlobs = append(e.exceptGlobs, newGlob(text))
				continue
			}
			if e.except == nil {
				e.except = make(map[string]bool, len(m.Except))
			}
			e.except[text] = true
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func (e *Entry) matches(entry rules.Entry) bool {
	if entry.Key != e.key || e.value != "" && entry.Value != e.value || e.pattern != nil && len(entry.Value) <= maxGlobText && !e.pattern.matches(entry.Value) {
		return false
	}
	if len(entry.Value) <= maxExcept && e.except[entry.Value] {
		return false
	}
	if len(entry.Value) > maxGlobText {
		return true
	}
	for _, g := range e.exceptGlobs {
		if g.matches(entry.Value) {
			return false
		}
	}
	return true
}

// MatchesDescriptor reports whether all entries of a descriptor match, in their order.
func MatchesDescriptor(d rules.Descriptor, match []Entry) bool {
	if len(d) != len(match) {
		return false
	}
	for i := range match {
		if !match[i].matches(d[i]) {
			return false
		}
	}
	return true
}
