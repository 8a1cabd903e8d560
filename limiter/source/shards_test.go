package source

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// shardedSet returns a Set of 50 policies in shards. The first policy has these units.
func shardedSet(units int64) rules.Encoded {
	var set rules.Set
	for i := range 50 {
		set.Rules = append(set.Rules, rules.Rule{
			Policy: fmt.Sprintf("shop/policy-%02d", i), Domain: "shop", Axis: "Tenant",
			Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"},
			Algorithm:  limiter.SlidingWindowCounter, Units: 10, WindowSeconds: 60,
		})
	}
	set.Rules[0].Units = units
	return new(rules.Encoder).Encode(set, func(i int) string { return set.Rules[i].Revision() })
}

func (s *stub) setShards(set rules.Encoded, shards map[string][]byte) {
	s.set(set.Revision, set.Data)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shards, s.asked = shards, nil
}

func TestRedis_FetchesTheShardsThatItDoesNotHave(t *testing.T) {
	first, second := shardedSet(1), shardedSet(2)
	stub := &stub{}
	var sets []*rules.Sharded
	r := NewRedis(stub, "", func(set *rules.Sharded, _ string) error { sets = append(sets, set); return nil }, slog.New(slog.DiscardHandler))
	for i, set := range []rules.Encoded{first, second} {
		stub.setShards(set, set.Shards)
		if err := r.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := []int{len(first.Shards), 1}[i]; len(stub.asked) != want {
			t.Errorf("rule set %d: it asked for %d shards, want %d", i, len(stub.asked), want)
		}
	}
	if len(sets) != 2 || sets[0].Set().Rules[0].Units != 1 || sets[1].Set().Rules[0].Units != 2 || len(sets[1].Set().Rules) != 50 {
		t.Errorf("applied %d sets", len(sets))
	}
}

func TestRedis_KeepsItsRulesIfAShardCannotBeUsed(t *testing.T) {
	first, second := shardedSet(1), shardedSet(2)
	var changed string // the hash
	for hash := range second.Shards {
		if _, isOld := first.Shards[hash]; !isOld {
			changed = hash
		}
	}
	damaged := bytes.Clone(second.Shards[changed])
	damaged[len(damaged)/2] ^= 1
	for name, content := range map[string][]byte{"missing": nil, "damaged": damaged, "another": first.Shards[slices.Sorted(maps.Keys(first.Shards))[0]]} {
		t.Run(name, func(t *testing.T) {
			stub := &stub{}
			var got applied
			r := NewRedis(stub, "", got.applyShards, slog.New(slog.DiscardHandler))
			stub.setShards(first, first.Shards)
			if err := r.refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			shards := maps.Clone(second.Shards)
			shards[changed] = content
			if content == nil {
				delete(shards, changed)
			}
			stub.setShards(second, shards)
			for range 3 {
				if err := r.refresh(t.Context()); err == nil {
					t.Fatal("it returned no error")
				}
			}
			if got.count() != 1 || got.last() != first.Revision || r.Ready() != nil {
				t.Errorf("it applied %d sets, the last one %s", got.count(), got.last())
			}
			if err := r.Rejected(); err == nil || !strings.Contains(err.Error(), "shard") {
				t.Errorf("Rejected: %v, want the shard", err)
			}
			stub.setShards(second, second.Shards)
			if err := r.refresh(t.Context()); err != nil || got.last() != second.Revision || r.Rejected() != nil {
				t.Errorf("after the repair: %v, revision %s, rejected: %v", err, got.last(), r.Rejected())
			}
		})
	}
}

// A snapshot has the manifest and all shards. The shards of a snapshot with several files can be in any of them.
func TestSnapshot_HasShards(t *testing.T) {
	set := shardedSet(1)
	set.Data = rules.WithSequence(set.Data, 7)
	now := time.Now()
	archive, err := set.Archive()
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{len(archive), len(set.Data), len(archive) / 2, 10} {
		path := filepath.Join(t.TempDir(), "rules.json.gz")
		write(t, path, string(archive[:at]))
		lag := NewSnapshotLag(path)
		if at < len(archive) {
			lag.Measure(now, set.Revision)
			if differs := lag.Measure(now.Add(1), set.Revision); differs != 1 {
				t.Errorf("%d bytes: an incomplete snapshot has a lag of %v", at, differs)
			}
			write(t, path+".1", string(archive[at:]))
		}
		if differs := lag.Measure(now, set.Revision); differs != 0 {
			t.Errorf("%d bytes in the first file: a lag of %v", at, differs)
		}
		var got applied
		r := NewRedis(&stub{}, path, got.applyShards, slog.New(slog.DiscardHandler))
		if err := r.refresh(t.Context()); err == nil || got.last() != set.Revision {
			t.Errorf("%d bytes in the first file: revision %q, %v", at, got.last(), err)
		}
	}
}
