package wire

// Defects are the parts of a call that could not be used as they were. The rest of the call is decided: an error of the call would let Envoy pass the
// request without any limit, with its default failure mode, and a client can cause most of them.
type Defects uint8

// The defects, in the order of defectNames.
const (
	defectNotUTF8         Defects = 1 << iota // a text that is not valid UTF-8, counted by its bytes
	DefectEmptyDescriptor                     // a descriptor without entries, which no policy matches
	defectDescriptors                         // descriptors over the bound, which are not decided
	defectEntries                             // entries of a descriptor over the bound
	DefectEmptyKey                            // an entry without a key
	DefectLimit                               // the limit of a descriptor that cannot be used
	DefectRefund                              // a refund where refunds are forbidden
	DefectMetadata                            // metadata over the bound, such as claims
)

// defectNames are the names of all defects, as the metadata of a response and the metrics have them.
func defectNames() []string {
	return []string{"not_utf8", "empty_descriptor", "descriptors", "entries", "empty_key", "limit", "refund", "metadata"}
}

// Add adds the defects of more to d.
func (d *Defects) Add(more Defects) { *d |= more }

// Each calls f with the name of each defect.
func (d *Defects) Each(f func(name string)) {
	if *d == 0 {
		return
	}
	for i, name := range defectNames() {
		if *d&(1<<i) != 0 {
			f(name)
		}
	}
}
