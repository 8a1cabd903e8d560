package source

// version identifies a rule set, and its place in the order of the rule sets of a limiter.
type version struct {
	revision string // "" if there are no rules
	sequence int64  // 0 if it is missing, for example from an older operator
}

// olderThan reports whether v was published before other. Rule sets without a sequence have no order.
func (v version) olderThan(other version) bool {
	return v.sequence != 0 && other.sequence != 0 && v.sequence < other.sequence
}
