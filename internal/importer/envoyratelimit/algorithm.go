package envoyratelimit

import (
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/limiter"
)

// AlgorithmKey is the key in the metadata of a descriptor whose value is the algorithm of its limit. The service ignores it.
const AlgorithmKey = "weir.dev/algorithm"

// ServiceAlgorithm is the algorithm that decides as the service does.
const ServiceAlgorithm = v1alpha1.FixedWindow

// Algorithms returns the names of all algorithms.
func Algorithms() []string {
	var names []string
	for _, a := range limiter.Algorithms() {
		names = append(names, string(a))
	}
	return names
}

// setAlgorithm sets the algorithm of a descriptor from its metadata.
func (r *reader) setAlgorithm(d *descriptor, place importer.Place, value string) {
	switch algorithms := Algorithms(); {
	case !slices.Contains(algorithms, value):
		r.out.Add(place, importer.Invalid, "metadata %s is %q, but must be one of %s", AlgorithmKey, value, strings.Join(algorithms, ", "))
	case d.limit == nil || d.limit.unlimited:
		r.out.Add(place, importer.Note, "metadata %s has no effect: %s has no limit, and the descriptors below it have metadata of their own", AlgorithmKey, d.name())
	default:
		d.algorithm = v1alpha1.Algorithm(value)
	}
}
