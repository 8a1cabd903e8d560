package controlplane

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
)

func heartbeat(t *testing.T, e *Exchange, r Replica) {
	t.Helper()
	if err := e.Heartbeat(t.Context(), r); err != nil {
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

func TestReplicas_ListsThoseWithAHeartbeat(t *testing.T) {
	onRedis(t, listsReplicas)
}

func listsReplicas(t *testing.T, client *redisclient.Client) {
	e := exchange(client)
	if live := replicas(t, e); len(live) != 0 {
		t.Errorf("Replicas before the first heartbeat = %v", live)
	}
	special := Replica{ID: `b "{}:` + "\n", Revision: "sha256:b", Mode: `lo"cal`, Since: time.UnixMilli(1_790_000_000_123), Format: 4}
	heartbeat(t, e, special)
	heartbeat(t, e, Replica{ID: "a", Revision: "", Mode: "redis", Rejected: `rule shop/x: "bad"`})
	rejecting := []Replica{{ID: "a", Mode: "redis", Rejected: `rule shop/x: "bad"`}, special}
	if diff := cmp.Diff(rejecting, replicas(t, e)); diff != "" {
		t.Errorf("replicas of which one rejects its rules (-want +got):\n%s", diff)
	}
	crowded := Replica{ID: "a", Mode: "redis", Crowded: map[string]limiter.Crowding{`sh"op/x`: limiter.OverMemory, "shop/unknown": "Other"}}
	for i := range 20 {
		crowded.Crowded["shop/y"+strconv.Itoa(i)] = limiter.NearMaximum
	}
	heartbeat(t, e, crowded)
	got := replicas(t, e)[0].Crowded
	if _, unknown := got["shop/unknown"]; len(got) != limiter.MaxCrowded || got[`sh"op/x`] != limiter.OverMemory || unknown {
		t.Errorf("policies of a replica: %v, want %d with known values", got, limiter.MaxCrowded)
	}
	for name, bitmap := range map[string][]byte{"none": {}, "some": {0, 0b101, 0xff}, "10 000": bytes.Repeat([]byte{0xff}, 1250)} {
		heartbeat(t, e, Replica{ID: "a", Mode: "redis", Decided: bitmap})
		if diff := cmp.Diff([]Replica{{ID: "a", Mode: "redis", Decided: bitmap}, special}, replicas(t, e)); diff != "" {
			t.Errorf("a replica that has decided under %s (-want +got):\n%s", name, diff)
		}
	}
	heartbeat(t, e, Replica{ID: "a", Revision: "sha256:a", Mode: "redis"})
	want := []Replica{{ID: "a", Revision: "sha256:a", Mode: "redis"}, special}
	if diff := cmp.Diff(want, replicas(t, e)); diff != "" {
		t.Errorf("replicas (-want +got):\n%s", diff)
	}
	if err := e.Remove(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Replica{special}, replicas(t, e)); diff != "" {
		t.Errorf("replicas after Remove (-want +got):\n%s", diff)
	}
	if ttl := client.Redis().PTTL(t.Context(), e.replicasKey()).Val(); ttl <= 5*time.Second || ttl > 10*time.Second {
		t.Errorf("the hash has TTL %v, want 10 s", ttl)
	}
}

// A heartbeat is sent every second, and each replica reads those of all others.
func TestHeartbeat_BoundsWhichRulesHaveDecided(t *testing.T) {
	random := make([]byte, 2*maxDecided)
	rand.NewChaCha8([32]byte{1}).Read(random)
	for name, test := range map[string]struct {
		sent []byte
		text int // bytes at most
		want []byte
	}{
		"nothing":                  {nil, 16, []byte{}},
		"all of 10 000":            {bytes.Repeat([]byte{0xff}, 1250), 64, bytes.Repeat([]byte{0xff}, 1250)},
		"half of 10 000":           {random[:1250], 1700, random[:1250]},
		"more than a Set can have": {random, 4*maxDecided/3 + 64, random[:maxDecided]},
	} {
		text := encodeDecided(test.sent)
		if len(text) > test.text {
			t.Errorf("%s: %d bytes, want at most %d", name, len(text), test.text)
		}
		if got := decodeDecided(text); !bytes.Equal(got, test.want) || got == nil {
			t.Errorf("%s: got %d bytes, want %d", name, len(got), len(test.want))
		}
	}
	var bomb bytes.Buffer
	w, _ := flate.NewWriter(&bomb, flate.BestCompression)
	_, _ = w.Write(make([]byte, 64<<20))
	_ = w.Close()
	if got := decodeDecided(base64.StdEncoding.EncodeToString(bomb.Bytes())); len(got) != maxDecided {
		t.Errorf("%d bytes of a bitmap that is too large, want %d", len(got), maxDecided)
	}
	for _, invalid := range []string{"", "?", "AAAA"} {
		if got := decodeDecided(invalid); got != nil {
			t.Errorf("%q: %v, want nil", invalid, got)
		}
	}
}

// Heartbeats share compressors, and the text while the bitmap stays the same. Each must have its own bitmap nevertheless, also if the caller changes it.
func TestHeartbeat_EncodesTheBitmapThatItHas(t *testing.T) {
	var text decidedText
	var senders sync.WaitGroup
	for sender := range 4 {
		senders.Go(func() {
			bitmap := []byte{}
			for i := range 200 {
				switch i % 3 {
				case 0:
					bitmap = append(bitmap, byte(sender))
				case 1:
					bitmap[i/8] ^= byte(i)
				}
				if got := decodeDecided(text.encode(bitmap)); !bytes.Equal(got, bitmap) || got == nil {
					t.Errorf("sender %d, bitmap %d: got %v, want %v", sender, i, got, bitmap)
				}
			}
		})
	}
	senders.Wait()
	bitmap := []byte{1, 2}
	text.encode(bitmap)
	if allocations := testing.AllocsPerRun(10, func() { text.encode(bitmap) }); allocations > 0 {
		t.Errorf("%v allocations for the bitmap of the heartbeat before, want 0", allocations)
	}
}

// BenchmarkHeartbeat_Decided encodes what a replica of 10 000 policies reports, of which half have decided.
func BenchmarkHeartbeat_Decided(b *testing.B) {
	bitmap := make([]byte, 1250)
	rand.NewChaCha8([32]byte{1}).Read(bitmap)
	var text decidedText
	for name, changes := range map[string]byte{"same": 0, "changed": 1} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bitmap[0] ^= changes
				text.encode(bitmap)
			}
		})
	}
}

// The text becomes part of statuses, and a stolen limiter can write it.
func TestReplicas_BoundTheReasonOfARejection(t *testing.T) {
	tests := map[string]struct{ written, want string }{
		"256 bytes":                       {strings.Repeat("x", 256), strings.Repeat("x", 256)},
		"257 bytes":                       {strings.Repeat("x", 257), strings.Repeat("x", 253) + "…"},
		"a character across the boundary": {strings.Repeat("x", 252) + "ééé", strings.Repeat("x", 252) + "…"},
		"control characters":              {"a\nb\x1b[31mc\u202ed\xff", "ab[31mcd"},
	}
	for name, test := range tests {
		entry, err := json.Marshal(map[string]any{"time": 1000, "rejected": test.written})
		if err != nil {
			t.Fatal(err)
		}
		live, err := decodeReplicas([]string{"1000", "a", string(entry)})
		if err != nil || len(live) != 1 || live[0].Rejected != test.want {
			t.Errorf("%s: %+v, %v, want %q", name, live, err, test.want)
		}
		if sent := bounded(test.written); sent != test.want {
			t.Errorf("%s: sends %q, want %q", name, sent, test.want)
		}
	}
}

func TestHeartbeat_ReportsSinceWhenTheModeLasts(t *testing.T) {
	tests := map[string]struct {
		since time.Time
		want  time.Time
	}{
		"unknown":            {},
		"whole milliseconds": {since: time.UnixMilli(1_790_000_000_123), want: time.UnixMilli(1_790_000_000_123)},
		"microseconds":       {since: time.UnixMicro(1_790_000_000_123_456), want: time.UnixMilli(1_790_000_000_123)},
		"before 1970":        {since: time.UnixMilli(-86_400_000), want: time.UnixMilli(-86_400_000)},
		"in the far future":  {since: time.UnixMilli(4_000_000_000_001), want: time.UnixMilli(4_000_000_000_001)},
	}
	onRedis(t, func(t *testing.T, client *redisclient.Client) {
		e := exchange(client)
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				heartbeat(t, e, Replica{ID: "a", Revision: "sha256:a", Mode: "local", Since: test.since})
				want := []Replica{{ID: "a", Revision: "sha256:a", Mode: "local", Since: test.want}}
				if diff := cmp.Diff(want, replicas(t, e)); diff != "" {
					t.Errorf("replicas (-want +got):\n%s", diff)
				}
				entry := client.Redis().HGet(t.Context(), e.replicasKey(), "a").Val()
				if has := strings.Contains(entry, `"since"`); has == test.want.IsZero() {
					t.Errorf("entry %s", entry)
				}
			})
		}
	})
}

func TestHeartbeat_RemovesReplicasWithoutRecentHeartbeats(t *testing.T) {
	onRedis(t, func(t *testing.T, client *redisclient.Client) {
		e, ctx := exchange(client), t.Context()
		now, err := client.Redis().Time(ctx).Result()
		if err != nil {
			t.Fatal(err)
		}
		store := func(id string, age time.Duration) {
			entry := `{"revision":"sha256:a","time":` + strconv.FormatInt(now.Add(-age).UnixMilli(), 10) + `,"mode":"redis"}`
			if err := client.Redis().HSet(ctx, e.replicasKey(), id, entry).Err(); err != nil {
				t.Fatal(err)
			}
		}
		store("recent", 1*time.Second)
		store("ahead", -1*time.Second)
		store("silent", 7*time.Second)
		store("too old", 10*time.Second+10*time.Millisecond)
		store("too far ahead", -time.Minute)
		if err := client.Redis().HSet(ctx, e.replicasKey(), "garbage", "{", "no time", `{"time":"x"}`, "no object", "7").Err(); err != nil {
			t.Fatal(err)
		}
		heartbeat(t, e, Replica{ID: "me", Revision: "sha256:a", Mode: "redis"})

		var live []string
		for _, r := range replicas(t, e) {
			live = append(live, r.ID)
		}
		if diff := cmp.Diff([]string{"ahead", "me", "recent"}, live); diff != "" {
			t.Errorf("alive (-want +got):\n%s", diff)
		}
		if n := client.Redis().HLen(ctx, e.replicasKey()).Val(); n != 4 {
			t.Errorf("%d entries are kept, want 4: recent, ahead, silent, me", n)
		}
	})
}

// What is unknown, or empty, is not in the entry of a replica.
func TestHeartbeat_OmitsWhatIsUnknown(t *testing.T) {
	onRedis(t, func(t *testing.T, client *redisclient.Client) {
		e := exchange(client)
		for _, test := range []struct {
			replica Replica
			fields  int
		}{
			{Replica{ID: "a", Revision: "sha256:a", Mode: "redis"}, 3},
			{Replica{ID: "a", Revision: "sha256:a", Mode: "redis", Rejected: "no"}, 4},
		} {
			heartbeat(t, e, test.replica)
			var entry map[string]any
			if err := json.Unmarshal([]byte(client.Redis().HGet(t.Context(), e.replicasKey(), "a").Val()), &entry); err != nil {
				t.Fatal(err)
			}
			if _, rejects := entry["rejected"]; len(entry) != test.fields || rejects != (test.replica.Rejected != "") {
				t.Errorf("entry %v of %+v, want %d fields", entry, test.replica, test.fields)
			}
		}
	})
}

// Both times are exact to the millisecond. Only samples in which the millisecond did not change show that.
func TestHeartbeat_HasTheTimeOfRedis(t *testing.T) {
	onRedis(t, func(t *testing.T, client *redisclient.Client) {
		e, ctx, exact := exchange(client), t.Context(), 0
		for deadline := time.Now().Add(patience); exact < 100; {
			before := client.Redis().Time(ctx).Val().UnixMilli()
			heartbeat(t, e, Replica{ID: "a", Revision: "sha256:a", Mode: "redis"})
			reply, err := client.Run(ctx, e.listReplicas, []string{e.replicasKey()}, maxReplicas, maxEntry, maxEntries).StringSlice()
			if err != nil {
				t.Fatal(err)
			}
			after := client.Redis().Time(ctx).Val().UnixMilli()
			var entry struct{ Time json.Number }
			if err := json.Unmarshal([]byte(client.Redis().HGet(ctx, e.replicasKey(), "a").Val()), &entry); err != nil {
				t.Fatal(err)
			}
			written, errWritten := entry.Time.Int64()
			read, errRead := strconv.ParseInt(reply[0], 10, 64)
			if errWritten != nil || errRead != nil {
				t.Fatalf("times %s and %s, want whole milliseconds", entry.Time, reply[0])
			}
			if written < before || read < written || read > after {
				t.Fatalf("heartbeat at %d, read at %d; want from %d to %d", written, read, before, after)
			}
			if before == after {
				exact++
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d samples within a millisecond, want 100", exact)
			}
		}
	})
}

func TestDecodeReplicas_ReturnsThoseThatAreAlive(t *testing.T) {
	tests := map[string]struct {
		reply []string
		live  []string // ids; nil with an error
		err   bool
	}{
		"no replicas":                        {reply: []string{"1000000"}},
		"a heartbeat now":                    {reply: []string{"1000000", "a", `{"time":1000000}`}, live: []string{"a"}},
		"the oldest valid heartbeat":         {reply: []string{"1000000", "a", `{"time":995000}`}, live: []string{"a"}},
		"a heartbeat that is too old":        {reply: []string{"1000000", "a", `{"time":994999}`}},
		"a clock that stepped back a little": {reply: []string{"1000000", "a", `{"time":1003000}`}, live: []string{"a"}},
		"a clock that stepped back far":      {reply: []string{"1000000", "a", `{"time":1005001}`}},
		"an invalid entry":                   {reply: []string{"1000000", "a", `{`, "b", `{"time":1000000}`}, live: []string{"b"}},
		"a field of a later version":         {reply: []string{"1000000", "a", `{"time":1000000,"later":{"x":[1]}}`}, live: []string{"a"}},
		"an empty reply":                     {reply: nil, err: true},
		"a reply without time":               {reply: []string{"x"}, err: true},
		"an entry without value":             {reply: []string{"1000000", "a"}, err: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			replicas, err := decodeReplicas(test.reply)
			if (err != nil) != test.err {
				t.Fatalf("error %v, want an error: %v", err, test.err)
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
