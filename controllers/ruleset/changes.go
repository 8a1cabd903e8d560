package ruleset

import "sync/atomic"

// changeCounter counts the changes of policies and namespaces that the watches report. It stays 0 if nothing is watched.
type changeCounter struct{ n atomic.Uint64 }

func (c *changeCounter) add() { c.n.Add(1) }

// since returns the count, and whether there may have been a change since an earlier count.
func (c *changeCounter) since(earlier uint64) (now uint64, changed bool) {
	now = c.n.Load()
	return now, now == 0 || now != earlier
}
