package redisstore

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func beat(t *testing.T, e *Exchange, r Replica) {
	t.Helper()
	if err := e.Beat(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func replicas(t *testing.T, e *Exchange) []Replica {
	t.Helper()
	live, err := e.Replicas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return live
}

func TestReplicas(t *testing.T) {
	onBoth(t, knowsReplicas)
}

func knowsReplicas(t *testing.T, client *Client) {
	e := exchange(client)
	if live := replicas(t, e); len(live) != 0 {
		t.Errorf("before any beat: %v", live)
	}
	odd := Replica{ID: `b "{}:` + "\n", Revision: "sha256:b", Mode: `lo"cal`, Since: time.UnixMilli(1_790_000_000_123)}
	beat(t, e, odd)
	beat(t, e, Replica{ID: "a", Revision: "", Mode: "redis"})
	beat(t, e, Replica{ID: "a", Revision: "sha256:a", Mode: "redis"})
	want := []Replica{{ID: "a", Revision: "sha256:a", Mode: "redis"}, odd}
	if diff := cmp.Diff(want, replicas(t, e)); diff != "" {
		t.Errorf("replicas (-want +got):\n%s", diff)
	}
	if err := e.Forget(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Replica{odd}, replicas(t, e)); diff != "" {
		t.Errorf("replicas after Forget (-want +got):\n%s", diff)
	}
	if ttl := client.rdb.PTTL(t.Context(), e.replicasKey()).Val(); ttl <= 0 || ttl > forgottenAfter {
		t.Errorf("the hash has TTL %v, want at most %v", ttl, forgottenAfter)
	}
}

func TestTheModeOfAReplicaHasABeginning(t *testing.T) {
	tests := map[string]struct {
		since time.Time
		want  time.Time
	}{
		"unknown":                   {},
		"a moment":                  {since: time.UnixMilli(1_790_000_000_123), want: time.UnixMilli(1_790_000_000_123)},
		"between two milliseconds":  {since: time.UnixMicro(1_790_000_000_123_456), want: time.UnixMilli(1_790_000_000_123)},
		"a clock that was not set":  {since: time.UnixMilli(-86_400_000), want: time.UnixMilli(-86_400_000)},
		"in the far future, as one": {since: time.UnixMilli(4_000_000_000_001), want: time.UnixMilli(4_000_000_000_001)},
	}
	onBoth(t, func(t *testing.T, client *Client) {
		e := exchange(client)
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				beat(t, e, Replica{ID: "a", Revision: "sha256:a", Mode: "local", Since: test.since})
				want := []Replica{{ID: "a", Revision: "sha256:a", Mode: "local", Since: test.want}}
				if diff := cmp.Diff(want, replicas(t, e)); diff != "" {
					t.Errorf("replicas (-want +got):\n%s", diff)
				}
				entry := client.rdb.HGet(t.Context(), e.replicasKey(), "a").Val()
				if has := strings.Contains(entry, `"since"`); has == test.want.IsZero() {
					t.Errorf("entry %s", entry)
				}
			})
		}
	})
}

// TestBeatDropsTheDead places entries of other ages beside a beat.
func TestBeatDropsTheDead(t *testing.T) {
	onBoth(t, func(t *testing.T, client *Client) {
		e, ctx := exchange(client), t.Context()
		now, err := client.rdb.Time(ctx).Result()
		if err != nil {
			t.Fatal(err)
		}
		place := func(id string, age time.Duration) {
			entry := `{"revision":"sha256:a","time":` + strconv.FormatInt(now.Add(-age).UnixMilli(), 10) + `,"mode":"redis"}`
			if err := client.rdb.HSet(ctx, e.replicasKey(), id, entry).Err(); err != nil {
				t.Fatal(err)
			}
		}
		place("just before", 1*time.Second)
		place("silent", 7*time.Second)
		place("dead", 11*time.Second)
		place("from the future", -time.Hour)
		if err := client.rdb.HSet(ctx, e.replicasKey(), "garbage", "{", "no time", `{"time":"x"}`, "no object", "7").Err(); err != nil {
			t.Fatal(err)
		}
		beat(t, e, Replica{ID: "me", Revision: "sha256:a", Mode: "redis"})

		var live []string
		for _, r := range replicas(t, e) {
			live = append(live, r.ID)
		}
		if diff := cmp.Diff([]string{"just before", "me"}, live); diff != "" {
			t.Errorf("alive (-want +got):\n%s", diff)
		}
		if n := client.rdb.HLen(ctx, e.replicasKey()).Val(); n != 3 {
			t.Errorf("%d entries are kept, want 3: just before, silent, me", n)
		}
	})
}

func TestBeatIsStampedByRedis(t *testing.T) {
	onBoth(t, func(t *testing.T, client *Client) {
		e, ctx := exchange(client), t.Context()
		before := client.rdb.Time(ctx).Val()
		beat(t, e, Replica{ID: "a", Revision: "sha256:a", Mode: "redis"})
		after := client.rdb.Time(ctx).Val()
		var entry struct{ Time json.Number }
		if err := json.Unmarshal([]byte(client.rdb.HGet(ctx, e.replicasKey(), "a").Val()), &entry); err != nil {
			t.Fatal(err)
		}
		ms, err := entry.Time.Int64()
		if err != nil {
			t.Fatalf("the time is not whole milliseconds: %v", err)
		}
		if ms < before.UnixMilli() || ms > after.UnixMilli() {
			t.Errorf("stamped %d, want from %d to %d", ms, before.UnixMilli(), after.UnixMilli())
		}
	})
}

func TestDecodeReplicas(t *testing.T) {
	tests := map[string]struct {
		reply []string
		live  []string // ids; nil with an error
		err   bool
	}{
		"no replicas":                        {reply: []string{"1000000"}},
		"a beat of now":                      {reply: []string{"1000000", "a", `{"time":1000000}`}, live: []string{"a"}},
		"a beat just young enough":           {reply: []string{"1000000", "a", `{"time":995000}`}, live: []string{"a"}},
		"a beat too old":                     {reply: []string{"1000000", "a", `{"time":994999}`}},
		"a clock that stepped back a little": {reply: []string{"1000000", "a", `{"time":1003000}`}, live: []string{"a"}},
		"a clock that stepped back far":      {reply: []string{"1000000", "a", `{"time":1005001}`}},
		"an entry that is no heartbeat":      {reply: []string{"1000000", "a", `{`, "b", `{"time":1000000}`}, live: []string{"b"}},
		"an empty reply":                     {reply: nil, err: true},
		"a reply without time":               {reply: []string{"x"}, err: true},
		"an entry without value":             {reply: []string{"1000000", "a"}, err: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			replicas, err := decodeReplicas(test.reply)
			if (err != nil) != test.err {
				t.Fatalf("error %v, want one: %v", err, test.err)
			}
			var live []string
			for _, r := range replicas {
				live = append(live, r.ID)
			}
			if diff := cmp.Diff(test.live, live); diff != "" {
				t.Errorf("alive (-want +got):\n%s", diff)
			}
		})
	}
}
