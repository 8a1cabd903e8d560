package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/go/internal/limiter"
	"github.com/weir-dev/weir/go/internal/limiter/redisclient"
)

// Scan returns keys of counters in keys, from cursor on, and the next cursor. The first cursor and the last one are "". A call checks about n
// keys of Redis, whatever they are, in one round trip (SCAN), so it can return fewer keys, also no keys. It returns a counter that exists
// during the whole scan at least once.
func (s *Store) Scan(ctx context.Context, keys limiter.KeyRange, cursor string, n int) (found []string, next string, err error) {
	node, position, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	servers, err := s.servers(ctx)
	if err != nil {
		return nil, "", err
	}
	if node >= len(servers) {
		return nil, "", nil // the cluster has fewer nodes now
	}
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	found, position, err = servers[node].Scan(ctx, position, glob(keys.Prefix)+"*"+glob(keys.Infix)+"*", int64(n)).Result()
	if err != nil {
		return nil, "", fmt.Errorf("scan counters: %w", redisclient.WithKind(err))
	}
	switch {
	case position != 0:
		next = fmt.Sprintf("%d.%d", node, position)
	case node+1 < len(servers):
		next = fmt.Sprintf("%d.0", node+1)
	}
	return found, next, nil
}

// servers returns the server, or all masters of a cluster, sorted by address.
func (s *Store) servers(ctx context.Context) ([]redis.Cmdable, error) {
	cluster, ok := s.client.Cluster()
	if !ok {
		return []redis.Cmdable{s.client.Redis()}, nil
	}
	var lock sync.Mutex
	var masters []*redis.Client
	err := cluster.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
		lock.Lock()
		defer lock.Unlock()
		masters = append(masters, master)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find the masters of the cluster: %w", redisclient.WithKind(err))
	}
	slices.SortFunc(masters, func(a, b *redis.Client) int { return cmp.Compare(a.Options().Addr, b.Options().Addr) })
	servers := make([]redis.Cmdable, len(masters))
	for i, master := range masters {
		servers[i] = master
	}
	return servers, nil
}

// parseCursor parses "node.cursor".
func parseCursor(text string) (node int, cursor uint64, err error) {
	if text == "" {
		return 0, 0, nil
	}
	first, second, _ := strings.Cut(text, ".")
	if node, err = strconv.Atoi(first); err == nil && node >= 0 {
		if cursor, err = strconv.ParseUint(second, 10, 64); err == nil {
			return node, cursor, nil
		}
	}
	return 0, 0, fmt.Errorf("invalid cursor %q", text)
}

// glob escapes the special characters of a pattern of Redis.
func glob(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}
