package v1alpha1

import "strconv"

// SnapshotParts is the highest number of ConfigMaps that hold the snapshot of a Limiter's rule set.
const SnapshotParts = 8

// SnapshotName returns the name of the ConfigMap with one part of the snapshot, 0 … SnapshotParts-1. A dot is in no name of a Limiter,
// so the parts of two Limiters have different names.
func SnapshotName(limiter string, part int) string { return "weir-rules-" + limiter + suffix(part) }

// SnapshotKey returns the key of the part in its ConfigMap. It is also the name of the file that limiters read.
func SnapshotKey(part int) string { return "rules.json.gz" + suffix(part) }

func suffix(part int) string {
	if part == 0 {
		return ""
	}
	return "." + strconv.Itoa(part)
}
