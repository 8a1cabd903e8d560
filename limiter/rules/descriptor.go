package rules

// descriptorIndex maps descriptors to rules, by their first entry and their number of entries.
type descriptorIndex map[descriptorKey][]int

type descriptorKey struct {
	entries int
	first   DescriptorMatch
}

func (d descriptorIndex) add(i int, match []DescriptorMatch) {
	key := descriptorKey{len(match), match[0]}
	d[key] = append(d[key], i)
}

// noDescriptor is the result of descriptorOf for a request without a matching descriptor.
const noDescriptor = -1

// descriptorOf returns the index of the first descriptor of r whose entries all match, or noDescriptor.
func descriptorOf(r *Request, match []DescriptorMatch) int32 {
	for i, d := range r.Descriptors {
		if d.matches(match) {
			return int32(i)
		}
	}
	return noDescriptor
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

// value returns the value of the first entry with this key.
func (d Descriptor) value(key string) (value string, found bool) {
	for _, e := range d {
		if e.Key == key {
			return e.Value, true
		}
	}
	return "", false
}

// descriptorValue returns the value of the key in the descriptor that the rule matched, or else in the first descriptor with the key, or
// "" if no descriptor has the key.
func (m Matched) descriptorValue(r *Request, key string) string {
	if m.descriptor != noDescriptor {
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
