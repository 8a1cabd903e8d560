package redisstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/test/fixture"
)

// Another program has written a list or a hash at the key of a counter. The counter starts over with the next unit that it counts, and is reported,
// whichever script decides it.
func TestSpend_ReportsAKeyOfAnotherType(t *testing.T) {
	client := openURL(t, fixture.Redis(t).URL())
	ctx := t.Context()
	write := map[string]func(key string) error{
		"list": func(key string) error { return client.Redis().RPush(ctx, key, "a", "b").Err() },
		"hash": func(key string) error { return client.Redis().HSet(ctx, key, "a", "b").Err() },
		"set":  func(key string) error { return client.Redis().SAdd(ctx, key, "a").Err() },
	}
	chargeOn := func(limit limiter.Limit, key string) limiter.Charge {
		return limiter.Charge{Key: key, Limit: limit, Cost: 1}
	}
	spendOn := func(charges ...limiter.Charge) *call {
		return &call{mode: modeSpend, charges: charges, deadline: time.Now().Add(patience)}
	}
	small := corruptLimits(t)[0]
	for shape, callsOf := range map[string]func(limit limiter.Limit) []*call{
		"alone": func(l limiter.Limit) []*call { return []*call{spendOn(chargeOn(l, "odd"))} },
		"in a batch": func(l limiter.Limit) []*call {
			return []*call{spendOn(chargeOn(l, "new")), spendOn(chargeOn(l, "odd"))}
		},
		"twice in a batch": func(l limiter.Limit) []*call {
			return []*call{spendOn(chargeOn(l, "odd")), spendOn(chargeOn(l, "odd")), spendOn(chargeOn(l, "new"))}
		},
		"with another counter": func(l limiter.Limit) []*call { return []*call{spendOn(chargeOn(small, "new"), chargeOn(l, "odd"))} },
		"with a large log": func(l limiter.Limit) []*call {
			return []*call{spendOn(chargeOn(corruptLimits(t)[3], "new"), chargeOn(l, "odd"))}
		},
		"with a compact counter": func(l limiter.Limit) []*call {
			return []*call{spendOn(chargeOn(small, "block:0#000000000001"), chargeOn(l, "odd"))}
		},
	} {
		for _, limit := range corruptLimits(t) {
			for kind, write := range write {
				t.Run(fmt.Sprintf("%s/%s/%s", shape, limitName(limit), kind), func(t *testing.T) {
					if err := client.Redis().FlushDB(ctx).Err(); err != nil {
						t.Fatal(err)
					}
					if err := write("odd"); err != nil {
						t.Fatal(err)
					}
					var reported []string
					store := NewStore(client, patience, WithCorruptCounters(func(keys []string) { reported = append(reported, keys...) }))
					calls := callsOf(limit)
					store.send(calls)
					for i, c := range calls {
						if c.reply.err != nil {
							t.Fatalf("call %d: %v", i, c.reply.err)
						}
					}
					if want := []string{"odd"}; !slices.Equal(reported, want) {
						t.Errorf("reported %q, want %q", reported, want)
					}
					if kind := client.Redis().Type(ctx, "odd").Val(); kind != "string" || client.Redis().PTTL(ctx, "odd").Val() <= 0 {
						t.Errorf("the key has the type %s and the time to live %v, want a string that expires", kind, client.Redis().PTTL(ctx, "odd").Val())
					}
					reported = nil
					store.send([]*call{spendOn(chargeOn(limit, "odd"))})
					if len(reported) > 0 {
						t.Errorf("reported %q after it has started over", reported)
					}
				})
			}
		}
	}
}

// A refund finds the key before any unit is spent. It changes nothing.
func TestRefund_ReportsAKeyOfAnotherType(t *testing.T) {
	client := openURL(t, fixture.Redis(t).URL())
	for _, limit := range corruptLimits(t) {
		if err := client.Redis().FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		client.Redis().RPush(t.Context(), "odd", "a")
		var reported []string
		store := NewStore(client, patience, WithCorruptCounters(func(keys []string) { reported = append(reported, keys...) }))
		err := store.Refund(t.Context(), []limiter.Refund{{Key: "odd", Limit: limit, Cost: 1, At: limiter.At(time.Now())}})
		if err != nil || !slices.Equal(reported, []string{"odd"}) {
			t.Errorf("%s: %v, reported %q, want odd", limitName(limit), err, reported)
		}
		if list, err := client.Redis().LRange(t.Context(), "odd", 0, -1).Result(); err != nil || !slices.Equal(list, []string{"a"}) {
			t.Errorf("%s: %q, %v, want the list unchanged", limitName(limit), list, err)
		}
	}
}

// On a cluster, one script decides calls in several slots of a node.
func TestSend_ReportsAKeyOfAnotherTypeInAnotherSlot(t *testing.T) {
	client := openURL(t, fixture.RedisClusterNode(t).URL()+"?cluster=true")
	cluster, ok := client.Cluster()
	if !ok {
		t.Fatal("not a cluster")
	}
	for _, limit := range corruptLimits(t)[:3] {
		key := "odd-" + limitName(limit)
		if err := cluster.RPush(t.Context(), key, "a").Err(); err != nil {
			t.Fatal(err)
		}
		var reported []string
		store := NewStore(client, patience, WithCorruptCounters(func(keys []string) { reported = append(reported, keys...) }))
		calls := []*call{
			{mode: modeSpend, charges: chargesOn(limit, 1, "new-"+limitName(limit)), deadline: time.Now().Add(patience)},
			{mode: modeSpend, charges: []limiter.Charge{{Key: key, Limit: limit, Cost: 1}}, deadline: time.Now().Add(patience)},
		}
		store.send(calls)
		if err := calls[1].reply.err; err != nil || !slices.Equal(reported, []string{key}) {
			t.Errorf("%s: %v, reported %q, want %s", limitName(limit), err, reported, key)
		}
	}
}
