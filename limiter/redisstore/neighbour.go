package redisstore

import (
	"strconv"
	"strings"
)

// slots is the number of slots of a Redis Cluster.
const slots = 16384

// neighbour returns another key in the slot of a counter's key, without the hash tag of the key, which is the identifier. Without a cluster,
// it is the same for all identifiers. A key without a hash tag is returned unchanged.
func neighbour(key string, isCluster bool) string {
	tag := hashTag(key)
	head, _, tagged := strings.Cut(key, "{"+tag+"}")
	if !tagged {
		return key
	}
	if !isCluster {
		return head + "{probe}"
	}
	for n, slot := 0, slotOf(tag); ; n++ { // of 16 384 numbers, about one is in the slot
		if other := strconv.Itoa(n); slotOf(other) == slot {
			return head + "{" + other + "}"
		}
	}
}

// slotOf is the slot of a hash tag: its CRC16 (XMODEM), as the specification of Redis Cluster defines it.
func slotOf(tag string) uint16 {
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
