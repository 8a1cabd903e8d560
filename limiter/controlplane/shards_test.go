package controlplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

// sharded returns a Set with these limits of its policies.
func sharded(limits map[string]int64) rules.Set {
	var set rules.Set
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		set.Rules = append(set.Rules, rules.Rule{
			Policy: name, Domain: "shop", Axis: "IP", Identifier: rules.Identifier{From: rules.FromClientIP},
			Algorithm: limiter.FixedWindow, Units: limits[name], WindowSeconds: 60,
		})
	}
	return set
}

func encoded(set rules.Set) rules.Encoded {
	return new(rules.Encoder).Encode(set, func(i int) string { return set.Rules[i].Revision() })
}

func publishSet(t *testing.T, e *Exchange, set rules.Encoded) {
	t.Helper()
	if _, err := e.Publish(t.Context(), set, false); err != nil {
		t.Fatal(err)
	}
}

// load returns the Set that the pointer names, as a limiter that has no shards reads it.
func load(t *testing.T, e *Exchange) (set rules.Set, revision string) {
	t.Helper()
	revision, err := e.Current(t.Context())
	if err != nil || revision == "" {
		t.Fatal(revision, err)
	}
	data, found, err := e.Archive(t.Context(), revision)
	if err != nil || !found {
		t.Fatalf("revision %s is found: %v, %v", revision, found, err)
	}
	set, err = rules.DecodeAs(data, revision)
	if err != nil {
		t.Fatal(err)
	}
	return set, revision
}

// many returns the limits of n policies.
func many(n int) map[string]int64 {
	limits := map[string]int64{}
	for i := range n {
		limits[fmt.Sprintf("shop/policy-%03d", i)] = 10
	}
	return limits
}

// edited returns the limits with another one for a policy.
func edited(limits map[string]int64, policy string, limit int64) map[string]int64 {
	limits = maps.Clone(limits)
	limits[policy] = limit
	return limits
}

func TestPublish_LetsTheShardsExpireThatNoSetNeeds(t *testing.T) {
	onRedis(t, expiresShards)
}

func expiresShards(t *testing.T, client *redisclient.Client) {
	e := exchange(client)
	first := encoded(sharded(many(50)))
	second := encoded(sharded(edited(many(50), "shop/policy-007", 11)))
	for i, set := range []rules.Encoded{first, second, first, first} { // an edit is reverted
		publishSet(t, e, set)
		if _, revision := load(t, e); revision != set.Revision {
			t.Fatalf("revision %s, want %s", revision, set.Revision)
		}
		other := second
		if i == 1 {
			other = first
		}
		for hash := range other.Shards {
			if _, isNeeded := set.Shards[hash]; i > 0 && !isNeeded {
				wantTTL(t, client, e.shardKey(hash), time.Hour)
			}
		}
		for hash := range set.Shards {
			if ttl := client.Redis().PTTL(t.Context(), e.shardKey(hash)).Val(); ttl != -1 {
				t.Errorf("step %d: shard %s of the active Set has TTL %v, want none", i, hash, ttl)
			}
		}
	}
	if err := e.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	for hash := range first.Shards {
		wantTTL(t, client, e.shardKey(hash), time.Hour+time.Minute)
	}
	publishSet(t, e, second)
	if err := e.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := client.Redis().Keys(t.Context(), "*").Result(); err != nil || len(left) > 0 {
		t.Errorf("keys after Clear: %q, %v; want none", left, err)
	}
}

func TestPublish_RestoresShardsThatRedisHasLost(t *testing.T) {
	onRedis(t, restoresShards)
}

func restoresShards(t *testing.T, client *redisclient.Client) {
	e, set := exchange(client), encoded(sharded(many(50)))
	e.verifyInterval = 0
	publishSet(t, e, set)
	hashes := slices.Sorted(maps.Keys(set.Shards))
	if err := client.Redis().Del(t.Context(), e.shardKey(hashes[0])).Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.Redis().Expire(t.Context(), e.shardKey(hashes[1]), time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	data, found, err := e.Archive(t.Context(), set.Revision)
	if _, _, decodeErr := rules.Decode(data); err != nil || !found || !errors.Is(decodeErr, rules.ErrMissingShard) {
		t.Fatalf("%v, %v, want that a shard is missing", err, decodeErr)
	}
	if changed, err := e.Publish(t.Context(), set, false); err != nil || !changed {
		t.Fatalf("changed %v, %v", changed, err)
	}
	if changed, err := e.Publish(t.Context(), set, false); err != nil || changed {
		t.Fatalf("the second time: changed %v, %v", changed, err)
	}
	if err := client.Redis().Set(t.Context(), e.shardKey(hashes[2]), "damaged", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if changed, err := e.Publish(t.Context(), set, true); err != nil || !changed { // a replica has rejected the Set
		t.Fatalf("changed %v, %v", changed, err)
	}
	load(t, e)
	for _, hash := range hashes {
		if ttl := client.Redis().PTTL(t.Context(), e.shardKey(hash)).Val(); ttl != -1 {
			t.Errorf("shard %s has TTL %v, want none", hash, ttl)
		}
	}
}

// Redis can lose shards that the operator has published, and afterwards all of them. An edit in between must not lose them for ever.
func TestPublish_FindsOutThatRedisHasLostWhatItHasPublished(t *testing.T) {
	onRedis(t, func(t *testing.T, client *redisclient.Client) {
		e := exchange(client)
		for i, damage := range []func() error{
			func() error { return nil },
			func() error { return client.Redis().FlushAll(t.Context()).Err() },
			func() error { // another operator publishes another Set
				_, err := exchange(client).Publish(t.Context(), encoded(sharded(many(3))), false)
				return err
			},
		} {
			publishSet(t, e, encoded(sharded(many(50))))
			if err := damage(); err != nil {
				t.Fatal(err)
			}
			set := encoded(sharded(edited(many(50), "shop/policy-007", int64(20+i))))
			publishSet(t, e, set)
			if _, revision := load(t, e); revision != set.Revision {
				t.Errorf("damage %d: revision %s, want %s", i, revision, set.Revision)
			}
			for hash := range set.Shards {
				if ttl := client.Redis().PTTL(t.Context(), e.shardKey(hash)).Val(); ttl != -1 {
					t.Errorf("damage %d: shard %s has TTL %v, want none", i, hash, ttl)
				}
			}
		}
	})
}

// crash makes all commands fail after the first ones, and counts those that are sent: a process that is killed. A pipeline can be sent in part.
type crash struct{ after, sent int }

var errCrashed = errors.New("crashed")

func (c *crash) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *crash) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if c.sent++; c.sent > c.after {
			cmd.SetErr(errCrashed)
			return errCrashed
		}
		return next(ctx, cmd)
	}
}

func (c *crash) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		sent := cmds[:min(len(cmds), max(0, c.after-c.sent))]
		c.sent += len(cmds)
		if len(sent) > 0 {
			if err := next(ctx, sent); err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
		}
		for _, cmd := range cmds[len(sent):] {
			cmd.SetErr(errCrashed)
		}
		if len(sent) < len(cmds) {
			return errCrashed
		}
		return nil
	}
}

// TestPublish_SurvivesACrashAtEveryCommand kills the operator after each command of a publication. A limiter that starts then always finds the previous
// Set or the next one, whole. The next operator completes the work, and afterwards every key without expiry belongs to the active Set.
func TestPublish_SurvivesACrashAtEveryCommand(t *testing.T) {
	server := fixture.Redis(t)
	first, second := encoded(sharded(many(20))), encoded(sharded(edited(edited(many(20), "shop/policy-007", 11), "shop/new", 1)))
	third := encoded(sharded(edited(many(20), "shop/policy-003", 11))) // the next operator finds another Set
	for _, last := range []rules.Encoded{second, third, first} {
		finished := false
		for after := 0; !finished; after++ {
			client := open(t, server.URL())
			if err := client.Redis().FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			publishSet(t, exchange(client), first)
			dying := open(t, server.URL())
			dying.Redis().AddHook(&crash{after: after})
			_, err := exchange(dying).Publish(t.Context(), second, false)
			finished = err == nil
			if err != nil && !errors.Is(err, errCrashed) {
				t.Fatal(err)
			}
			if _, revision := load(t, exchange(client)); revision != first.Revision && revision != second.Revision {
				t.Fatalf("after %d commands: revision %s", after, revision)
			}
			successor := exchange(client)
			publishSet(t, successor, last)
			if set, revision := load(t, successor); revision != last.Revision || len(set.Rules) < 20 {
				t.Fatalf("after %d commands: revision %s with %d rules", after, revision, len(set.Rules))
			}
			publishSet(t, successor, first) // so that all others are superseded
			wantOnlyActiveKeys(t, client, successor, first, after)
			if after > 500 {
				t.Fatal("Publish sends more than 500 commands")
			}
		}
	}
}

// wantOnlyActiveKeys wants an expiry of each key that does not belong to the active Set. A manifest that a crash has left behind is the exception.
func wantOnlyActiveKeys(t *testing.T, client *redisclient.Client, e *Exchange, active rules.Encoded, after int) {
	t.Helper()
	keys, err := client.Redis().Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		hash, isShard := strings.CutPrefix(key, e.shardKey(""))
		_, isActive := active.Shards[hash]
		ttl := client.Redis().PTTL(t.Context(), key).Val()
		if isShard && (ttl == -1) != isActive {
			t.Errorf("after %d commands: shard %s has TTL %v, and belongs to the active Set: %v", after, hash, ttl, isActive)
		}
	}
}

// An edit of one policy writes and reads less than 64 KiB, however many policies there are.
func TestPublish_WritesWhatAnEditChanges(t *testing.T) {
	for _, policies := range []int{1000, 10_000} {
		limits := many(policies)
		first, second := encoded(sharded(limits)), encoded(sharded(edited(limits, "shop/policy-007", 11)))
		written := len(second.Data)
		for hash, data := range second.Shards {
			if _, isKnown := first.Shards[hash]; !isKnown {
				written += 2 * len(data) // it is written with an expiry, and then without
			}
		}
		t.Logf("%d policies: an edit writes %d bytes of %d", policies, written, len(second.Data)+sizeOf(second))
		if written > 64<<10 {
			t.Errorf("%d policies: an edit writes %d bytes, want at most 64 KiB", policies, written)
		}
	}
}

func sizeOf(set rules.Encoded) (bytes int) {
	for _, data := range set.Shards {
		bytes += len(data)
	}
	return bytes
}
