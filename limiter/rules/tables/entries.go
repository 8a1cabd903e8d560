package tables

import (
	"slices"

	"github.com/weir-dev/weir/limiter/persistent"
	"github.com/weir-dev/weir/limiter/rules"
)

// Entries map descriptors of one length to rules. A rule is listed once: by the first entry of which it requires a certain value, or else by the key of
// its first entry.
type Entries[R Rule] struct {
	version persistent.Version

	ByValue []persistent.Map[rules.Entry, List[R]] // by position
	ByKey   persistent.Map[string, List[R]]
}

// inEntries edits the table of descriptors with as many entries as the rule matches.
func (e *Edit[R]) inEntries(x *Entries[R]) *Entries[R] {
	match := e.Match.Descriptors
	if x == nil {
		x = &Entries[R]{version: e.Version, ByValue: make([]persistent.Map[rules.Entry, List[R]], len(match))}
	} else if x.version != e.Version {
		x = &Entries[R]{version: e.Version, ByValue: slices.Clone(x.ByValue), ByKey: x.ByKey}
	}
	position := slices.IndexFunc(match, func(m rules.DescriptorMatch) bool { return m.Value != "" })
	if position < 0 {
		inList(e, &x.ByKey, match[0].Key)
	} else {
		inList(e, &x.ByValue[position], rules.Entry{Key: match[position].Key, Value: match[position].Value})
	}
	isUsed := x.ByKey.Len() > 0
	for i := range x.ByValue {
		isUsed = isUsed || x.ByValue[i].Len() > 0
	}
	if !isUsed {
		return nil
	}
	return x
}
