package controlplane

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

// wantExpiry wants that exactly the pointer, the manifest and the shards of the active Set have no expiry.
func wantExpiry(t *testing.T, client *redisclient.Client, e *Exchange, active rules.Encoded, after int) {
	t.Helper()
	stays := map[string]bool{e.currentKey(): true, e.setKey(active.Revision): true}
	for hash := range active.Shards {
		stays[e.shardKey(hash)] = true
	}
	keys, err := client.Redis().Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if ttl := client.Redis().PTTL(t.Context(), key).Val(); (ttl == -1) != stays[key] {
			t.Errorf("after %d commands: %s has TTL %v, and the active Set needs it: %v", after, key, ttl, stays[key])
		}
	}
}

// TestPublish_LeavesNothingForEver fails after each command of a publication. The next attempt, of the same operator or of its successor, lets what was
// replaced expire.
func TestPublish_LeavesNothingForEver(t *testing.T) {
	server := fixture.Redis(t)
	client := open(t, server.URL())
	first, second := encoded(sharded(many(20))), encoded(sharded(edited(many(20), "shop/policy-007", 11)))
	third := encoded(sharded(edited(many(20), "shop/policy-003", 11)))
	for name, test := range map[string]struct {
		next                rules.Encoded
		successor, knowsSet bool
	}{
		"the same operator":                   {second, false, false},
		"the same operator, with another Set": {third, false, false},
		"its successor":                       {second, true, false},
		"its successor, with another Set":     {third, true, false},
		"an earlier leader":                   {second, true, true},
		"an earlier leader, with another Set": {third, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			finished := false
			for after := 0; !finished; after++ {
				if err := client.Redis().FlushAll(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				failing := open(t, server.URL())
				hook := &crash{after: 1000}
				failing.Redis().AddHook(hook)
				e := exchange(failing)
				publishSet(t, e, first)
				successor := exchange(client)
				if test.knowsSet {
					publishSet(t, successor, first)
				}
				hook.sent, hook.after = 0, after
				_, err := e.Publish(t.Context(), second, false)
				if finished = err == nil; !finished && !errors.Is(err, errCrashed) {
					t.Fatal(err)
				}
				hook.after = 10_000
				if test.successor {
					e = successor
				}
				publishSet(t, e, test.next)
				e.completeInterval = 0 // time passes
				publishSet(t, e, test.next)
				wantExpiry(t, client, e, test.next, after)
			}
		})
	}
}

// TestClear_LeavesNothingForEver fails after each command of Clear. The next attempt removes what is left, or it expires.
func TestClear_LeavesNothingForEver(t *testing.T) {
	server := fixture.Redis(t)
	client := open(t, server.URL())
	finished := false
	for after := 0; !finished; after++ {
		publishSet(t, exchange(client), encoded(sharded(many(20))))
		publishSet(t, exchange(client), encoded(sharded(many(21))))
		failing := open(t, server.URL())
		failing.Redis().AddHook(&crash{after: after})
		err := exchange(failing).Clear(t.Context())
		if finished = err == nil; !finished && !errors.Is(err, errCrashed) {
			t.Fatal(err)
		}
		if err := exchange(client).Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, key := range client.Redis().Keys(t.Context(), "*").Val() {
			if client.Redis().PTTL(t.Context(), key).Val() == -1 {
				t.Errorf("after %d commands: %s stays for ever", after, key)
			}
		}
		if err := client.Redis().FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// Redis loses the last writes in a failover, and each node of a cluster loses others: what had an expiry has no expiry, and the list is shorter or missing.
func TestPublish_LeavesNothingForEverIfRedisLosesWrites(t *testing.T) {
	server := fixture.Redis(t)
	client := open(t, server.URL())
	rdb := client.Redis()
	first, second := encoded(sharded(many(20))), encoded(sharded(edited(many(20), "shop/policy-007", 11)))
	third := encoded(sharded(edited(many(20), "shop/policy-003", 11)))
	var replaced string // the shard that only the first Set has
	for hash := range first.Shards {
		if _, isKept := second.Shards[hash]; !isKept {
			replaced = hash
		}
	}
	loseShard := func(e *Exchange) error { return rdb.Persist(t.Context(), e.shardKey(replaced)).Err() }
	loseManifest := func(e *Exchange) error { return rdb.Persist(t.Context(), e.setKey(first.Revision)).Err() }
	removeManifest := func(e *Exchange) error { return rdb.Del(t.Context(), e.setKey(first.Revision)).Err() }
	loseList := func(e *Exchange) error { return rdb.Del(t.Context(), e.supersededKey()).Err() }
	losePointer := func(e *Exchange) error { return rdb.Del(t.Context(), e.currentKey()).Err() }
	for name, test := range map[string]struct {
		lost []func(*Exchange) error
		// successor publishes next, and not the same operator.
		successor bool
		// restarted is true if another operator has published what is lost.
		restarted bool
	}{
		"the expiry of a shard":                                {[]func(*Exchange) error{loseShard}, false, false},
		"the expiry of a shard, and a new operator":            {[]func(*Exchange) error{loseShard}, true, false},
		"the expiry of a manifest":                             {[]func(*Exchange) error{loseManifest}, false, false},
		"the expiry of a manifest, and a new operator":         {[]func(*Exchange) error{loseManifest}, true, false},
		"the expiry of both, and a new operator":               {[]func(*Exchange) error{loseShard, loseManifest}, true, false},
		"the expiry of both, and the list":                     {[]func(*Exchange) error{loseShard, loseManifest, loseList}, false, false},
		"the expiry of both, the list and the pointer":         {[]func(*Exchange) error{loseShard, loseManifest, loseList, losePointer}, false, false},
		"the expiry of a shard, the manifest, and the pointer": {[]func(*Exchange) error{loseShard, removeManifest, losePointer}, false, false},
		"the list": {[]func(*Exchange) error{loseList}, true, false},
		"the list and the pointer, after a restart":     {[]func(*Exchange) error{loseList, losePointer}, false, true},
		"the list and the pointer":                      {[]func(*Exchange) error{loseList, losePointer}, false, false},
		"the expiry of a shard, and the active pointer": {[]func(*Exchange) error{loseShard, losePointer}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, next := range []rules.Encoded{second, third} {
				if err := rdb.FlushAll(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				e := exchange(client)
				publishSet(t, e, first)
				publishSet(t, e, second)
				if test.restarted {
					e = exchange(client)
					publishSet(t, e, second)
				}
				for _, lose := range test.lost {
					if err := lose(e); err != nil {
						t.Fatal(err)
					}
				}
				if test.successor {
					e = exchange(client)
				}
				publishSet(t, e, next)
				e.completeInterval = 0 // time passes
				publishSet(t, e, next)
				wantExpiry(t, client, e, next, 0)
			}
		})
	}
}

// The node of a cluster that has the list is unavailable. A manifest that is not in the list would stay for ever if the operator crashed then.
func TestPublish_WritesNoManifestThatIsNotInTheList(t *testing.T) {
	e, f, client := faulty(t)
	first, second := encoded(sharded(many(20))), encoded(sharded(many(21)))
	publishSet(t, e, first)
	f.match = beginsWith("rpush")
	if changed, err := e.Publish(t.Context(), second, false); !errors.Is(err, errInjected) || changed {
		t.Errorf("changed: %v, %v; want the error of the list", changed, err)
	}
	if n := client.Redis().Exists(t.Context(), e.setKey(second.Revision)).Val(); n != 0 {
		t.Error("the manifest is written")
	}
	f.match = nil
	publishSet(t, e, second)
	wantExpiry(t, client, e, second, 0)
}

// Redis has lost the list, and the operator crashes after it has written the pointer.
func TestPublish_ListsThePreviousSetAgain(t *testing.T) {
	e, f, client := faulty(t)
	first, second := encoded(sharded(many(20))), encoded(sharded(many(21)))
	publishSet(t, e, first)
	if err := client.Redis().Del(t.Context(), e.supersededKey()).Err(); err != nil {
		t.Fatal(err)
	}
	f.match = beginsWith("publish")
	if _, err := e.Publish(t.Context(), second, false); !errors.Is(err, errInjected) {
		t.Fatal(err)
	}
	f.match = nil
	successor := exchange(client)
	publishSet(t, successor, second)
	wantExpiry(t, client, successor, second, 0)
}

// TestLeave_LetsTheManifestExpireLast fails after each command of Leave. Without a manifest, complete does not find the shards.
func TestLeave_LetsTheManifestExpireLast(t *testing.T) {
	server := fixture.Redis(t)
	client := open(t, server.URL())
	set, finished := encoded(sharded(many(20))), false
	for after := 0; !finished; after++ {
		publishSet(t, exchange(client), set)
		failing := open(t, server.URL())
		failing.Redis().AddHook(&crash{after: after})
		err := exchange(failing).Leave(t.Context())
		if finished = err == nil; !finished && !errors.Is(err, errCrashed) {
			t.Fatal(err)
		}
		e := exchange(client)
		for hash := range set.Shards {
			shard, manifest := client.Redis().PTTL(t.Context(), e.shardKey(hash)).Val(), client.Redis().PTTL(t.Context(), e.setKey(set.Revision)).Val()
			if shard == -1 && manifest != -1 {
				t.Errorf("after %d commands: shard %s has no expiry, and the manifest has %v", after, hash, manifest)
			}
		}
	}
}

// Edits that follow each other closely must not put off the verification that Redis has the shards that none of them changes.
func TestPublish_VerifiesShardsDespiteEdits(t *testing.T) {
	onRedis(t, func(t *testing.T, client *redisclient.Client) {
		e, first := exchange(client), encoded(sharded(many(50)))
		publishSet(t, e, first)
		if err := client.Redis().Del(t.Context(), e.shardKey(slices.Sorted(maps.Keys(first.Shards))[0])).Err(); err != nil {
			t.Fatal(err)
		}
		before := e.published.Load()
		e.published.Store(&published{before.revision, before.shards, before.verified.Add(-verifyInterval), before.completed})
		second := encoded(sharded(edited(many(50), "shop/policy-007", 11)))
		for range 2 { // the edit, and the next look at the replicas
			publishSet(t, e, second)
		}
		load(t, e)
	})
}

// An idle operator publishes every five seconds, a little more or less. Each time it must find what Redis has lost.
func TestPublish_VerifiesShardsEachTimeIfTheOperatorIsIdle(t *testing.T) {
	onRedis(t, func(t *testing.T, client *redisclient.Client) {
		e, set := exchange(client), encoded(sharded(many(50)))
		publishSet(t, e, set)
		if err := client.Redis().Del(t.Context(), e.shardKey(slices.Sorted(maps.Keys(set.Shards))[0])).Err(); err != nil {
			t.Fatal(err)
		}
		before := e.published.Load()
		e.published.Store(&published{before.revision, before.shards, before.verified.Add(-4900 * time.Millisecond), before.completed})
		publishSet(t, e, set)
		load(t, e)
	})
}

// A Set that expires after Leave is no Set that Publish can build on.
func TestPublish_UndoesLeaveWithAnotherSet(t *testing.T) {
	onRedis(t, func(t *testing.T, client *redisclient.Client) {
		e := exchange(client)
		publishSet(t, e, encoded(sharded(many(50))))
		if err := e.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := encoded(sharded(edited(many(50), "shop/policy-007", 11)))
		publishSet(t, e, second)
		for hash := range second.Shards {
			if ttl := client.Redis().PTTL(t.Context(), e.shardKey(hash)).Val(); ttl != -1 {
				t.Errorf("shard %s has TTL %v, want none", hash, ttl)
			}
		}
	})
}

// Another program has written lists over the keys of a Set. A limiter that could not read them would not reject the Set, and the operator would not
// write it again.
func TestPublish_ReplacesKeysOfAnotherType(t *testing.T) {
	onRedis(t, func(t *testing.T, client *redisclient.Client) {
		e, set := exchange(client), encoded(sharded(many(50)))
		publishSet(t, e, set)
		hash := slices.Sorted(maps.Keys(set.Shards))[0]
		for _, key := range []string{e.shardKey(hash), e.setKey(set.Revision)} {
			if err := errors.Join(client.Redis().Del(t.Context(), key).Err(), client.Redis().RPush(t.Context(), key, "x").Err()); err != nil {
				t.Fatal(err)
			}
			if data, _, err := e.Archive(t.Context(), set.Revision); err != nil {
				t.Errorf("%s: %v, want no error", key, err)
			} else if _, _, err := rules.Decode(data); err == nil {
				t.Errorf("%s: the Set can be decoded", key)
			}
			successor := exchange(client)
			if _, _, err := successor.Active(t.Context()); err != nil {
				t.Errorf("%s: Active: %v", key, err)
			}
			if _, err := successor.Publish(t.Context(), set, true); err != nil { // a replica has rejected the Set
				t.Fatal(err)
			}
			load(t, e)
		}
	})
}

// The list serves only to clean up. If another program has damaged it, or the operator may not use it, the rules must arrive nevertheless.
func TestPublish_NeedsNoListToReplaceTheRules(t *testing.T) {
	for name, damage := range map[string]func(*Exchange) []any{
		"another type":          func(e *Exchange) []any { return []any{"SET", e.supersededKey(), "x"} },
		"no permission to add":  func(*Exchange) []any { return []any{"ACL", "SETUSER", "default", "-rpush"} },
		"no permission to read": func(*Exchange) []any { return []any{"ACL", "SETUSER", "default", "-lrange"} },
	} {
		t.Run(name, func(t *testing.T) {
			onRedis(t, func(t *testing.T, client *redisclient.Client) {
				e := exchange(client)
				publishSet(t, e, encoded(sharded(many(20))))
				if err := client.Redis().Do(t.Context(), damage(e)...).Err(); err != nil {
					t.Fatal(err)
				}
				second := encoded(sharded(many(21)))
				changed, err := e.Publish(t.Context(), second, false)
				if _, revision := load(t, e); revision != second.Revision || !changed {
					t.Errorf("revision %s, changed: %v, %v", revision, changed, err)
				}
				wantTTL(t, client, e.setKey(encoded(sharded(many(20))).Revision), supersededFor+manifestLonger)
				publishSet(t, exchange(client), second) // without an error: the rules are active
			})
		})
	}
}
