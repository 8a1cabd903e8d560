package topk

// Summary returns the number of the summary that counts an identifier, from 0 to 255.
func (s *Sketch) Summary(policy, identifier string) uint64 {
	return summaryOf(s.hash(policy, identifier))
}
