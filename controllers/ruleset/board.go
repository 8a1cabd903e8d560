package ruleset

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// standing is how far one Limiter is with its policies. It does not change once it is posted.
type standing struct {
	limiter types.NamespacedName
	// considered are the generations of all policies that the Limiter chose from.
	considered map[types.UID]int64
	compiled   *compiled
	delivery   delivery
}

// board is where the standings of all Limiters hang, for the Reporter.
type board struct {
	// news has something in it when something has changed since it was last taken out.
	news chan struct{}

	mu        sync.Mutex
	standings map[types.NamespacedName]standing
}

func newBoard() *board {
	return &board{news: make(chan struct{}, 1), standings: map[types.NamespacedName]standing{}}
}

func (b *board) post(s standing) {
	b.mu.Lock()
	before := b.standings[s.limiter]
	same := s.is(&before)
	b.standings[s.limiter] = s
	b.mu.Unlock()
	if !same {
		b.tell()
	}
}

// is says whether the policies are as far as in other, and the same: what nobody has made anew is.
func (s *standing) is(other *standing) bool {
	return s.compiled == other.compiled && s.delivery.is(other.delivery) && maps.Equal(s.considered, other.considered)
}

func (b *board) remove(limiter types.NamespacedName) {
	b.mu.Lock()
	delete(b.standings, limiter)
	b.mu.Unlock()
	b.tell()
}

func (b *board) tell() {
	select {
	case b.news <- struct{}{}:
	default: // it is known already
	}
}

// all are the standings, by the names of their Limiters.
func (b *board) all() []standing {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]standing, 0, len(b.standings))
	for _, s := range b.standings {
		all = append(all, s)
	}
	slices.SortFunc(all, func(x, y standing) int {
		return cmp.Or(cmp.Compare(x.limiter.Namespace, y.limiter.Namespace), cmp.Compare(x.limiter.Name, y.limiter.Name))
	})
	return all
}
