package envoyratelimit

import (
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/importer"
)

// AlgorithmKey is the key in the metadata of a descriptor whose value is the algorithm of its limit. The service ignores it.
const AlgorithmKey = "weir.dev/algorithm"

// setAlgorithm sets the algorithm of a descriptor from its metadata.
func (r *reader) setAlgorithm(d *descriptor, at importer.Place, value string) {
	all := []string{
		string(v1alpha1.FixedWindow), string(v1alpha1.SlidingWindowCounter), string(v1alpha1.SlidingWindowLog), string(v1alpha1.TokenBucket),
		string(v1alpha1.LeakyBucket),
	}
	switch {
	case !slices.Contains(all, value):
		r.out.Add(at, importer.Invalid, "metadata %s is %q, but must be one of %s", AlgorithmKey, value, strings.Join(all, ", "))
	case d.limit == nil || d.limit.unlimited:
		r.out.Add(at, importer.Note, "metadata %s has no effect: %s has no limit, and the descriptors below it have metadata of their own", AlgorithmKey, d.name())
	default:
		d.algorithm = v1alpha1.Algorithm(value)
	}
}
