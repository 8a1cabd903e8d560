package local

// Drop drops the counters at keys, the learned ones included, with the units on them that are not reported to the store. Call it after the
// counters were reset. What the sketch of evicted counters contains remains.
func (c *Counters) Drop(keys ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range keys {
		c.learned.forget(c.hash(key))
		c.drop(key)
	}
}
