package memstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/go/internal/limiter"
)

// Scan returns keys of counters in keys, from cursor on, and the next cursor. The first cursor and the last one are "". A call checks n counters.
// It returns a counter that exists during the whole scan at least once.
func (s *Store) Scan(_ context.Context, keys limiter.KeyRange, cursor string, n int) (found []string, next string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := len(s.counters.dense)
	if cursor != "" {
		position, err := strconv.Atoi(cursor)
		if err != nil || position < 0 {
			return nil, "", fmt.Errorf("invalid cursor %q", cursor)
		}
		end = min(position, end)
	}
	begin := max(0, end-n) // downwards: a removal moves the last counter, which has been checked, to a lower index
	for i := end - 1; i >= begin; i-- {
		if key := s.counters.dense[i].key; keys.Contains(key) {
			found = append(found, strings.Clone(key))
		}
	}
	if begin > 0 {
		next = strconv.Itoa(begin)
	}
	return found, next, nil
}
