package redisclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	miniserver "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

// node is a server that replies as a test demands, where a real Redis would not do so reliably.
type node struct {
	*miniserver.Server

	mu    sync.Mutex
	calls []string // the names of the commands, in lower case
}

// serve returns a node with handlers by the name of their commands. It replies to others that it does not know them.
func serve(t *testing.T, handlers map[string]func(c *miniserver.Peer, args []string)) *node {
	t.Helper()
	server, err := miniserver.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	n := &node{Server: server}
	for name, handle := range handlers {
		err := server.Register(strings.ToUpper(name), func(c *miniserver.Peer, _ string, args []string) {
			n.mu.Lock()
			n.calls = append(n.calls, name)
			n.mu.Unlock()
			handle(c, args)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func (n *node) url() string { return "redis://" + n.Addr().String() }

// count returns the number of calls of a command.
func (n *node) count(name string) (calls int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, call := range n.calls {
		if call == name {
			calls++
		}
	}
	return calls
}

// serveCluster returns the primaries of a cluster that have a third of the slots each. info returns their replies to INFO.
func serveCluster(t *testing.T, info func(primary int) string) []*node {
	t.Helper()
	var nodes []*node
	for i := range 3 {
		nodes = append(nodes, serve(t, map[string]func(*miniserver.Peer, []string){
			"info": func(c *miniserver.Peer, _ []string) { c.WriteBulk(info(i)) },
			"cluster": func(c *miniserver.Peer, _ []string) { // SLOTS
				c.WriteLen(3)
				for j, n := range nodes {
					c.WriteLen(3)
					c.WriteInt(j * 5461)
					c.WriteInt(min(16383, (j+1)*5461-1))
					c.WriteLen(3)
					c.WriteBulk(n.Addr().IP.String())
					c.WriteInt(n.Addr().Port)
					c.WriteBulk(fmt.Sprintf("%040d", j))
				}
			},
		}))
	}
	return nodes
}

func TestClient_SendsACommandOnceIfItsConnectionBreaks(t *testing.T) {
	server := serve(t, map[string]func(*miniserver.Peer, []string){
		"incr":    func(c *miniserver.Peer, _ []string) { c.Close() },
		"evalsha": func(c *miniserver.Peer, _ []string) { c.Close() },
	})
	client := open(t, server.url())
	if err := client.Redis().Incr(t.Context(), "key").Err(); redisclient.Kind(err) != "disconnected" {
		t.Errorf("INCR: %v, want a broken connection", err)
	}
	wantKind(t, client.Run(t.Context(), redisclient.NewScript("one", "return 1"), []string{"key"}).Err(), "disconnected")
	if incr, evalsha := server.count("incr"), server.count("evalsha"); incr != 1 || evalsha != 1 {
		t.Errorf("INCR was sent %d times and EVALSHA %d times, want once", incr, evalsha)
	}
}

// While a slot moves key by key, a script whose keys are on two nodes cannot run on either.
func TestRun_SendsAScriptAgainUntilItsKeysHaveMoved(t *testing.T) {
	left := 5
	server := serve(t, map[string]func(*miniserver.Peer, []string){"evalsha": func(c *miniserver.Peer, _ []string) {
		if left--; left >= 0 {
			c.WriteError("TRYAGAIN Multiple keys request during rehashing of slot")
			return
		}
		c.WriteInt(7)
	}})
	client := open(t, server.url())
	script := redisclient.NewScript("seven", "return 7")
	begin := time.Now()
	if got, err := client.Run(t.Context(), script, []string{"a", "b"}).Int(); err != nil || got != 7 {
		t.Errorf("%d, %v, want the reply after the move", got, err)
	}
	if took := time.Since(begin); took < 5*2*time.Millisecond {
		t.Errorf("sent %d times within %v, want pauses of 2 ms", server.count("evalsha"), took)
	}
	left = 1 << 30 // for as long as the caller waits
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := client.Run(short, script, []string{"a", "b"}).Err(); redisclient.IsOutage(err) && redisclient.Kind(err) != "timeout" || err == nil {
		t.Errorf("%v, want that the keys are moving, or a timeout", err)
	}
}

func TestLoadScripts_LoadsWhatTheServerDoesNotReport(t *testing.T) {
	for name, test := range map[string]struct {
		exist  []int // reply to SCRIPT EXISTS of three scripts
		loaded int
	}{
		"all are missing":                   {[]int{0, 0, 0}, 3},
		"the first is loaded":               {[]int{1, 0, 0}, 2},
		"the second is loaded":              {[]int{0, 1, 0}, 2},
		"all are loaded":                    {[]int{1, 1, 1}, 0},
		"a proxy replies with one element":  {[]int{1}, 2},
		"a proxy replies with no element":   {nil, 3},
		"a proxy replies with two elements": {[]int{0, 1}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			loaded := 0
			server := serve(t, map[string]func(*miniserver.Peer, []string){"script": func(c *miniserver.Peer, args []string) {
				if strings.EqualFold(args[0], "EXISTS") {
					c.WriteLen(len(test.exist))
					for _, e := range test.exist {
						c.WriteInt(e)
					}
					return
				}
				loaded++
				c.WriteBulk(redisclient.NewScript("", args[1]).SHA)
			}})
			scripts := append(testScripts(), redisclient.NewScript("three", "return 3"))
			found, err := open(t, server.url()).LoadScripts(t.Context(), scripts)
			if err != nil || loaded != test.loaded || len(found) != 3 || found[2].LoadedOn != 1 {
				t.Errorf("loaded %d scripts, want %d; %+v, %v", loaded, test.loaded, found, err)
			}
		})
	}
}

func TestLoadScripts_FailsIfAProxyChangesAScript(t *testing.T) {
	server := serve(t, map[string]func(*miniserver.Peer, []string){"script": func(c *miniserver.Peer, args []string) {
		if strings.EqualFold(args[0], "EXISTS") {
			c.WriteLen(0)
			return
		}
		c.WriteBulk(redisclient.NewScript("", args[1]+" ").SHA)
	}})
	_, err := open(t, server.url()).LoadScripts(t.Context(), testScripts())
	if err == nil || !strings.Contains(err.Error(), "load script one: Redis returned SHA") {
		t.Errorf("%v, want an error that names the script", err)
	}
}

func TestInspect_SummarizesAllPrimaries(t *testing.T) {
	versions := []string{"7.2.4", "7.0.15", "8.0.1"}
	nodes := serveCluster(t, func(primary int) string {
		return "redis_version:" + versions[primary] + fmt.Sprintf("\r\nevicted_keys:%d\r\nmaxmemory:100\r\nmaxmemory_policy:allkeys-lru\r\n", 10+primary)
	})
	client := open(t, nodes[0].url()+"?cluster=true")
	for range 5 { // the primaries are inspected at the same time
		found, err := client.Inspect(t.Context())
		if err != nil || found.Primaries != 3 || found.Version != "7.0.15" || found.Evicted != 33 {
			t.Fatalf("%+v, %v; want 3 primaries, the oldest version 7.0.15, and 33 evicted keys", found, err)
		}
		if len(found.Warnings) != 3 || !slices.IsSorted(found.Warnings) {
			t.Errorf("warnings %q, want one for each primary, sorted", found.Warnings)
		}
		for _, n := range nodes {
			if !strings.Contains(strings.Join(found.Warnings, "\n"), n.Addr().String()+": maxmemory-policy") {
				t.Errorf("warnings %q, want one that names %s", found.Warnings, n.Addr())
			}
		}
	}
	versions[1] = "6.0.16"
	_, err := client.Inspect(t.Context())
	if !errors.Is(err, redisclient.ErrTooOld) || !strings.Contains(err.Error(), nodes[1].Addr().String()+": version 6.0.16") {
		t.Errorf("%v, want an error that names %s and its version", err, nodes[1].Addr())
	}
}

// isReloading reports whether a cluster client reloads its topology, or has done so within the 200 ms in which go-redis does not
// repeat it. go-redis starts the goroutine before ReloadState returns.
func isReloading() bool {
	stacks := make([]byte, 1<<20)
	return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("clusterStateHolder).LazyReload.func1"))
}

func awaitNoReload(t *testing.T) {
	t.Helper()
	fixture.Await(t, "go-redis ends its reload", func() bool { return !isReloading() })
}

// A cluster client finds new primaries only when it retries, and it does not.
func TestRefreshTopology_ReloadsAfterErrorsThatShowAnOutage(t *testing.T) {
	nodes := serveCluster(t, func(int) string { return "redis_version:7.2.4\r\n" })
	client := open(t, nodes[0].url()+"?cluster=true")
	if _, err := client.Inspect(t.Context()); err != nil { // loads the topology
		t.Fatal(err)
	}
	reloads := func() (calls int) {
		for _, n := range nodes {
			calls += n.count("cluster")
		}
		return calls
	}
	awaitNoReload(t)
	for _, err := range []error{nil, reply("WRONGTYPE Operation against a key"), reply("NOSCRIPT No matching script")} {
		client.RefreshTopology(t.Context(), err)
		if isReloading() {
			t.Errorf("reloads the topology after %v, the reply of a reachable node", err)
		}
	}
	for _, err := range []error{io.EOF, reply("CLUSTERDOWN Hash slot not served")} {
		before := reloads()
		client.RefreshTopology(t.Context(), err)
		if !isReloading() {
			t.Errorf("does not reload the topology after %v", err)
		}
		fixture.Await(t, "the topology is reloaded after "+err.Error(), func() bool { return reloads() > before })
		awaitNoReload(t)
	}
	server := serve(t, nil)
	open(t, server.url()).RefreshTopology(t.Context(), io.EOF) // does nothing without a cluster
}

func TestCluster_IsTheClientOfAClusterOnly(t *testing.T) {
	for url, want := range map[string]bool{"redis://127.0.0.1:1": false, "redis://127.0.0.1:1?cluster=true": true, "redis://127.0.0.1:1?cluster=false": false, "redis://127.0.0.1:1?master=a": false} {
		client := open(t, url)
		cluster, ok := client.Cluster()
		if ok != want || (cluster != nil) != want {
			t.Errorf("%s: %v, %v, want %v", url, cluster, ok, want)
		}
	}
	if _, err := redisclient.Open("redis://127.0.0.1:1?cluster=maybe", time.Second); err == nil || !strings.Contains(err.Error(), "must be true or false") {
		t.Errorf("cluster=maybe: %v", err)
	}
}

func TestNew_BoundsDialsAndIdleConnections(t *testing.T) {
	for timeout, dial := range map[time.Duration]time.Duration{100 * time.Millisecond: 250 * time.Millisecond, time.Second: 2 * time.Second} {
		client, err := redisclient.Open("redis://127.0.0.1:1", timeout)
		if err != nil {
			t.Fatal(err)
		}
		single, ok := client.Redis().(*redis.Client)
		if !ok {
			t.Fatalf("a client of type %T", client.Redis())
		}
		options := single.Options()
		if options.DialTimeout != dial || options.ReadTimeout != timeout || options.WriteTimeout != timeout || options.PoolTimeout != timeout {
			t.Errorf("a timeout of %v: %v for a dial, %v, %v and %v, want %v and otherwise %v", timeout,
				options.DialTimeout, options.ReadTimeout, options.WriteTimeout, options.PoolTimeout, dial, timeout)
		}
		// Load balancers of clouds drop connections that are idle for 350 s or less. go-redis replaces 0 by half an hour.
		if idle := options.ConnMaxIdleTime; idle < time.Minute || idle > 340*time.Second {
			t.Errorf("connections are closed when idle for %v", idle)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestRunEach_LooksForNewPrimariesIfANodeFails(t *testing.T) {
	nodes := serveCluster(t, func(int) string { return "redis_version:7.2.4\r\n" })
	reloads := func() (calls int) {
		for _, n := range nodes {
			calls += n.count("cluster")
		}
		return calls
	}
	for _, n := range nodes {
		if err := n.Register("EVALSHA", func(c *miniserver.Peer, _ string, _ []string) { c.Close() }); err != nil {
			t.Fatal(err)
		}
	}
	client := open(t, nodes[0].url()+"?cluster=true")
	if _, err := client.Inspect(t.Context()); err != nil { // loads the topology
		t.Fatal(err)
	}
	cluster, _ := client.Cluster()
	before := reloads()
	results, _ := redisclient.RunEach(t.Context(), client, cluster, redis.NewCmd, 1, func(int) (redisclient.Script, []string, []any) {
		return redisclient.NewScript("one", "return 1"), []string{"key"}, nil
	})
	if kind := redisclient.Kind(results[0].Err()); kind != "disconnected" {
		t.Errorf("kind %q of %v", kind, results[0].Err())
	}
	fixture.Await(t, "the topology is reloaded", func() bool { return reloads() > before })
	awaitNoReload(t)
}
