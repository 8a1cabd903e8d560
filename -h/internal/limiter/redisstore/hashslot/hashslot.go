// Package hashslot computes in which slot of a Redis Cluster a key is.
package hashslot

import (
	"strconv"
	"strings"
)

// slots is the number of slots of a Redis Cluster.
const slots = 16384

// Neighbour returns another key in the slot of a counter's key, without the hash tag of the key, which is the identifier. Without a cluster,
// it is the same for all identifiers. A key without a hash tag is returned unchanged.
func Neighbour(key string, isCluster bool) string {
	tag := Tag(key)
	head, _, tagged := strings.Cut(key, "{"+tag+"}")
	if !tagged {
		return key
	}
	if !isCluster {
		return head + "{probe}"
	}
	for n, slot := 0, Of(tag); ; n++ { // of 16 384 numbers, about one is in the slot
		if other := strconv.Itoa(n); Of(other) == slot {
			return head + "{" + other + "}"
		}
	}
}

// Of is the slot of a hash tag: its CRC16 (XMODEM), as the specification of Redis Cluster defines it.
func Of(tag string) uint16 {
	crc := uint16(0)
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % slots
}

// Tag returns the part of a key that decides its slot: the text between the first "{" and the next "}".
func Tag(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}
