package matching

import (
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/pattern"
)

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
