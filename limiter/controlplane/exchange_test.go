package controlplane

import (
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

// patience bounds the wait for something that takes milliseconds on an idle machine.
const patience = 20 * time.Second

// onBoth runs test on an empty miniredis and on an empty redis-server.
func onBoth(t *testing.T, test func(t *testing.T, client *redisclient.Client)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) { test(t, open(t, "redis://"+miniredis.RunT(t).Addr())) })
	t.Run("redis-server", func(t *testing.T) { test(t, open(t, fixture.Redis(t).URL())) })
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
	changed, err := e.Publish(t.Context(), revision, []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func TestScripts_AreLoadedUnderTheirNames(t *testing.T) {
	onBoth(t, loadsScripts)
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
	if got := fmt.Sprint(names); got != "[heartbeat replicas]" {
		t.Errorf("scripts %s, want [heartbeat replicas]", got)
	}
}

// One cluster for all tests, because it takes two seconds to start.
func TestExchange_WorksOnACluster(t *testing.T) {
	node := fixture.RedisClusterNode(t)
	client := open(t, node.URL()+"?addr="+node.Addr())
	tests := map[string]func(*testing.T, *redisclient.Client){
		"publish":               publishes,
		"keep only the current": keepsOnlyTheCurrentSet,
		"subscribe":             subscribes,
		"load scripts":          loadsScripts,
		"list replicas":         listsReplicas,
		"clear":                 clears,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := client.Redis().FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			test(t, client)
		})
	}
}
