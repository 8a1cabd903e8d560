package controlplane

import (
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

// patience bounds the wait for something that takes milliseconds on an idle machine.
const patience = 20 * time.Second

// onRedis runs test on an empty server.
func onRedis(t *testing.T, test func(t *testing.T, client *redisclient.Client)) {
	t.Helper()
	test(t, open(t, fixture.Redis(t).URL()))
}

// hack/demo uses miniredis if there is no redis-server.
func TestExchange_WorksOnMiniredis(t *testing.T) {
	for name, test := range exchanges() {
		t.Run(name, func(t *testing.T) { test(t, open(t, "redis://"+miniredis.RunT(t).Addr())) })
	}
}

func open(t *testing.T, url string) *redisclient.Client {
	t.Helper()
	client, err := redisclient.Open(url, 5*time.Second)
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

func exchange(client *redisclient.Client) *Exchange {
	return NewExchange(client, "weir:", "weir-system/default")
}

func publish(t *testing.T, e *Exchange, revision, data string) (changed bool) {
	t.Helper()
	changed, err := e.Publish(t.Context(), rules.Encoded{Revision: revision, Data: []byte(data)}, false)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func TestScripts_AreLoadedUnderTheirNames(t *testing.T) {
	onRedis(t, loadsScripts)
}

func loadsScripts(t *testing.T, client *redisclient.Client) {
	loaded, err := client.LoadScripts(t.Context(), Scripts())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range loaded {
		names = append(names, s.Name)
		if s.LoadedOn != 1 {
			t.Errorf("script %s is loaded on %d primaries, want 1", s.Name, s.LoadedOn)
		}
	}
	if got := fmt.Sprint(names); got != "[heartbeat replicas superseded]" {
		t.Errorf("scripts %s, want [heartbeat replicas superseded]", got)
	}
}

// exchanges are the tests that run on every kind of Redis.
func exchanges() map[string]func(*testing.T, *redisclient.Client) {
	return map[string]func(*testing.T, *redisclient.Client){
		"publish":               publishes,
		"keep only the current": keepsOnlyTheCurrentSet,
		"subscribe":             subscribes,
		"load scripts":          loadsScripts,
		"list replicas":         listsReplicas,
		"clear":                 clears,
		"expire shards":         expiresShards,
		"restore shards":        restoresShards,
	}
}

// One cluster for all tests, because it takes two seconds to start.
func TestExchange_WorksOnACluster(t *testing.T) { //nolint:tparallel // the subtests share the node
	t.Parallel()
	node := fixture.RedisClusterNode(t)
	client := open(t, node.URL()+"?addr="+node.Addr())
	for name, test := range exchanges() {
		t.Run(name, func(t *testing.T) {
			if err := client.Redis().FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			test(t, client)
		})
	}
}
