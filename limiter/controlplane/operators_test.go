package controlplane

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

// operator is an Exchange that can crash.
type operator struct {
	*Exchange
	crash *crash
}

// TestExchange_SurvivesTwoOperatorsThatCrash lets two operators publish, leave, clear and crash at random, one command at a time. The pointer always
// names a Set that is whole. In the end, what the active Set needs has no expiry.
func TestExchange_SurvivesTwoOperatorsThatCrash(t *testing.T) {
	server := fixture.Redis(t)
	client := open(t, server.URL())
	var sets []rules.Encoded
	for i := range int64(5) {
		sets = append(sets, encoded(sharded(edited(edited(many(12), "shop/policy-007", 11+i%3), "shop/policy-003", 1+i))))
	}
	sets = append(sets, rules.Whole(sharded(many(12))))
	var operators [2]operator
	for i := range operators {
		failing := open(t, server.URL())
		operators[i] = operator{exchange(failing), &crash{}}
		failing.Redis().AddHook(operators[i].crash)
	}
	for seed := range uint64(150) {
		random := rand.New(rand.NewPCG(seed, 1))
		if err := client.Redis().FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		var steps []string
		for range 12 {
			o := operators[random.IntN(2)]
			o.crash.sent, o.crash.after = 0, random.IntN(80)
			o.verifyInterval = 0
			var err error
			switch random.IntN(10) {
			case 0:
				steps, err = append(steps, "leave"), o.Leave(t.Context())
			case 1:
				steps, err = append(steps, "clear"), o.Clear(t.Context())
			case 2:
				steps = append(steps, "restart")
				o.published.Store(nil)
				o.stored.Store(nil)
			default:
				set := sets[random.IntN(len(sets))]
				steps = append(steps, "publish "+set.Revision[7:12])
				_, err = o.Publish(t.Context(), set, random.IntN(8) == 0)
			}
			if err != nil {
				steps[len(steps)-1] += ": " + err.Error()
			}
			revision, err := exchange(client).Current(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if revision == "" {
				continue
			}
			if data, found, err := exchange(client).Archive(t.Context(), revision); err != nil || !found {
				t.Fatalf("seed %d: the Set of the pointer is found: %v, %v\n%s", seed, found, err, strings.Join(steps, "\n"))
			} else if _, err := rules.DecodeAs(data, revision); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(steps, "\n"))
			}
		}
		o, last := operators[0], sets[random.IntN(len(sets))]
		o.crash.sent, o.crash.after = 0, 10_000
		for range 2 {
			publishSet(t, o.Exchange, last)
		}
		needed := []string{o.currentKey(), o.setKey(last.Revision)}
		for hash := range last.Shards {
			needed = append(needed, o.shardKey(hash))
		}
		slices.Sort(needed)
		for _, key := range needed {
			if ttl := client.Redis().PTTL(t.Context(), key).Val(); ttl != noExpiry {
				t.Fatalf("seed %d: %s has TTL %v, want none\n%s", seed, key, ttl, strings.Join(steps, "\n"))
			}
		}
	}
}
