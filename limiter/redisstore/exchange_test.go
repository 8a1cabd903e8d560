package redisstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/weir-dev/weir/test/fixture"
)

// patience is how long a test waits for something that takes milliseconds on an idle machine.
const patience = 20 * time.Second

// onBoth runs test against an empty miniredis and an empty redis-server.
func onBoth(t *testing.T, test func(t *testing.T, client *Client)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) { test(t, open(t, "redis://"+miniredis.RunT(t).Addr())) })
	t.Run("redis-server", func(t *testing.T) { test(t, open(t, fixture.Redis(t).URL())) })
}

// cluster starts a Redis Cluster of one node, which refuses commands and scripts over several slots as any other
// does, and returns its URL.
func cluster(t *testing.T) string {
	t.Helper()
	server := fixture.Redis(t, "--cluster-enabled", "yes")
	node := open(t, server.URL()).rdb
	if err := node.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	fixture.Await(t, "the cluster is up", func() bool {
		return strings.Contains(node.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	})
	return server.URL() + "?addr=" + server.Addr()
}

func open(t *testing.T, url string) *Client {
	t.Helper()
	client, err := Open(url, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

func exchange(client *Client) *Exchange { return NewExchange(client, "weir:", "weir-system/default") }

func publish(t *testing.T, e *Exchange, revision, data string) (changed bool) {
	t.Helper()
	changed, err := e.Publish(t.Context(), revision, []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func TestPublish(t *testing.T) {
	onBoth(t, publishes)
}

func publishes(t *testing.T, client *Client) {
	e, ctx := exchange(client), t.Context()
	if current, err := e.Current(ctx); err != nil || current != "" {
		t.Fatalf("before anything is published: Current = %q, %v", current, err)
	}
	if _, found, err := e.Load(ctx, "sha256:a"); err != nil || found {
		t.Fatalf("before anything is published: Load found = %v, %v", found, err)
	}
	if !publish(t, e, "sha256:a", "A") {
		t.Error("the first Publish changed nothing")
	}
	if publish(t, e, "sha256:a", "A") {
		t.Error("the same Publish again changed something")
	}
	if current, err := e.Current(ctx); err != nil || current != "sha256:a" {
		t.Errorf("Current = %q, %v", current, err)
	}
	if data, found, err := e.Load(ctx, "sha256:a"); err != nil || !found || string(data) != "A" {
		t.Errorf("Load = %q, %v, %v", data, found, err)
	}
}

func TestPublishKeepsOnlyTheCurrentSet(t *testing.T) {
	onBoth(t, keepsOnlyTheCurrentSet)
}

func keepsOnlyTheCurrentSet(t *testing.T, client *Client) {
	e := exchange(client)
	ttl := func(revision string) time.Duration {
		return client.rdb.PTTL(t.Context(), e.setKey(revision)).Val()
	}
	publish(t, e, "sha256:a", "A")
	publish(t, e, "sha256:b", "B")
	if got := ttl("sha256:a"); got <= 0 || got > supersededFor {
		t.Errorf("the superseded Set has TTL %v, want at most %v", got, supersededFor)
	}
	if got := ttl("sha256:b"); got != -1 {
		t.Errorf("the current Set has TTL %v, want none", got)
	}
	publish(t, e, "sha256:a", "A")
	if got := ttl("sha256:a"); got != -1 {
		t.Errorf("a Set that is current again has TTL %v, want none", got)
	}
}

func TestWhatIsLeftExpires(t *testing.T) {
	onBoth(t, leaves)
}

func leaves(t *testing.T, client *Client) {
	e, ctx := exchange(client), t.Context()
	if err := e.Leave(ctx); err != nil {
		t.Fatalf("before anything is published: %v", err)
	}
	publish(t, e, "sha256:a", "A")
	if err := e.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	pointer, set := client.rdb.PTTL(ctx, e.currentKey()).Val(), client.rdb.PTTL(ctx, e.setKey("sha256:a")).Val()
	if pointer <= 0 || pointer > supersededFor || set <= pointer {
		t.Errorf("the pointer has TTL %v, the Set %v; want at most %v, and the Set more", pointer, set, supersededFor)
	}
	if data, found, err := e.Load(ctx, "sha256:a"); err != nil || !found || string(data) != "A" {
		t.Errorf("the Set until then: %q, %v, %v", data, found, err)
	}
	publish(t, e, "sha256:a", "A") // for it was the same Redis by another name
	for _, key := range []string{e.currentKey(), e.setKey("sha256:a")} {
		if got := client.rdb.PTTL(ctx, key).Val(); got != -1 {
			t.Errorf("published again, %s has TTL %v", key, got)
		}
	}
}

func TestClear(t *testing.T) {
	onBoth(t, clears)
}

func clears(t *testing.T, client *Client) {
	e, other, ctx := exchange(client), NewExchange(client, "weir:", "weir-system/other"), t.Context()
	publish(t, other, "sha256:a", "A")
	if err := e.Clear(ctx); err != nil {
		t.Fatalf("before anything is published: %v", err)
	}
	for i := range 2 * maxSuperseded {
		revision := fmt.Sprintf("sha256:%d", i)
		publish(t, e, revision, "A")
		if i < maxSuperseded { // of those the names are lost
			if err := client.rdb.Del(ctx, e.setKey(revision)).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	publish(t, e, fmt.Sprintf("sha256:%d", maxSuperseded), "A") // once more
	if err := e.Beat(ctx, Replica{ID: "a", Revision: "sha256:a"}); err != nil {
		t.Fatal(err)
	}
	if got := client.rdb.PTTL(ctx, e.supersededKey()).Val(); got <= 0 || got > supersededFor {
		t.Errorf("the list of superseded Sets has TTL %v, want at most %v", got, supersededFor)
	}
	if err := e.Clear(ctx); err != nil {
		t.Fatal(err)
	}
	if left, err := client.rdb.Keys(ctx, "*"+e.limiter+"*").Result(); err != nil || len(left) > 0 {
		t.Errorf("after Clear there are still %q, %v", left, err)
	}
	if data, found, err := other.Load(ctx, "sha256:a"); err != nil || !found || string(data) != "A" {
		t.Errorf("the Set of another limiter: %q, %v, %v", data, found, err)
	}
}

func TestClearRemovesWhatItCanWhereItMayNotList(t *testing.T) {
	server := fixture.Redis(t)
	client := open(t, server.URL())
	e := exchange(client)
	publish(t, e, "sha256:a", "A")
	if err := client.rdb.Do(t.Context(), "ACL", "SETUSER", "default", "-lrange").Err(); err != nil {
		t.Fatal(err)
	}
	if err := e.Clear(t.Context()); err == nil || !strings.Contains(err.Error(), "read "+e.supersededKey()) || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("the error is %v", err)
	}
	if left, err := client.rdb.Keys(t.Context(), "*").Result(); err != nil || len(left) > 0 {
		t.Errorf("there are still %q, %v", left, err)
	}
}

func TestPublishRepairs(t *testing.T) {
	damages := map[string]func(context.Context, *Exchange) error{
		"everything is lost": func(ctx context.Context, e *Exchange) error { return e.client.rdb.FlushAll(ctx).Err() },
		"the pointer is lost": func(ctx context.Context, e *Exchange) error {
			return e.client.rdb.Del(ctx, e.currentKey()).Err()
		},
		"the Set is lost": func(ctx context.Context, e *Exchange) error {
			return e.client.rdb.Del(ctx, e.setKey("sha256:a")).Err()
		},
		"the Set is about to expire": func(ctx context.Context, e *Exchange) error {
			return e.client.rdb.Expire(ctx, e.setKey("sha256:a"), time.Minute).Err()
		},
		"the pointer names another Set": func(ctx context.Context, e *Exchange) error {
			return e.client.rdb.Set(ctx, e.currentKey(), "sha256:x", 0).Err()
		},
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, client *Client) {
				e := exchange(client)
				publish(t, e, "sha256:a", "A")
				if err := damage(t.Context(), e); err != nil {
					t.Fatal(err)
				}
				if !publish(t, e, "sha256:a", "A") {
					t.Error("Publish saw nothing to repair")
				}
				if publish(t, e, "sha256:a", "A") {
					t.Error("Publish had more to repair")
				}
			})
		})
	}
}

func TestSubscribe(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	onBoth(t, subscribes)
}

func subscribes(t *testing.T, client *Client) {
	ctx, cancel := context.WithCancel(t.Context())
	updates := exchange(client).Subscribe(ctx)
	await(t, updates, "")
	publish(t, exchange(client), "sha256:a", "A")
	await(t, updates, "sha256:a")
	publish(t, exchange(client), "sha256:b", "B")
	publish(t, exchange(client), "sha256:c", "C")
	await(t, updates, "sha256:c")
	cancel()
	for range updates { // ends when the channel is closed
	}
}

func TestSubscribeOutlivesRedis(t *testing.T) {
	server := fixture.Redis(t)
	client := open(t, server.URL())
	updates := exchange(client).Subscribe(t.Context())
	await(t, updates, "")
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, updates, "")
	publish(t, exchange(client), "sha256:a", "A")
	await(t, updates, "sha256:a")
}

func TestSubscribeEndsWithItsClient(t *testing.T) {
	client, err := Open(fixture.Redis(t).URL(), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	updates := exchange(client).Subscribe(t.Context())
	await(t, updates, "")
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(patience)
	for n := 0; ; n++ {
		select {
		case _, open := <-updates:
			if !open {
				return
			}
			if n > 100 {
				t.Fatal("it goes on telling that messages may have been missed, without a pause")
			}
		case <-deadline:
			t.Fatalf("the channel is not closed after %v", patience)
		}
	}
}

// await drops what comes before want.
func await(t *testing.T, updates <-chan string, want string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case got, open := <-updates:
			if !open {
				t.Fatalf("the channel was closed before %q came", want)
			}
			if got == want {
				return
			}
		case <-deadline:
			t.Fatalf("%q did not come within %v", want, patience)
		}
	}
}

func TestLoadScripts(t *testing.T) {
	onBoth(t, loadsScripts)
}

func loadsScripts(t *testing.T, client *Client) {
	loaded, err := client.LoadScripts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range loaded {
		names = append(names, s.Name)
		if exist := client.rdb.ScriptExists(t.Context(), s.SHA).Val(); s.LoadedOn != 1 || !cmp.Equal(exist, []bool{true}) {
			t.Errorf("script %s (%s) is loaded on %d primaries; Redis says %v", s.Name, s.SHA, s.LoadedOn, exist)
		}
	}
	if diff := cmp.Diff([]string{
		"spend", "refund", "beat", "replicas", "spend_one_fixed_window", "spend_one_small_sliding_window_log",
		"spend_one_large_sliding_window_log", "spend_one_sliding_window_counter", "spend_one_token_bucket", "spend_one_leaky_bucket",
	}, names); diff != "" {
		t.Errorf("scripts (-want +got):\n%s", diff)
	}
	if spend := SpendScript(); spend.SHA != loaded[0].SHA {
		t.Errorf("SpendScript is %s, Redis holds %s", spend.SHA, loaded[0].SHA)
	}
}

func TestLoadScriptsLoadsWhatIsMissing(t *testing.T) {
	client := open(t, fixture.Redis(t).URL())
	calls := func() int64 { // of SCRIPT LOAD
		info := client.rdb.InfoMap(t.Context(), "commandstats").Item("Commandstats", "cmdstat_script|load")
		return int64(len(info))
	}
	load := func() {
		t.Helper()
		if _, err := client.LoadScripts(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	reset := func() {
		t.Helper()
		if err := client.rdb.ConfigResetStat(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	load()
	reset()
	load()
	if calls() != 0 {
		t.Error("scripts that are there were loaded again")
	}
	if err := client.rdb.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	load()
	if calls() == 0 {
		t.Error("scripts that were lost were not loaded")
	}
}

// TestExchangeOnCluster has one cluster for all, for it takes two seconds to start.
func TestExchangeOnCluster(t *testing.T) {
	client := open(t, cluster(t))
	tests := map[string]func(*testing.T, *Client){
		"publishes":                  publishes,
		"keeps only the current set": keepsOnlyTheCurrentSet,
		"subscribes":                 subscribes,
		"loads scripts":              loadsScripts,
		"knows its replicas":         knowsReplicas,
		"clears":                     clears,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := client.rdb.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			test(t, client)
		})
	}
}
