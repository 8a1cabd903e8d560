package rules

import (
	"errors"
	"slices"
	"strings"
)

// descriptorIndex maps descriptors to rules, by their number of entries.
type descriptorIndex map[int]*entryIndex

// entryIndex maps descriptors of one length to rules. A rule is listed once: by the first entry of which it requires a certain value, or
// else by the key of its first entry.
type entryIndex struct {
	byValue []map[Entry][]int // by position; nil for a position without rules
	byKey   map[string][]int
}

func (x descriptorIndex) add(i int, match []DescriptorMatch) {
	entries := x[len(match)]
	if entries == nil {
		entries = &entryIndex{byKey: map[string][]int{}}
		x[len(match)] = entries
	}
	position := slices.IndexFunc(match, func(m DescriptorMatch) bool { return m.Value != "" })
	if position < 0 {
		entries.byKey[match[0].Key] = append(entries.byKey[match[0].Key], i)
		return
	}
	for len(entries.byValue) <= position {
		entries.byValue = append(entries.byValue, nil)
	}
	if entries.byValue[position] == nil {
		entries.byValue[position] = map[Entry][]int{}
	}
	entry := Entry{Key: match[position].Key, Value: match[position].Value}
	entries.byValue[position][entry] = append(entries.byValue[position][entry], i)
}

const (
	// maxExcept is the length of the longest value that a policy can leave out, in bytes.
	maxExcept = 512
	// maxGlobText is the length of the longest value that is compared with patterns. Clients choose the values. A longer one meets every pattern,
	// and no pattern leaves it out: a client must not avoid a policy by a long value.
	maxGlobText = 4096
)

// descriptorEntry is a compiled DescriptorMatch.
type descriptorEntry struct {
	key, value string
	pattern    glob // nil unless the match has a pattern
	// except has the values that do not match, and exceptGlobs the patterns that are no values.
	except      map[string]bool
	exceptGlobs []glob
}

func compileDescriptor(match []DescriptorMatch) ([]descriptorEntry, error) {
	var entries []descriptorEntry
	for _, m := range match {
		switch {
		case m.Key == "":
			return nil, errors.New("a descriptor match must have a key")
		case m.Value != "" && (m.Pattern != "" || len(m.Except) > 0):
			return nil, errors.New("a descriptor match with a value must not have pattern and except")
		}
		e := descriptorEntry{key: m.Key, value: m.Value}
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

func (e *descriptorEntry) matches(entry Entry) bool {
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

// noDescriptor is the result of descriptorOf for a request without a matching descriptor.
const noDescriptor = -1

// descriptorOf returns the index of the first descriptor of r whose entries all match, or noDescriptor.
func descriptorOf(r *Request, match []descriptorEntry) int32 {
	for i, d := range r.Descriptors {
		if d.matches(match) {
			return int32(i)
		}
	}
	return noDescriptor
}

func (d Descriptor) matches(match []descriptorEntry) bool {
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

// value returns the value of the first entry with this key.
func (d Descriptor) value(key string) (value string, found bool) {
	for _, e := range d {
		if e.Key == key {
			return e.Value, true
		}
	}
	return "", false
}

// descriptorValue returns the value of the key in the descriptor that the rule matched, or else in the first descriptor with the key, or
// "" if no descriptor has the key.
func (m Matched) descriptorValue(r *Request, key string) string {
	if m.descriptor != noDescriptor {
		if value, found := r.Descriptors[m.descriptor].value(key); found {
			return value
		}
	}
	for _, d := range r.Descriptors {
		if value, found := d.value(key); found {
			return value
		}
	}
	return ""
}
