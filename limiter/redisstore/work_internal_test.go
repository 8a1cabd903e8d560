package redisstore

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore/lua"
	"github.com/weir-dev/weir/test/fixture"
)

// The most work of a run for one charge or refund, whatever a policy, a request and the stored value are. docs/concepts/security.md has them.
const (
	mostBytes    = 10 << 10 // that commands read and write
	mostCommands = 100
)

// work is what the commands of one run of a script did.
type work struct {
	Commands, Bytes int
}

// measure runs a script, and returns what its commands did.
func measure(t *testing.T, client *redisclient.Client, script redisclient.Script, keys []string, args []any) work {
	t.Helper()
	//nolint:dupword // Lua has several ends
	source := `local commands, bytes = 0, 0
local function count(value)
  if type(value) == 'string' then bytes = bytes + #value end
  if type(value) ~= 'table' then return end
  for _, v in ipairs(value) do count(v) end
end
local real, struct = redis, struct
local function counted(of)
  return function(...)
    commands = commands + 1
    count({...})
    local reply = of(...)
    count(reply)
    return reply
  end
end
local redis = {call = counted(real.call), pcall = counted(real.pcall)}
local function run()
` + script.Source + `
end
run()
return cjson.encode({Commands = commands, Bytes = bytes})`
	reply, err := client.Redis().Eval(t.Context(), source, keys, args...).Text()
	if err != nil {
		t.Fatal(err)
	}
	var w work
	if err := json.Unmarshal([]byte(reply), &w); err != nil {
		t.Fatal(err)
	}
	return w
}

// ringOf returns a ring of a million units in pieces, each at its own instant, oldest first, up to now. Its first entry is in slot start.
func ringOf(now int64, start int) string {
	const units = limiter.MaxLogUnits
	var b strings.Builder
	b.WriteString("T" + packed(now, units, int64(start)<<21+int64(units-start), int64(start), 0))
	for slot := range int64(units) {
		i := (slot - int64(start) + units) % units
		b.WriteString(entry(now-(units-1-i), i))
	}
	return b.String()
}

// A tenant chooses limits, windows, costs and tiers, and a client its costs: none of them makes a run long.
func TestScripts_TakeBoundedWorkForAnyPolicyAndRequest(t *testing.T) {
	client := openURL(t, fixture.Redis(t).URL())
	now := time.Now().Add(time.Hour)
	store := NewStore(client, patience, WithClock(func() time.Time { return now }))
	key := "weir:throttle:user:{acme}:shop/hostile:k3f9q2wz"
	at := now.UnixMicro()
	full := ringOf(at, 300_000)
	var list strings.Builder
	list.WriteString("L")
	for i := range int64(lua.MaxWholeLog) {
		list.WriteString(packed(at - lua.MaxWholeLog + i))
	}
	var most work
	check := func(name string, got work) {
		t.Helper()
		most.Bytes, most.Commands = max(most.Bytes, got.Bytes), max(most.Commands, got.Commands)
		if got.Bytes > mostBytes || got.Commands > mostCommands {
			t.Errorf("%s: %d commands read and wrote %d bytes, want at most %d and %d", name, got.Commands, got.Bytes, mostCommands, mostBytes)
		}
	}
	// spent is when the refunded units were spent: with many newer ones, or with as many as a refund moves.
	spent := []limiter.Instant{limiter.Instant(at), limiter.Instant(at - lua.MaxWholeLog), limiter.Instant(at - 500_000)}
	for _, algorithm := range limiter.Algorithms() {
		values := map[string]string{"nothing": ""}
		units := []int64{1, 256, limiter.MaxUnits}
		if algorithm == limiter.SlidingWindowLog {
			units = []int64{1, 256, 257, limiter.MaxLogUnits}
			values["a full ring"], values["a full list"], values["a megabyte"] = full, list.String(), strings.Repeat("x", 1<<20)
		}
		for _, u := range units {
			for _, window := range []time.Duration{time.Second, limiter.MaxWindow} {
				limit, err := limiter.NewLimit(algorithm, u, window)
				if err != nil {
					t.Fatal(err)
				}
				for name, value := range values {
					for _, cost := range []int64{1, u, u + 1} {
						for _, elapsed := range []int64{0, window.Microseconds() - 400_000, window.Microseconds() + 1} {
							set := func() {
								client.Redis().Del(t.Context(), key)
								if value != "" {
									client.Redis().Set(t.Context(), key, value, time.Hour)
								}
								now = time.UnixMicro(at + elapsed)
							}
							of := fmt.Sprintf("%v on %s, cost %d, %d us later", limit, name, cost, elapsed)
							charges := []limiter.Charge{{Key: key, Limit: limit, Cost: cost}}
							for _, mode := range []string{modeSpend, modePeek} {
								if mode == modePeek && value == full {
									continue // reads what a spend reads
								}
								set()
								script, keys, args := store.request([]*call{{mode: mode, charges: charges}})
								check(mode+" "+of, measure(t, client, script, keys, args))
							}
							set()
							script, keys, args := store.batchRequest([]*call{{mode: modeSpend, charges: charges}})
							check("in a batch, "+of, measure(t, client, script, keys, args))
							if value != full || elapsed > 0 {
								continue
							}
							set()
							anySlot, anySlotArgs := store.anySlotRequest([]*call{{mode: modeSpend, charges: charges}})
							check("on a node, "+of, measure(t, client, anySlot, nil, anySlotArgs))
							for _, instant := range spent {
								set()
								script, keys, args := store.refundRequest([]limiter.Refund{{Key: key, Limit: limit, Cost: cost, At: instant}})
								check("refund "+of, measure(t, client, script, keys, args))
							}
						}
					}
				}
			}
		}
	}
	t.Logf("at most %d commands and %d bytes", most.Commands, most.Bytes)
}

func TestTakeBatch_BoundsTheWorkOfARun(t *testing.T) {
	counter, err := limiter.NewLimit(limiter.FixedWindow, 10, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	ring := logLimit(t, limiter.MaxLogUnits, time.Minute)
	for name, test := range map[string]struct {
		limit                limiter.Limit
		charges, calls, want int
	}{
		"as many calls as a batch has": {counter, 4, 100, maxBatch},
		"many charges":                 {counter, 32, 100, 8},
		"large logs":                   {ring, 1, 100, maxWork / inPlaceWork},
		"many charges on large logs":   {ring, 32, 100, 2},
		"a call above the bound":       {ring, 100, 3, 1},
	} {
		for _, late := range []bool{false, true} {
			b := batcher{}
			began := time.Now()
			if late {
				began = began.Add(-time.Second)
			}
			for range test.calls {
				charges := make([]limiter.Charge, test.charges)
				for i := range charges {
					charges[i].Limit = test.limit
				}
				b.waiting = append(b.waiting, &call{charges: charges, began: began, deadline: time.Now().Add(time.Second)})
			}
			batch := b.takeBatch()
			if len(batch) != test.want || len(b.waiting) != test.calls-test.want {
				t.Errorf("%s, late %t: a batch of %d calls, and %d wait; want %d", name, late, len(batch), len(b.waiting), test.want)
			}
		}
	}
}
