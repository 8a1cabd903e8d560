package controlplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

// Another program has overwritten or removed a key. The next Publish, of an edit or of the same Set, by the same operator or its successor, repairs it, and
// nothing stays for ever that the active Set does not need.
func TestPublish_RepairsOverwrittenKeys(t *testing.T) {
	server := fixture.Redis(t)
	client := open(t, server.URL())
	first, second := encoded(sharded(many(20))), encoded(sharded(edited(many(20), "shop/policy-007", 11)))
	do := func(ctx context.Context, args ...any) error { return client.Redis().Do(ctx, args...).Err() }
	replaced := func(key func(*Exchange) string) map[string]func(context.Context, *Exchange) error {
		return map[string]func(context.Context, *Exchange) error{
			"missing": func(ctx context.Context, e *Exchange) error { return do(ctx, "DEL", key(e)) },
			"text":    func(ctx context.Context, e *Exchange) error { return do(ctx, "SET", key(e), "x") },
			"large text": func(ctx context.Context, e *Exchange) error {
				return do(ctx, "SET", key(e), strings.Repeat("x", 1<<20))
			},
			"another type": func(ctx context.Context, e *Exchange) error {
				return errors.Join(do(ctx, "DEL", key(e)), do(ctx, "HSET", key(e), "x", "y"))
			},
			"renamed":  func(ctx context.Context, e *Exchange) error { return do(ctx, "RENAME", key(e), "elsewhere") },
			"expiring": func(ctx context.Context, e *Exchange) error { return do(ctx, "EXPIRE", key(e), 60) },
		}
	}
	for what, key := range map[string]func(*Exchange) string{
		"pointer": (*Exchange).currentKey, "list": (*Exchange).supersededKey,
		"manifest": func(e *Exchange) string { return e.setKey(first.Revision) },
		"shard":    func(e *Exchange) string { return e.shardKey(slices.Sorted(maps.Keys(first.Shards))[0]) },
	} {
		for how, damage := range replaced(key) {
			for _, successor := range []bool{false, true} {
				for _, next := range []rules.Encoded{first, second} {
					if successor && what == "manifest" && next.Revision != first.Revision {
						continue // nothing has the hashes of the shards any more
					}
					if err := client.Redis().FlushAll(t.Context()).Err(); err != nil {
						t.Fatal(err)
					}
					e := exchange(client)
					publishSet(t, e, first)
					if err := damage(t.Context(), e); err != nil {
						t.Fatal(err)
					}
					if successor {
						e = exchange(client)
					}
					name := "the " + what + " is " + how
					if current, err := e.Current(t.Context()); err != nil || current != "" && current != first.Revision {
						t.Errorf("%s: Current returns %d bytes, %v", name, len(current), err)
					}
					e.verifyInterval, e.completeInterval = 0, 0
					isRejected := what == "shard" || what == "manifest" // limiters find it
					for range 3 {
						if _, err := e.Publish(t.Context(), next, isRejected); err != nil {
							t.Fatalf("%s: %v", name, err)
						}
						isRejected = false
					}
					if _, revision := load(t, exchange(client)); revision != next.Revision {
						t.Fatalf("%s: revision %s, want %s", name, revision, next.Revision)
					}
					client.Redis().Del(t.Context(), "elsewhere")
					wantExpiry(t, client, e, next, 0)
					if t.Failed() {
						t.Fatal(name, successor, next.Revision == first.Revision)
					}
				}
			}
		}
	}
}

// A text that another program has written does not get into keys, which can become large.
func TestPoint_ReturnsNoTextThatIsNoRevision(t *testing.T) {
	onRedis(t, func(t *testing.T, client *redisclient.Client) {
		e := exchange(client)
		for _, test := range [][2]string{{"x", ""}, {"sha256:" + strings.Repeat("0", 65), ""}, {"sha256:a", "sha256:a"}} {
			client.Redis().Set(t.Context(), e.currentKey(), test[0], 0)
			if previous, err := e.point(t.Context(), "sha256:b"); err != nil || previous != test[1] {
				t.Errorf("%q: returned %q, %v; want %q", test[0], previous, err, test[1])
			}
		}
	})
}

// The list has the revisions of a month, whose Sets have expired. Clear must not wait for a reply about each of them: it has a second.
func TestClear_AsksForAllSetsTogether(t *testing.T) {
	client := open(t, fixture.Redis(t).URL())
	e := exchange(client)
	for i := range maxListed - 40 {
		if _, err := e.list(t.Context(), fmt.Sprintf("sha256:%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range int64(40) {
		publishSet(t, e, encoded(sharded(edited(many(20), "shop/policy-007", 100+i))))
	}
	counted := &roundTrips{}
	client.Redis().AddHook(counted)
	if err := exchange(client).Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if counted.n > 20 {
		t.Errorf("Clear needs %d round trips, want at most 20", counted.n)
	}
	if left := client.Redis().Keys(t.Context(), "*").Val(); len(left) > 0 {
		t.Errorf("keys after Clear: %q", left)
	}
}

// roundTrips counts them.
type roundTrips struct{ n int }

func (*roundTrips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *roundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { r.n++; return next(ctx, cmd) }
}

func (r *roundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { r.n++; return next(ctx, cmds) }
}

// An operator of an older version, or an eviction, leaves no list. The operator that replaces its Set crashes after any command.
func TestPublish_ReplacesASetThatIsNotListed(t *testing.T) {
	server := fixture.Redis(t)
	client := open(t, server.URL())
	first, second := encoded(sharded(many(20))), encoded(sharded(edited(many(20), "shop/policy-007", 11)))
	finished := false
	for after := 0; !finished; after++ {
		if err := client.Redis().FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		publishSet(t, exchange(client), first)
		client.Redis().Del(t.Context(), exchange(client).supersededKey())
		failing := open(t, server.URL())
		failing.Redis().AddHook(&crash{after: after})
		_, err := exchange(failing).Publish(t.Context(), second, false)
		if finished = err == nil; !finished && !errors.Is(err, errCrashed) {
			t.Fatal(err)
		}
		e := exchange(client)
		publishSet(t, e, second)
		wantExpiry(t, client, e, second, after)
	}
}

// Redis has come back with data from before the expiry of what was replaced. The pointer has not changed, so only time leads to it.
func TestPublish_FindsALostExpiry(t *testing.T) {
	onRedis(t, func(t *testing.T, client *redisclient.Client) {
		e, first, second := exchange(client), encoded(sharded(many(20))), encoded(sharded(edited(many(20), "shop/policy-007", 11)))
		publishSet(t, e, first)
		publishSet(t, e, second)
		keys := []string{e.setKey(first.Revision)}
		for hash := range first.Shards {
			keys = append(keys, e.shardKey(hash))
		}
		for _, lost := range [][]string{keys, keys[:1], keys[1:]} { // on a cluster, each key can be on another node
			for _, key := range lost {
				client.Redis().Persist(t.Context(), key)
			}
			publishSet(t, e, second)
			before := *e.published.Load()
			before.completed = before.completed.Add(-completeInterval)
			e.published.Store(&before)
			publishSet(t, e, second)
			wantExpiry(t, client, e, second, 0)
		}
		if e.published.Load().completed.Before(time.Now().Add(-time.Minute)) {
			t.Error("it looks again each time")
		}
	})
}

// Clear removes a Set whose pointer is lost, and Leave lets it expire.
func TestClear_RemovesASetWhosePointerIsLost(t *testing.T) {
	onRedis(t, func(t *testing.T, client *redisclient.Client) {
		set := encoded(sharded(many(20)))
		e := exchange(client)
		publishSet(t, e, set)
		client.Redis().Del(t.Context(), e.currentKey())
		if err := e.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, key := range client.Redis().Keys(t.Context(), "*").Val() {
			if client.Redis().PTTL(t.Context(), key).Val() == noExpiry {
				t.Errorf("%s stays after Leave", key)
			}
		}
		publishSet(t, e, set)
		client.Redis().Del(t.Context(), e.currentKey())
		if err := exchange(client).Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := client.Redis().Keys(t.Context(), "*").Val(); len(left) > 0 {
			t.Errorf("keys after Clear: %q", left)
		}
	})
}

// An operator was paused between the pointer and the shards. Its successor has replaced the Set, and has let the shards expire.
func TestPublish_KeepsNoShardsOfASetThatWasReplacedMeanwhile(t *testing.T) {
	server := fixture.Redis(t)
	client, slow := open(t, server.URL()), open(t, server.URL())
	first, second := encoded(sharded(many(20))), encoded(sharded(edited(many(20), "shop/policy-007", 11)))
	third := encoded(sharded(edited(many(20), "shop/policy-007", 12)))
	paused, successor := exchange(slow), exchange(client)
	publishSet(t, paused, first)
	pointed := false
	slow.Redis().AddHook(&faults{match: func(words string) bool {
		isShard := strings.HasPrefix(words, "set "+paused.shardKey(""))
		if pointed && isShard {
			pointed = false
			publishSet(t, successor, third)
		}
		pointed = pointed || strings.HasPrefix(words, "set "+paused.currentKey())
		return false
	}})
	if changed, err := paused.Publish(t.Context(), second, false); err != nil || !changed {
		t.Errorf("changed %v, %v", changed, err)
	}
	publishSet(t, successor, third)
	wantExpiry(t, client, successor, third, 0)
}

// Another program has written the key of the replicas. Heartbeats replace it, and until then there are no replicas: the rules must arrive.
func TestHeartbeat_ReplacesAKeyOfAnotherType(t *testing.T) {
	onRedis(t, func(t *testing.T, client *redisclient.Client) {
		e := exchange(client)
		if err := client.Redis().RPush(t.Context(), e.replicasKey(), "x").Err(); err != nil {
			t.Fatal(err)
		}
		if replicas, err := e.Replicas(t.Context()); err != nil || len(replicas) > 0 {
			t.Errorf("replicas %v, %v", replicas, err)
		}
		if err := e.Heartbeat(t.Context(), Replica{ID: "a"}); err != nil {
			t.Fatal(err)
		}
		if replicas, err := e.Replicas(t.Context()); err != nil || len(replicas) != 1 {
			t.Errorf("replicas %v, %v", replicas, err)
		}
	})
}

// An error of Redis that is not about the type must not cost the heartbeats of the other replicas.
func TestHeartbeat_KeepsTheOthersIfRedisIsFull(t *testing.T) {
	client := open(t, fixture.Redis(t).URL())
	e := exchange(client)
	if err := e.Heartbeat(t.Context(), Replica{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	client.Redis().ConfigSet(t.Context(), "maxmemory", "1")
	if err := e.Heartbeat(t.Context(), Replica{ID: "b"}); err == nil {
		t.Error("the heartbeat succeeded in a full Redis")
	}
	client.Redis().ConfigSet(t.Context(), "maxmemory", "0")
	if replicas, err := e.Replicas(t.Context()); err != nil || len(replicas) != 1 {
		t.Errorf("replicas %v, %v", replicas, err)
	}
}
