package redisclient_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"
	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

func do(t testing.TB, server *fixture.RedisProcess, words ...string) {
	t.Helper()
	if _, err := server.Do(t.Context(), words...); err != nil {
		t.Fatal(err)
	}
}

func TestDiscover_UsesTheClusterOfANode(t *testing.T) {
	cluster := fixture.RedisCluster(t)
	for i, node := range cluster.Nodes() { // also replicas
		client := open(t, node.URL())
		found, err := client.Discover(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := client.Cluster(); !ok || found.Mode != redisclient.ModeCluster || !found.Corrected || found.Primaries != 3 || found.Replicas != 3 {
			t.Errorf("node %d: %+v", i, found)
		}
		for j := range 20 { // on all primaries
			if err := client.Redis().Set(t.Context(), fmt.Sprint("key", j), "", 0).Err(); err != nil {
				t.Error(err)
			}
		}
		if client.Name() != "" {
			t.Errorf("name %q of a cluster", client.Name())
		}
	}
	if found, err := open(t, cluster.URL()).Discover(t.Context()); err != nil || found.Corrected || found.Mode != redisclient.ModeCluster {
		t.Errorf("with the right mode: %+v, %v", found, err)
	}
}

func TestDiscover_UsesAClusterOfOneNode(t *testing.T) {
	client := open(t, fixture.RedisClusterNode(t).URL())
	found, err := client.Discover(t.Context())
	if _, ok := client.Cluster(); err != nil || !ok || found.Primaries != 1 {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestDiscover_UsesAClusterThatReportsNoHosts(t *testing.T) {
	cluster := fixture.RedisCluster(t)
	for _, node := range cluster.Nodes() {
		do(t, node, "CONFIG", "SET", "cluster-preferred-endpoint-type", "unknown-endpoint")
	}
	client := open(t, cluster.Nodes()[0].URL())
	if found, err := client.Discover(t.Context()); err != nil || found.Primaries != 3 {
		t.Fatalf("%+v, %v", found, err)
	}
	for i := range 20 {
		if err := client.Redis().Set(t.Context(), fmt.Sprint("key", i), "", 0).Err(); err != nil {
			t.Error(err)
		}
	}
}

func TestClient_BecomesThatOfAClusterAfterAReplyOfOne(t *testing.T) {
	cluster := fixture.RedisCluster(t)
	for name, call := range map[string]func(*redisclient.Client, string){
		"a command": func(c *redisclient.Client, key string) { _ = c.Redis().Get(t.Context(), key).Err() },
		"a pipeline": func(c *redisclient.Client, key string) {
			pipe := c.Redis().Pipeline()
			pipe.Get(t.Context(), key)
			_, _ = pipe.Exec(t.Context())
		},
		"a script": func(c *redisclient.Client, key string) {
			_ = c.Run(t.Context(), redisclient.NewScript("one", "return 1"), []string{key}).Err()
		},
	} {
		client := open(t, cluster.Nodes()[0].URL())
		for i := range 20 {
			call(client, fmt.Sprint("key", i))
		}
		fixture.Await(t, name+" makes the client use the cluster", func() bool {
			_, ok := client.Cluster()
			return ok
		})
	}
}

func TestDiscover_DescribesTheServer(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want redisclient.Server
	}{
		"defaults of the tests": {nil, redisclient.Server{Databases: 16, Eviction: "noeviction", Persistence: redisclient.PersistenceOff}},
		"settings": {
			[]string{"--databases", "3", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru", "--appendonly", "yes", "--save", "3600 1"},
			redisclient.Server{Databases: 3, MaxMemory: 100 << 20, Eviction: "allkeys-lru", Persistence: "RDB and AOF"},
		},
		"CONFIG is forbidden": {
			[]string{"--save", "3600 1", "--user", "default", "on", "nopass", "~*", "&*", "+@all", "-config"},
			redisclient.Server{Eviction: "noeviction", Persistence: redisclient.PersistenceOff},
		},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := open(t, fixture.Redis(t, test.args...).URL()).Discover(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if found.Version == "" || found.UsedMemory == 0 || !strings.Contains(found.String(), found.Version+", Standalone") {
				t.Errorf("%s: %+v", found.String(), found)
			}
			test.want.Product, test.want.Version, test.want.UsedMemory = found.Product, found.Version, found.UsedMemory
			test.want.Mode, test.want.Primaries, test.want.RESP3 = redisclient.ModeStandalone, 1, true
			if diff := cmp.Diff(test.want, found); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDiscover_AcceptsAServerThatReportsNothing(t *testing.T) {
	for name, url := range map[string]string{
		"miniredis": "redis://" + miniredis.RunT(t).Addr(),
		"a proxy that knows PING only": serve(t, map[string]func(*miniserver.Peer, []string){
			"ping": func(c *miniserver.Peer, _ []string) { c.WriteInline("PONG") },
		}).url(),
	} {
		found, err := open(t, url).Discover(t.Context())
		if err != nil || found.Mode != redisclient.ModeStandalone || found.Primaries != 1 {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}
}

// Forks report the version of Redis with which they are compatible, and their own in another field. The replies are those of the servers.
func TestDiscover_NamesTheProduct(t *testing.T) {
	for info, want := range map[string]string{
		"redis_version:7.0.15\r\nredis_mode:standalone":                                "Redis 7.0.15, Standalone",
		"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2":            "Valkey 9.1.2, Standalone",
		"redict_version:7.3.6\r\nredict_mode:standalone\r\nredis_version:7.2.4":        "Redict 7.3.6, Standalone",
		"redis_version:7.4.0\r\ndragonfly_version:df-v1.30.0\r\nredis_mode:standalone": "Dragonfly df-v1.30.0, Standalone",
	} {
		found, err := open(t, serve(t, map[string]func(*miniserver.Peer, []string){
			"ping": func(c *miniserver.Peer, _ []string) { c.WriteInline("PONG") },
			"info": func(c *miniserver.Peer, _ []string) { c.WriteBulk(info) },
		}).url()).Discover(t.Context())
		if err != nil || found.String() != want {
			t.Errorf("%q: %q, %v, want %q", info, found.String(), err, want)
		}
	}
	err := discover(t, serve(t, map[string]func(*miniserver.Peer, []string){
		"ping": func(c *miniserver.Peer, _ []string) { c.WriteInline("PONG") },
		"info": func(c *miniserver.Peer, _ []string) { c.WriteBulk("redict_version:7.3.6\r\nredict_mode:sentinel") },
	}).url())
	wantAdvice(t, "a Sentinel of Redict without HELLO", err, "is a Sentinel")
}

// A proxy that forwards INFO to a node of a cluster, without CLUSTER SLOTS, is used as one server.
func TestDiscover_KeepsAProxyForACluster(t *testing.T) {
	proxy := serve(t, map[string]func(*miniserver.Peer, []string){
		"ping": func(c *miniserver.Peer, _ []string) { c.WriteInline("PONG") },
		"info": func(c *miniserver.Peer, _ []string) { c.WriteBulk("redis_version:7.2.4\r\nredis_mode:cluster\r\n") },
	})
	client := open(t, proxy.url())
	found, err := client.Discover(t.Context())
	if _, ok := client.Cluster(); err != nil || ok || found.Mode != redisclient.ModeStandalone {
		t.Errorf("%+v, %v", found, err)
	}
}

// Envoy's proxy for Redis reports the nodes of its cluster, which only Envoy may reach.
func TestDiscover_KeepsAProxyThatExecutesCommandsOfAllSlots(t *testing.T) {
	for name, test := range map[string]struct {
		rejects string // the last key, so that the others alone do not show that the server is a node
		proxy   bool
	}{
		"a proxy": {"", true},
		"a node":  {"weir-check-63", false},
	} {
		node := serve(t, map[string]func(*miniserver.Peer, []string){
			"ping": func(c *miniserver.Peer, _ []string) { c.WriteInline("PONG") },
			"info": func(c *miniserver.Peer, _ []string) { c.WriteBulk("redis_version:7.2.4\r\nredis_mode:cluster\r\n") },
			"cluster": func(c *miniserver.Peer, _ []string) {
				c.WriteLen(2)
				for i, first := range []int{0, 8192} {
					c.WriteLen(3)
					c.WriteInt(first)
					c.WriteInt(first + 8191)
					c.WriteLen(3)
					c.WriteBulk("127.0.0.1")
					c.WriteInt(1) // nothing listens
					c.WriteBulk(fmt.Sprint("id", i))
				}
			},
			"get": func(c *miniserver.Peer, args []string) {
				if args[0] == test.rejects {
					c.WriteError("MOVED 1 127.0.0.1:1")
					return
				}
				c.WriteNull()
			},
		})
		client := open(t, node.url())
		found, err := client.Discover(t.Context())
		if test.proxy {
			if err != nil || found.Mode != redisclient.ModeStandalone {
				t.Errorf("%s: %+v, %v", name, found, err)
			}
			continue
		}
		wantAdvice(t, name, err, "an address that it announces for its nodes is not usable")
	}
}

// wantAdvice fails the test unless err is a SetupError with each of the texts.
func wantAdvice(t *testing.T, name string, err error, texts ...string) {
	t.Helper()
	setup, ok := errors.AsType[*redisclient.SetupError](err)
	if !ok {
		t.Errorf("%s: error %v, want a SetupError", name, err)
		return
	}
	for _, text := range texts {
		if !strings.Contains(setup.Advice, text) {
			t.Errorf("%s: advice %q, want it to contain %q", name, setup.Advice, text)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%s: the error contains the password: %v", name, err)
	}
}

func discover(t *testing.T, url string, change ...func(*redisclient.Options)) error {
	t.Helper()
	options, err := redisclient.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range change {
		change(&options)
	}
	_, err = connect(t, options).Discover(t.Context())
	return err
}

func at(address, credentials string) string { return "redis://" + credentials + address }

func TestDiscover_ExplainsCredentials(t *testing.T) {
	server := fixture.Redis(t, "--requirepass", "right")
	do(t, server, "AUTH", "right")
	wantAdvice(t, "no password", discover(t, at(server.Addr(), "")), server.Addr(), "requires a password", "--redis-credentials", "credentialsSecretRef")
	wantAdvice(t, "wrong password", discover(t, at(server.Addr(), ":hunter2@")), server.Addr(), "rejects the user or the password")
	wantAdvice(t, "unknown user", discover(t, at(server.Addr(), "me:hunter2@")), server.Addr(), "rejects the user or the password")
	if err := discover(t, at(server.Addr(), ":right@")); err != nil {
		t.Errorf("right password: %v", err)
	}
}

func TestDiscover_ExplainsTheWrongServer(t *testing.T) {
	group := fixture.RedisSentinel(t)
	primary, err := group.Primary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range group.Servers() {
		if server != primary {
			wantAdvice(t, "a replica", discover(t, server.URL()), server.Addr()+" is a replica of "+primary.Addr(), "address of the primary")
		}
	}
	sentinel, sentinels := group.SentinelAddrs()[0], strings.Replace(strings.Join(group.SentinelAddrs(), "&addr="), "&", "?", 1)
	for name, url := range map[string]string{
		"a Sentinel":                              at(sentinel, ""),
		"a Sentinel, with a password":             at(sentinel, ":hunter2@"),
		"a Sentinel, with a user":                 at(sentinel, "me:hunter2@"),
		"a Sentinel, with a database":             at(sentinel, "") + "/3",
		"Sentinels in place of nodes":             at(sentinels, ""),
		"Sentinels in place of nodes, with users": at(sentinels, "me:hunter2@"),
	} {
		wantAdvice(t, name, discover(t, url), " is a Sentinel that monitors "+group.MasterName(), "add master="+group.MasterName(), "spec.redis.masterName")
	}
	wantAdvice(t, "another name", discover(t, at(sentinels, "")+"&master=typo"), `does not monitor "typo"`, group.MasterName())
	wantAdvice(t, "a server in place of a Sentinel", discover(t, at(primary.Addr(), "")+"?master=weir"), "not a Sentinel")
	wantAdvice(t, "no cluster", discover(t, at(primary.Addr(), "")+"?cluster=true"), "not a node of a Redis Cluster", "remove cluster=true")
	wantAdvice(t, "no such database", discover(t, at(primary.Addr(), "")+"/99"), "has no database 99")
	if err := discover(t, group.URL()); err != nil {
		t.Errorf("Sentinels: %v", err)
	}
}

func TestDiscover_ExplainsAClusterThatCannotBeUsed(t *testing.T) {
	node := fixture.RedisClusterNode(t)
	wantAdvice(t, "a database", discover(t, node.URL()+"/1"), "use database 0")
	do(t, node, "ACL", "SETUSER", "weir", "on", ">hunter2", "~*", "&*", "+@all", "-cluster")
	wantAdvice(t, "without permission", discover(t, at(node.Addr(), "weir:hunter2@")), "+cluster|slots and +asking")
	do(t, node, "CONFIG", "SET", "cluster-announce-ip", "127.0.0.2", "cluster-announce-port", "1")
	wantAdvice(t, "an address that is not reachable", discover(t, node.URL()), "an address that it announces", "cluster-announce-ip")
	do(t, node, "CLUSTER", "FLUSHSLOTS")
	wantAdvice(t, "without slots", discover(t, node.URL()), "without slots")
}

func TestDiscover_ExplainsTLS(t *testing.T) {
	encrypted, files := fixture.RedisTLS(t, false)
	mutual, mutualFiles := fixture.RedisTLS(t, true)
	plain := fixture.Redis(t)
	trust := func(files *fixture.TLSFiles) func(*redisclient.Options) {
		return func(o *redisclient.Options) {
			config, err := files.ClientConfig()
			if err != nil {
				t.Fatal(err)
			}
			o.TLS = config
		}
	}
	short := func(o *redisclient.Options) { o.Timeout = time.Second }
	wantAdvice(t, "redis:// to TLS", discover(t, at(encrypted.Addr(), ""), short), "requires TLS", "use rediss://")
	wantAdvice(t, "redis:// to TLS with client certificates", discover(t, at(mutual.Addr(), ""), short), "requires TLS")
	options, err := redisclient.ParseURL("rediss://" + plain.Addr())
	if err != nil {
		t.Fatal(err)
	}
	options.Timeout = time.Second
	client, err := redisclient.New(options)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.Discover(t.Context())
	wantAdvice(t, "rediss:// to plain", err, "does not use TLS", "use redis://")
	wantAdvice(t, "unknown CA", discover(t, encrypted.URL()), "is not trusted", "--redis-ca")
	wantAdvice(t, "no client certificate", discover(t, mutual.URL(), trust(mutualFiles), func(o *redisclient.Options) { o.TLS.Certificates = nil }), "client certificate")
	wantAdvice(t, "another name", discover(t, encrypted.URL(), trust(files), func(o *redisclient.Options) { o.TLS.ServerName = "other.example" }), "not valid for this name")
	if err := discover(t, encrypted.URL(), trust(files)); err != nil {
		t.Errorf("TLS: %v", err)
	}
}

func TestDiscover_ExplainsHTTP(t *testing.T) {
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	plain, encrypted := httptest.NewServer(handler), httptest.NewUnstartedServer(handler)
	encrypted.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	encrypted.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(encrypted.Close)
	trust := func(o *redisclient.Options) { o.TLS = &tls.Config{InsecureSkipVerify: true} }
	for name, url := range map[string]string{
		"HTTP": "redis://" + plain.Listener.Addr().String(), "rediss:// to HTTP": "rediss://" + plain.Listener.Addr().String(),
		"HTTPS": "redis://" + encrypted.Listener.Addr().String(), "HTTP in place of a node": "redis://" + plain.Listener.Addr().String() + "?cluster=true",
		"HTTP in place of a Sentinel": "redis://" + plain.Listener.Addr().String() + "?master=weir",
	} {
		wantAdvice(t, name, discover(t, url), "is an HTTP server, not Redis")
	}
	wantAdvice(t, "rediss:// to HTTPS", discover(t, "rediss://"+encrypted.Listener.Addr().String(), trust), "is an HTTP server, not Redis")
}

func TestDiscover_KeepsTheErrorOfAnUnavailableRedis(t *testing.T) {
	server := fixture.Redis(t)
	server.Kill()
	err := discover(t, server.URL())
	if _, ok := errors.AsType[*redisclient.SetupError](err); ok {
		t.Errorf("a SetupError: %v", err)
	}
	wantKind(t, err, "unreachable")
}

func TestDiscover_EndsWithItsContext(t *testing.T) {
	server := fixture.Redis(t)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Resume() }()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	client, err := redisclient.Open(server.URL(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Discover(ctx); err == nil {
		t.Error("no error")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}
