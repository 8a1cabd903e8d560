package redisstore

import (
	"github.com/weir-dev/weir/limiter"
)

// scriptKeys collects the keys of charges for a script, and the fields of compact counters, see compact.lua.
type scriptKeys struct {
	keys   []string
	fields []byte
}

// add adds the counter at key.
func (k *scriptKeys) add(key string, limit limiter.Limit) {
	block, field, isCompact := limiter.CompactKey(key)
	if !isCompact {
		k.keys = append(k.keys, key)
		return
	}
	k.fields = append(k.fields, field[:]...)
	k.keys = append(k.keys, block)
	if limit.Traits().Windows > 1 {
		k.keys = append(k.keys, oddBlock(block))
	}
}

// oddBlock returns the key of the block for odd windows. The key of a block ends in ":0".
func oddBlock(block string) string { return block[:len(block)-1] + "1" }

func isCompact(key string) bool {
	_, _, is := limiter.CompactKey(key)
	return is
}

// scriptAlgorithm is the name of an algorithm in scripts.
func scriptAlgorithm(traits *limiter.Traits, isCompact bool) string {
	if isCompact && traits.Compact != "" {
		return traits.Compact
	}
	return string(traits.Name)
}
