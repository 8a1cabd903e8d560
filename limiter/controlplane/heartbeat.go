package controlplane

import (
	"bytes"
	"compress/flate"
	"context"
	_ "embed" // for the scripts
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
)

//go:embed heartbeat.lua
var heartbeatSource string

func newHeartbeatScript() redisclient.Script {
	return redisclient.NewScript("heartbeat", heartbeatSource)
}

const (
	// HeartbeatInterval is the interval at which a replica sends heartbeats.
	HeartbeatInterval = time.Second
	// aliveFor is how long a replica is alive after a heartbeat: three intervals, and slack for a slow Redis.
	aliveFor = 5 * HeartbeatInterval
	// removedAfter is how long the entry of a replica without heartbeats is kept.
	removedAfter = 10 * HeartbeatInterval
	// maxReplicas bounds the entries of the hash: a Limiter has at most 1000 replicas, and entries of stopped ones stay for removedAfter.
	maxReplicas = 5000
	// maxEntry bounds an entry, in bytes: the bitmap has at most 22 KiB in base64, and limiter.MaxCrowded policies with long names have 10 KiB.
	maxEntry = 64 << 10
	// maxEntries bounds all entries together, in bytes: those of 1000 replicas with 50 000 policies have 15 MiB.
	maxEntries = 32 << 20
)

// Replica is a running limiter process, as its heartbeat describes it.
type Replica struct {
	// ID is unique among the replicas of a limiter. It does not change while the process runs.
	ID string
	// Revision of the Set that the replica enforces; empty until it has one.
	Revision string
	// Mode in which it decides: "redis", or "local" while Redis is unavailable.
	Mode string
	// Since is the time when it entered that mode, by its own clock, in whole milliseconds; zero if unknown.
	Since time.Time
	// Rejected is why the replica rejects the published Set and does not enforce it; empty if it does not reject it. At most
	// maxRejected bytes of it are sent, and read.
	Rejected string
	// Crowded are policies whose new identifiers get no counter of their own, or soon will not. At most limiter.MaxCrowded are sent, and read.
	Crowded map[string]limiter.Crowding
	// Decided is a bitmap of the policies of Revision that have decided a request: bit i%8 of byte i/8 stands for policy i, in the order of their
	// names. It is nil if the replica does not report it, as older versions do. At most maxDecided bytes are sent, and read.
	Decided []byte
	// Format is the highest format of rule sets that the replica reads. It is 0 if it does not report it: then it reads no shards.
	Format int
}

// maxDecided bounds the bitmap of a replica: 131 072 policies, more than a rule set can have.
const maxDecided = 16 << 10

// encodeDecided compresses a bitmap, because most replicas have decided under nearly all policies, or under few. It returns text for JSON.
func encodeDecided(bitmap []byte) string {
	var compressed bytes.Buffer
	w := compressors.Get().(*flate.Writer) //nolint:forcetypeassert // the pool has no others
	defer compressors.Put(w)
	w.Reset(&compressed)
	_, _ = w.Write(bitmap[:min(len(bitmap), maxDecided)]) // a Buffer returns no errors
	_ = w.Close()
	return base64.StdEncoding.EncodeToString(compressed.Bytes())
}

// compressors are used again: to make one clears 0.7 MB of tables.
var compressors = sync.Pool{New: func() any { //nolint:gochecknoglobals // a pool is shared
	w, _ := flate.NewWriter(nil, flate.BestSpeed) // fails only for an unknown level
	return w
}}

// decidedText has the last bitmap of a replica and its text: most heartbeats have the same bitmap as the one before. It is safe for concurrent use.
type decidedText struct {
	mu     sync.Mutex
	bitmap []byte
	text   string // "" before the first bitmap
}

// encode returns what encodeDecided returns.
func (t *decidedText) encode(bitmap []byte) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.text == "" || !bytes.Equal(bitmap, t.bitmap) {
		t.bitmap, t.text = bytes.Clone(bitmap), encodeDecided(bitmap)
	}
	return t.text
}

// decodeDecided returns the bitmap of a replica; nil if the text is invalid.
func decodeDecided(text string) []byte {
	r := flate.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	bitmap, err := io.ReadAll(io.LimitReader(r, maxDecided))
	if err != nil {
		return nil
	}
	return bitmap
}

// maxRejected bounds the text of a replica, because it becomes part of the status of each policy.
const maxRejected = 256

// bounded returns the valid, printable beginning of text, at most maxRejected bytes.
func bounded(text string) string {
	printable := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	if len(printable) <= maxRejected {
		return printable
	}
	const more = "…"
	end := maxRejected - len(more)
	for !utf8.RuneStart(printable[end]) {
		end--
	}
	return printable[:end] + more
}

// Heartbeat records that r is alive now, by the clock of Redis.
func (e *Exchange) Heartbeat(ctx context.Context, r Replica) error {
	var since int64
	if !r.Since.IsZero() {
		since = r.Since.UnixMilli()
	}
	crowded := ""
	if len(r.Crowded) > 0 {
		text, err := json.Marshal(boundedCrowded(r.Crowded))
		if err != nil {
			return fmt.Errorf("encode the policies of replica %s: %w", r.ID, err)
		}
		crowded = string(text)
	}
	args := []any{r.ID, r.Revision, r.Mode, removedAfter.Milliseconds(), since, bounded(r.Rejected), crowded}
	decided := ""
	if r.Decided != nil {
		decided = e.decided.encode(r.Decided)
	}
	args = append(args, decided, r.Format, maxReplicas, maxEntry, maxEntries)
	if err := e.client.Run(ctx, e.heartbeat, []string{e.replicasKey()}, args...).Err(); err != nil {
		return fmt.Errorf("send the heartbeat of replica %s: %w", r.ID, err)
	}
	return nil
}

// boundedCrowded returns at most limiter.MaxCrowded policies with a known value, in the order of their names. Replicas and operators of other
// versions, and stolen replicas, can send other values.
func boundedCrowded(crowded map[string]limiter.Crowding) map[string]limiter.Crowding {
	kept := map[string]limiter.Crowding{}
	for _, policy := range slices.Sorted(maps.Keys(crowded)) {
		if len(kept) < limiter.MaxCrowded && crowded[policy].Severity() > 0 {
			kept[policy] = crowded[policy]
		}
	}
	return kept
}

// Remove removes replica id, because it stops: otherwise it would count as alive until its last heartbeat is too old.
func (e *Exchange) Remove(ctx context.Context, id string) error {
	if err := e.client.Redis().HDel(ctx, e.replicasKey(), id).Err(); err != nil {
		return fmt.Errorf("remove replica %s: %w", id, err)
	}
	return nil
}
