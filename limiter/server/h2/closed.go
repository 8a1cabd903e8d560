package h2

// closedStreams remembers the streams that have ended last. A client that has not seen the end still sends frames of them.
type closedStreams struct {
	ids   [128]uint32
	reset [128]bool // by the server
	next  int
}

func (c *closedStreams) add(id uint32, reset bool) {
	c.ids[c.next], c.reset[c.next] = id, reset
	c.next = (c.next + 1) % len(c.ids)
}

// find reports whether a stream is one of the last that have ended, and whether the server has reset it.
func (c *closedStreams) find(id uint32) (found, reset bool) {
	for i := range c.ids {
		if c.ids[i] == id {
			found, reset = true, reset || c.reset[i]
		}
	}
	return found, reset
}
