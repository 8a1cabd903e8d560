package redisstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Script is a Lua script as Redis knows it.
type Script struct {
	// Name of the script: "spend".
	Name string
	// SHA is the SHA-1 of its text, in hex.
	SHA string
	// LoadedOn is the number of primaries that hold it.
	LoadedOn int
}

// SpendScript is the script that decides every charge, as it will be known to Redis.
func SpendScript() Script {
	s := newScript("spend", spendSource())
	return Script{Name: s.name, SHA: s.Hash()}
}

// script is one Lua script of this package, under its name.
type script struct {
	name string
	*redis.Script
	source string
}

func newScript(name, source string) script {
	return script{name: name, Script: redis.NewScript(source), source: source}
}

// scripts lists every script of this package: what [Client.LoadScripts] keeps loaded.
func scripts() []script {
	alone := newAlone()
	return append([]script{
		newScript("spend", spendSource()),
		newScript("refund", refundSource()),
		newScript("beat", beatSource),
		newScript("replicas", replicasSource),
	}, alone.scripts()...)
}

// LoadScripts makes every primary hold every script of this package, loading only what is missing, and answers with
// all of them in a fixed order. It is an error if Redis files a script under another SHA than ours.
//
// Scripts load themselves on first use too; loading them ahead keeps that cost, and the surprise of a proxy or fork
// that changes scripts, away from the first request.
func (c *Client) LoadScripts(ctx context.Context) ([]Script, error) {
	ours := scripts()
	loaded := make([]Script, len(ours))
	for i, s := range ours {
		loaded[i] = Script{Name: s.name, SHA: s.Hash()}
	}
	var mu sync.Mutex
	err := c.forEachPrimary(ctx, func(ctx context.Context, primary *redis.Client) error {
		if err := loadMissing(ctx, primary, ours); err != nil {
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

func loadMissing(ctx context.Context, primary *redis.Client, ours []script) error {
	hashes := make([]string, len(ours))
	for i, s := range ours {
		hashes[i] = s.Hash()
	}
	exist, err := primary.ScriptExists(ctx, hashes...).Result()
	if err != nil {
		return fmt.Errorf("look for scripts: %w", err)
	}
	for i, s := range ours {
		if i < len(exist) && exist[i] {
			continue
		}
		sha, err := primary.ScriptLoad(ctx, s.source).Result()
		if err != nil {
			return fmt.Errorf("script %s: %w", s.name, err)
		}
		if sha != hashes[i] {
			return fmt.Errorf("script %s: Redis knows it as %s, we as %s", s.name, sha, hashes[i])
		}
	}
	return nil
}
