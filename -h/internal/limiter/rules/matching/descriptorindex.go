package matching

import (
	"slices"

	"github.com/weir-dev/weir/go/internal/limiter/rules"
	"github.com/weir-dev/weir/go/internal/limiter/rules/pattern"
)

// descriptorIndex maps descriptors to rules, by their number of entries.
type descriptorIndex map[int]*entryIndex

// entryIndex maps descriptors of one length to rules. A rule is listed once: by the first entry of which it requires a certain value, or
// else by the key of its first entry.
type entryIndex struct {
	byValue []map[rules.Entry][]int // by position; nil for a position without rules
	byKey   map[string][]int
}

func (x descriptorIndex) add(i int, match []rules.DescriptorMatch) {
	entries := x[len(match)]
	if entries == nil {
		entries = &entryIndex{byKey: map[string][]int{}}
		x[len(match)] = entries
	}
	position := slices.IndexFunc(match, func(m rules.DescriptorMatch) bool { return m.Value != "" })
	if position < 0 {
		entries.byKey[match[0].Key] = append(entries.byKey[match[0].Key], i)
		return
	}
	for len(entries.byValue) <= position {
		entries.byValue = append(entries.byValue, nil)
	}
	if entries.byValue[position] == nil {
		entries.byValue[position] = map[rules.Entry][]int{}
	}
	entry := rules.Entry{Key: match[position].Key, Value: match[position].Value}
	entries.byValue[position][entry] = append(entries.byValue[position][entry], i)
}

// noDescriptor is the result of descriptorOf for a request without a matching descriptor.
const noDescriptor = -1

// descriptorOf returns the index of the first descriptor of r whose entries all match, or noDescriptor.
func descriptorOf(r *rules.Request, match []pattern.Entry) int32 {
	for i, d := range r.Descriptors {
		if pattern.MatchesDescriptor(d, match) {
			return int32(i)
		}
	}
	return noDescriptor
}

// descriptorValue returns the value of the key in the descriptor that the rule matched, or else in the first descriptor with the key, or
// "" if no descriptor has the key.
func (m Matched) descriptorValue(r *rules.Request, key string) string {
	if m.descriptor != noDescriptor {
		if value, found := r.Descriptors[m.descriptor].Value(key); found {
			return value
		}
	}
	for _, d := range r.Descriptors {
		if value, found := d.Value(key); found {
			return value
		}
	}
	return ""
}
