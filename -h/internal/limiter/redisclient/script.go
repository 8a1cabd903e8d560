package redisclient

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Script is a Lua script. Make one with [NewScript].
type Script struct {
	Name   string // in errors and in the status of a limiter: "spend"
	SHA    string // SHA-1 of Source, in hex
	Source string
}

// NewScript returns the script with that name and source.
func NewScript(name, source string) Script {
	return Script{Name: name, SHA: redis.NewScript(source).Hash(), Source: source}
}

// LoadedScript is a script and the number of primaries that have it.
type LoadedScript struct {
	Script

	LoadedOn int
}

// LoadScripts loads the scripts into every primary that does not have them, and returns all of them in the same order. It
// returns an error if Redis computes another SHA than [NewScript].
//
// [Client.Run] loads scripts on first use, too. Loading them ahead saves the first request this cost, and finds a proxy or
// fork that changes scripts before it receives requests.
func (c *Client) LoadScripts(ctx context.Context, scripts []Script) ([]LoadedScript, error) {
	loaded := make([]LoadedScript, len(scripts))
	for i, s := range scripts {
		loaded[i] = LoadedScript{Script: s}
	}
	var mu sync.Mutex
	err := c.ForEachPrimary(ctx, func(ctx context.Context, primary *redis.Client) error {
		if err := loadMissing(ctx, primary, scripts); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for i := range loaded {
			loaded[i].LoadedOn++
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load scripts: %w", err)
	}
	return loaded, nil
}

func loadMissing(ctx context.Context, primary *redis.Client, scripts []Script) error {
	hashes := make([]string, len(scripts))
	for i, s := range scripts {
		hashes[i] = s.SHA
	}
	exist, err := primary.ScriptExists(ctx, hashes...).Result()
	if err != nil {
		return fmt.Errorf("check which scripts are loaded: %w", err)
	}
	for i, s := range scripts {
		if i < len(exist) && exist[i] {
			continue
		}
		sha, err := primary.ScriptLoad(ctx, s.Source).Result()
		if err != nil {
			return fmt.Errorf("load script %s: %w", s.Name, err)
		}
		if sha != s.SHA {
			return fmt.Errorf("load script %s: Redis returned SHA %s, want %s; does a proxy change scripts?", s.Name, sha, s.SHA)
		}
	}
	return nil
}
