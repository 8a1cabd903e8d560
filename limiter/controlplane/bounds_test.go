package controlplane

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

// sentBy returns the bytes that the server sends during a call.
func sentBy(t *testing.T, client *redisclient.Client, call func()) int {
	t.Helper()
	total := func() int {
		_, after, _ := strings.Cut(client.Redis().Info(t.Context(), "stats").Val(), "total_net_output_bytes:")
		n, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(after, "\n", 2)[0]))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := total()
	call()
	return total() - before
}

// Another program can write values of any size over the keys. Limiters and operators must not read more of them than can be valid, and must replace them.
func TestExchange_ReadsNoMoreThanCanBeValid(t *testing.T) {
	const most = 1 << 20 // bytes from Redis for one call
	huge := strings.Repeat("x", 16<<20)
	server := fixture.Redis(t)
	client := open(t, server.URL())
	rdb := client.Redis()
	first, second := encoded(sharded(many(50))), encoded(sharded(edited(many(50), "shop/policy-007", 11)))
	hash := slices.Sorted(maps.Keys(first.Shards))[0]
	set := func(key func(*Exchange) string) func(context.Context, *Exchange) error {
		return func(ctx context.Context, e *Exchange) error { return rdb.Set(ctx, key(e), huge, 0).Err() }
	}
	for name, damage := range map[string]func(context.Context, *Exchange) error{
		"the pointer":  set((*Exchange).currentKey),
		"the manifest": set(func(e *Exchange) string { return e.setKey(first.Revision) }),
		"the manifest, emptied": func(ctx context.Context, e *Exchange) error {
			return rdb.Set(ctx, e.setKey(first.Revision), "", 0).Err()
		},
		"a shard": set(func(e *Exchange) string { return e.shardKey(hash) }),
		"the list": func(ctx context.Context, e *Exchange) error {
			return rdb.RPush(ctx, e.supersededKey(), huge, huge).Err()
		},
		"a list of many": func(ctx context.Context, e *Exchange) error {
			return rdb.RPush(ctx, e.supersededKey(), slices.Repeat([]any{"sha256:" + strings.Repeat("0", 64)}, 100_000)...).Err()
		},
		"a heartbeat": func(ctx context.Context, e *Exchange) error {
			return rdb.HSet(ctx, e.replicasKey(), "evil", fmt.Sprintf(`{"time":%d,"mode":%q}`, rdb.Time(ctx).Val().UnixMilli(), huge)).Err()
		},
		"the id of a replica": func(ctx context.Context, e *Exchange) error {
			return rdb.HSet(ctx, e.replicasKey(), huge, fmt.Sprintf(`{"time":%d}`, rdb.Time(ctx).Val().UnixMilli())).Err()
		},
		"many heartbeats": func(ctx context.Context, e *Exchange) error {
			entries := map[string]any{}
			for i := range maxReplicas {
				entries["evil-"+strconv.Itoa(i)] = fmt.Sprintf(`{"time":%d,"mode":%q}`, rdb.Time(ctx).Val().UnixMilli(), huge[:1000])
			}
			return rdb.HSet(ctx, e.replicasKey(), entries).Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := rdb.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			e := exchange(client)
			publishSet(t, e, first)
			heartbeat(t, e, Replica{ID: "a"})
			if err := damage(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			successor := exchange(client)
			for call, do := range map[string]func() error{
				"Current":  func() error { _, err := e.Current(t.Context()); return err },
				"Active":   func() error { _, _, err := successor.Active(t.Context()); return err },
				"Load":     func() error { _, _, err := e.Load(t.Context(), first.Revision); return err },
				"Archive":  func() error { _, _, err := e.Archive(t.Context(), first.Revision); return err },
				"Replicas": func() error { _, err := e.Replicas(t.Context()); return err },
			} {
				if sent := sentBy(t, client, func() {
					if err := do(); err != nil {
						t.Errorf("%s: %v", call, err)
					}
				}); sent > most {
					t.Errorf("%s reads %d bytes, want at most %d", call, sent, most)
				}
			}
			if sent := sentBy(t, client, func() { heartbeat(t, e, Replica{ID: "a"}) }); sent > most {
				t.Errorf("a heartbeat reads %d bytes", sent)
			}
			if n := rdb.HLen(t.Context(), e.replicasKey()).Val(); n != 1 {
				t.Errorf("%d entries stay", n)
			}
			if replicas, err := e.Replicas(t.Context()); err != nil || len(replicas) != 1 || replicas[0].ID != "a" {
				t.Errorf("%d replicas, %v; want that which has sent a heartbeat", len(replicas), err)
			}
			if sent := sentBy(t, client, func() {
				publishSet(t, e, second)
				if _, err := successor.Publish(t.Context(), second, true); err != nil { // a replica has rejected the Set
					t.Error(err)
				}
			}); sent > most {
				t.Errorf("Publish reads %d bytes", sent)
			}
			if _, revision := load(t, e); revision != second.Revision {
				t.Errorf("revision %s, want %s", revision, second.Revision)
			}
			if sent := sentBy(t, client, func() {
				if err := exchange(client).Clear(t.Context()); err != nil {
					t.Error(err)
				}
			}); sent > most {
				t.Errorf("Clear reads %d bytes", sent)
			}
		})
	}
}

// To read a long entry of the list takes Redis up to a second. It must be read once, and what was published since must stay in the list.
func TestPublish_RemovesLongEntriesOfTheList(t *testing.T) {
	onRedis(t, func(t *testing.T, client *redisclient.Client) {
		e, rdb, huge := exchange(client), client.Redis(), strings.Repeat("x", 1<<20)
		first, second := encoded(sharded(many(20))), encoded(sharded(many(21)))
		publishSet(t, e, first)
		for _, want := range [][]string{{second.Revision}, {}} {
			if err := rdb.RPush(t.Context(), e.supersededKey(), huge, huge).Err(); err != nil {
				t.Fatal(err)
			}
			for _, revision := range want {
				if _, err := e.list(t.Context(), revision); err != nil {
					t.Fatal(err)
				}
			}
			if listed, err := e.listed(t.Context()); err != nil || !slices.Equal(listed, want) && len(listed)+len(want) > 0 {
				t.Errorf("listed %q, %v; want %q", listed, err, want)
			}
			if stay := rdb.LRange(t.Context(), e.supersededKey(), 0, -1).Val(); !slices.Equal(stay, want) && len(stay)+len(want) > 0 {
				t.Errorf("%d entries stay, want %d", len(stay), len(want))
			}
		}
	})
}

// The entries of many replicas are short, and have no bound together but this one.
func TestHeartbeat_RemovesEntriesThatAreTooLargeTogether(t *testing.T) {
	client := open(t, fixture.Redis(t).URL())
	e, rdb, ctx := exchange(client), client.Redis(), t.Context()
	now := rdb.Time(ctx).Val().UnixMilli()
	for i := range 600 {
		entry := fmt.Sprintf(`{"time":%d,"mode":%q}`, now, strings.Repeat("x", 60<<10))
		if err := rdb.HSet(ctx, e.replicasKey(), "evil-"+strconv.Itoa(i), entry).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if sent := sentBy(t, client, func() { _, _ = e.Replicas(ctx) }); sent > maxEntries+1<<20 {
		t.Errorf("Replicas reads %d bytes", sent)
	}
	heartbeat(t, e, Replica{ID: "a"})
	if n := rdb.HLen(ctx, e.replicasKey()).Val(); n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
}

// A whole Set, for limiters that read no shards, is larger than a manifest.
func TestLoad_ReturnsLargeWholeSets(t *testing.T) {
	onRedis(t, func(t *testing.T, client *redisclient.Client) {
		limits := map[string]int64{}
		for i := range 20_000 {
			limits[fmt.Sprintf("shop/%x", i*7919)] = int64(i) + 1
		}
		set := rules.Whole(sharded(limits))
		if len(set.Data) <= maxManifest {
			t.Fatalf("the Set has %d bytes, want more than a manifest", len(set.Data))
		}
		e := exchange(client)
		publishSet(t, e, set)
		if got, revision := load(t, e); revision != set.Revision || len(got.Rules) != len(limits) {
			t.Errorf("revision %s with %d rules", revision, len(got.Rules))
		}
	})
}

// What cannot be compressed has more bytes when it is encoded.
func TestMaxPacked_IsEnoughForWhatCannotBeCompressed(t *testing.T) {
	random := rand.NewChaCha8([32]byte{})
	for _, size := range []int{0, 1, 1 << 10, 16 << 10, 1 << 20, 20 << 20} {
		plain := make([]byte, size)
		_, _ = random.Read(plain) // it returns no errors
		var packed bytes.Buffer
		w, err := gzip.NewWriterLevel(&packed, gzip.HuffmanOnly)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got, most := packed.Len(), maxPacked(size); got > most {
			t.Errorf("%d bytes have %d bytes when they are packed, and the bound is %d", size, got, most)
		}
	}
}
