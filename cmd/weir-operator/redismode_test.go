package main

import (
	"slices"
	"testing"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

// A Limiter with one address of a Redis Cluster, and no mode.
func TestLimiterStore_PublishesInTheClusterOfTheOnlyAddress(t *testing.T) {
	cluster := fixture.RedisCluster(t)
	for _, node := range cluster.Nodes() {
		limiter := &v1alpha1.Limiter{}
		limiter.Namespace, limiter.Name = "weir-system", "default"
		limiter.Spec.Redis.Addresses = []v1alpha1.RedisAddress{v1alpha1.RedisAddress(node.Addr())}
		store, err := limiterStores{prefix: "weir:", namespace: "weir-system"}.open(limiter)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		redis, err := store.Inspect(t.Context())
		if err != nil || redis.Primaries != 3 {
			t.Errorf("%d primaries, %v, want 3", redis.Primaries, err)
		}
		scripts, err := store.LoadScripts(t.Context())
		if err != nil || slices.ContainsFunc(scripts, func(s publish.Script) bool { return s.LoadedOn != 3 }) {
			t.Errorf("scripts %v, %v", scripts, err)
		}
		if _, err := store.Publish(t.Context(), rules.Encoded{Revision: "sha256:a", Data: []byte("A"), Whole: true}, false); err != nil {
			t.Error(err)
		}
	}
}
