package redisstore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/test/fixture"
)

// replyError is an error reply of Redis.
type replyError string

func (r replyError) Error() string { return string(r) }
func (replyError) RedisError()     {}

// rejection is a service that replies to scripts without declared keys with an error.
type rejection struct {
	replies  []replyError // in turn
	runs     bool         // the script runs nevertheless
	rejected atomic.Int64
}

func (r *rejection) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *rejection) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); cmd.Name() != "evalsha" || args[2] != 0 {
			return next(ctx, cmd)
		}
		if r.runs {
			if err := next(ctx, cmd); err != nil {
				return err
			}
		}
		err := r.replies[int(r.rejected.Add(1)-1)%len(r.replies)]
		cmd.SetErr(err)
		return err
	}
}

func (r *rejection) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// openRejecting opens a cluster of which a node rejects scripts without declared keys.
func openRejecting(t *testing.T, cluster *fixture.RedisClusterGroup, of *fixture.RedisProcess, r *rejection) *redisstore.Store {
	t.Helper()
	client := open(t, cluster.URL())
	if _, err := client.LoadScripts(t.Context(), redisstore.Scripts()); err != nil {
		t.Fatal(err)
	}
	nodes, _ := client.Cluster()
	key := unitsOf(t, "any", identifierOn(t, cluster, of, 99), 1)[0].Key
	node, err := nodes.MasterForKey(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	node.AddHook(r)
	return redisstore.NewStore(client, longTimeout)
}

func TestSpendAcross_DecidesWhereAServiceRejectsScriptsWithoutKeys(t *testing.T) {
	t.Parallel()
	cluster := primaries(t, 1)
	node := cluster.Nodes()[0]
	for name, test := range map[string]struct {
		reply   replyError
		counted bool // the reply comes after the script has counted
	}{
		"a number of keys": {"ERR for redis cluster, eval/evalsha number of keys can't be negative or zero", false},
		"the array KEYS": {
			"ERR bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS array", false,
		},
		"a slot":              {"CROSSSLOT Keys in request don't hash to the same slot", false},
		"a node":              {"MOVED 3999 127.0.0.1:1", false},
		"a proxy":             {"ERR upstream request timed out", true},
		"a command":           {"ERR number of keys script: 5f0c, on @user_script:9.", true},
		"a command (Redis 6)": {"ERR Error running script (call to f_5f0c): @user_script:9: ERR number of keys", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &rejection{replies: []replyError{test.reply}, runs: test.counted}
			store := openRejecting(t, cluster, node, r)
			var all []limiter.Charge
			for i := range 2 {
				all = append(all, unitsOf(t, name, identifierOn(t, cluster, node, i), 100)...)
			}
			failed := int64(0)
			for range 50 {
				switch _, err := store.Spend(t.Context(), all); {
				case err == nil:
				case redisclient.Kind(err) == redisclient.KindOther && test.counted:
					failed++
				default:
					t.Fatal(err)
				}
			}
			if n := r.rejected.Load(); n == 0 || n > 9 || test.counted && failed != n {
				t.Errorf("%d scripts without keys, want less than 10, because each doubles the pause; %d calls failed", n, failed)
			}
			for _, c := range all {
				if left := peekRemaining(t, store, []limiter.Charge{c}); left != 50 {
					t.Errorf("%s: %d units remain, want 50, because each call counts once", c.Key, left)
				}
			}
		})
	}
}

// A node that rejects gets fewer and fewer such scripts, although another node does not reject them, and although it is loading between the
// rejections.
func TestSpendAcross_DoublesThePausesOfANodeThatRejects(t *testing.T) {
	t.Parallel()
	cluster := primaries(t, 2)
	rejecting := cluster.Nodes()[0]
	r := &rejection{replies: []replyError{"ERR eval without keys", "LOADING Redis is loading the dataset in memory"}}
	store := openRejecting(t, cluster, rejecting, r)
	var here, all []limiter.Charge
	for i := range 4 {
		c := unitsOf(t, "pauses", identifierOn(t, cluster, cluster.Nodes()[i%2], i), 200)
		c[0].Cost = 0
		if all = append(all, c...); i%2 == 0 {
			here = append(here, c...)
		}
	}
	rejected := 0
	for began := time.Now(); time.Since(began) < 1400*time.Millisecond; {
		for _, charges := range [][]limiter.Charge{here, all} {
			before := r.rejected.Load()
			_, err := store.Spend(t.Context(), charges)
			if loading := before%2 == 1 && r.rejected.Load() > before; (err != nil) != loading {
				t.Fatalf("%v, while the node is loading: %t", err, loading)
			}
			rejected = int(r.rejected.Load()+1) / 2
		}
	}
	// After 0, 100, 300 and 700 ms.
	if rejected < 2 || rejected > 4 {
		t.Errorf("%d rejections, want a few, because each doubles the pause", rejected)
	}
}
