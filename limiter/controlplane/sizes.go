package controlplane

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	"github.com/weir-dev/weir/limiter/rules"
)

const (
	// maxManifest is more than the bytes of any encoded manifest: its JSON has fewer than 100 bytes for each shard. A whole Set can have more.
	maxManifest = 64 << 10
	// maxWhole is the most bytes of a whole Set that is worth reading. That is eight times as much as a snapshot holds.
	maxWhole = 64 << 20
)

// maxPacked is the most bytes that a part of a Set has for this size of its JSON. What cannot be compressed is stored with five bytes for each 16 KiB or
// more, and there are a header and a trailer.
func maxPacked(size int) int { return size + size/1024 + 1024 }

// beginsWhole reports whether data can be the beginning of a whole Set of this revision, in a format without shards. It needs a kilobyte of the data at
// the most.
func beginsWhole(data []byte, revision string) bool {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil || r.Comment != "" && r.Comment != revision { // older operators wrote no revision
		return false
	}
	var head [len(`{"format":1,`)]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return false
	}
	var format int
	_, err = fmt.Sscanf(string(head[:]), `{"format":%d,`, &format)
	return err == nil && format >= 1 && format < rules.FormatSharded
}
