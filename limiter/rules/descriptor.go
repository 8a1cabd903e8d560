package rules

// descriptorIndex holds rules by the first entry of the descriptor that they match, and how many entries it has.
type descriptorIndex map[descriptorKey][]int

type descriptorKey struct {
	entries int
	first   DescriptorMatch
}

func (d descriptorIndex) add(i int, match []DescriptorMatch) {
	key := descriptorKey{len(match), match[0]}
	d[key] = append(d[key], i)
}

// none is what descriptorOf returns for a request without such a descriptor.
const none = -1

// descriptorOf returns which descriptor of r is the first to match, entry by entry and none left over.
func descriptorOf(r *Request, match []DescriptorMatch) int32 {
	for i, d := range r.Descriptors {
		if d.matches(match) {
			return int32(i)
		}
	}
	return none
}

func (d Descriptor) matches(match []DescriptorMatch) bool {
	if len(d) != len(match) {
		return false
	}
	for i, m := range match {
		if d[i].Key != m.Key || m.Value != "" && d[i].Value != m.Value {
			return false
		}
	}
	return true
}

// value returns the value beside the first entry with that key.
func (d Descriptor) value(key string) (value string, found bool) {
	for _, e := range d {
		if e.Key == key {
			return e.Value, true
		}
	}
	return "", false
}

// descriptorValue returns the value beside key in the descriptor that m's rule matched, else in the first that has it,
// "" if none has.
func (m Matched) descriptorValue(r *Request, key string) string {
	if 0 <= m.descriptor && int(m.descriptor) < len(r.Descriptors) {
		if value, found := r.Descriptors[m.descriptor].value(key); found {
			return value
		}
	}
	for _, d := range r.Descriptors {
		if value, found := d.value(key); found {
			return value
		}
	}
	return ""
}
