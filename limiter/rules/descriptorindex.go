package rules

import "slices"

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

// noDescriptor is the result of descriptorOf for a request without a matching descriptor.
const noDescriptor = -1

// descriptorOf returns the index of the first descriptor of r whose entries all match, or noDescriptor.
func descriptorOf(r *Request, match []descriptorEntry) int32 {
	for i, d := range r.Descriptors {
		if matchesDescriptor(d, match) {
			return int32(i)
		}
	}
	return noDescriptor
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
