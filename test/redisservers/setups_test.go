package redisservers

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
)

// setup is a Redis, how weir is started with it, and what Weir finds out about it.
type setup struct {
	flags []string // of weir serve and weir redis check

	mode      string // that weir redis check reports
	corrected bool   // one address of a cluster was enough
	primaries int
	missing   []string // optional permissions or commands
	// Weir learns from the first reply CROSSSLOT that the server separates slots.
	separatesSlots bool

	// fail makes Redis unavailable. With recover nil, it becomes available again without help.
	fail, recover func()
	// kinds are those of the errors that can begin the outage.
	kinds []string

	nodes []*fixture.RedisProcess // of a cluster
}

// The kinds of errors of a server that ends.
func ended() []string { return []string{"disconnected", "unreachable"} }

func one(t *testing.T, server *fixture.RedisProcess, flags ...string) setup {
	t.Helper()
	return setup{
		flags: append([]string{"--redis", server.URL()}, flags...), mode: "Standalone", primaries: 1, kinds: ended(),
		fail: server.Kill, recover: func() { restart(t, server) },
	}
}

func restart(t *testing.T, servers ...*fixture.RedisProcess) {
	t.Helper()
	for _, server := range servers {
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func standalone(t *testing.T) setup { return one(t, fixture.Redis(t)) }

// withoutAdminCommands is a server as services offer it.
func withoutAdminCommands(t *testing.T) setup {
	args := []string{}
	for _, command := range []string{"CONFIG", "KEYS", "DEBUG", "ACL", "MONITOR", "SAVE", "BGSAVE", "SHUTDOWN", "REPLICAOF", "CLUSTER"} {
		args = append(args, "--rename-command", command, "")
	}
	return one(t, fixture.Redis(t, args...))
}

// aclUser is a server whose default user is off, and that has the user of docs/reference/redis.md for weir serve.
func aclUser(t *testing.T) setup {
	server := fixture.Redis(t, "--user", "default", "off", "--user", "weir", "on", ">secret", "resetkeys", "~weir:throttle:*", "resetchannels", "&weir:forget", "-@all",
		"+ping", "+info", "+subscribe", "+publish", "+evalsha", "+eval", "+time", "+mget", "+set", "+getrange", "+setrange", "+pexpireat", "+del", "+unlink",
		"+hset", "+hget", "+hgetall", "+hlen", "+hdel", "+pexpire")
	dir := t.TempDir()
	for name, text := range map[string]string{"username": "weir", "password": "secret"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return one(t, server, "--redis-credentials", dir)
}

func encrypted(t *testing.T) setup {
	server, files := fixture.RedisTLS(t, false)
	return one(t, server, "--redis-ca", files.CA)
}

func mutualTLS(t *testing.T) setup {
	server, files := fixture.RedisTLS(t, true)
	return one(t, server, "--redis-ca", files.CA, "--redis-cert", files.ClientCert, "--redis-key", files.ClientKey)
}

// cluster names one of the nodes, as the consoles of services do.
func cluster(primaries int) func(*testing.T) setup {
	return func(t *testing.T) setup {
		c, err := fixture.StartRedisPrimaries(t.Context(), primaries)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Stop() })
		return setup{
			flags: []string{"--redis", c.Nodes()[0].URL()}, mode: "Cluster", corrected: true, primaries: primaries, kinds: append(ended(), "clusterdown"), nodes: c.Nodes(),
			fail: func() {
				for _, node := range c.Nodes() {
					node.Kill()
				}
			},
			recover: func() {
				restart(t, c.Nodes()...)
				if err := c.WaitOK(t.Context()); err != nil {
					t.Fatal(err)
				}
			},
		}
	}
}

// clusterFailover has a replica for each primary, which replaces it.
func clusterFailover(t *testing.T) setup {
	c := fixture.RedisCluster(t)
	return setup{
		flags: []string{"--redis", c.Nodes()[1].URL()}, mode: "Cluster", corrected: true, primaries: 3, kinds: append(ended(), "clusterdown"),
		fail: func() { // all three primaries, so that both processes notice. Two of them cannot be replaced at the same time.
			for _, node := range c.Nodes()[:3] {
				node.Kill()
			}
		},
		recover: func() {
			restart(t, c.Nodes()[1:3]...)
			// At first the restarted nodes do not know that the third one has ended, and report that the cluster is complete.
			for key := 'a'; key <= 'z'; key++ { // on all nodes
				if _, err := c.PrimaryOf(t.Context(), string(key)); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.WaitOK(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func sentinels(t *testing.T) setup {
	g := fixture.RedisSentinel(t)
	return setup{flags: []string{"--redis", g.URL()}, mode: "Sentinel", primaries: 1, kinds: append(ended(), "readonly"), fail: killPrimary(t, g)}
}

func killPrimary(t *testing.T, g *fixture.RedisSentinelGroup) func() {
	return func() {
		if _, err := g.KillPrimary(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// haproxy sends connections to the server that is a primary, which Sentinels choose.
func haproxy(t *testing.T) setup {
	g, addr := fixture.RedisSentinel(t), freeAddr(t)
	var servers strings.Builder
	for i, server := range g.Servers() {
		fmt.Fprintf(&servers, "  server redis-%d %s check inter 200ms fall 2 rise 1 on-marked-down shutdown-sessions\n", i, server.Addr())
	}
	//nolint:dupword // each line of a check begins with its name
	startProxy(t, addr, "haproxy", "haproxy", "-db", "-f", write(t, "haproxy.cfg", `
defaults
  mode tcp
  timeout connect 1s
  timeout client 1h
  timeout server 1h
listen redis
  bind `+addr+`
  option tcp-check
  tcp-check send PING\r\n
  tcp-check expect string +PONG
  tcp-check send info\ replication\r\n
  tcp-check expect string role:master
  tcp-check send QUIT\r\n
  tcp-check expect string +OK
`+servers.String()))
	awaitPrimary(t, addr)
	return setup{flags: []string{"--redis", "redis://" + addr}, mode: "Standalone", primaries: 1, kinds: append(ended(), "timeout", "readonly", "other"), fail: killPrimary(t, g)}
}

// awaitPrimary waits until each connection to addr leads to a primary: HAProxy sends connections to all servers until it has checked them.
func awaitPrimary(t *testing.T, addr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	err := fixture.Poll(ctx, pause, func(ctx context.Context) error {
		for range 3 { // there are three servers, and each gets every third connection
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			if err != nil {
				return err
			}
			defer conn.Close()
			if _, err := conn.Write([]byte("ROLE\r\n")); err != nil {
				return err
			}
			reply := make([]byte, 64)
			if n, err := conn.Read(reply); err != nil || !strings.Contains(string(reply[:n]), "master") {
				return fmt.Errorf("%q, %w", reply[:n], err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// stunnel ends TLS, and chooses the server by the name that the client requests (SNI).
func stunnel(t *testing.T) setup {
	files, err := fixture.WriteTLSFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	wrong, server, addr := fixture.Redis(t, "--requirepass", "other"), fixture.Redis(t), freeAddr(t)
	startProxy(t, addr, "stunnel", "stunnel4", write(t, "stunnel.conf", `foreground = yes
pid =
[default]
accept = `+addr+`
connect = `+wrong.Addr()+`
cert = `+files.ServerCert+`
key = `+files.ServerKey+`
[named]
sni = default:localhost
connect = `+server.Addr()+`
cert = `+files.ServerCert+`
key = `+files.ServerKey+`
`))
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	s := one(t, server)
	s.flags = []string{"--redis", "rediss://localhost:" + port, "--redis-ca", files.CA}
	return s
}

// enterprise is a server that reports that it is one, and rejects calls with keys in several slots, as those of Redis Enterprise do.
func enterprise(t *testing.T) setup {
	node := fixture.RedisClusterNode(t)
	s := one(t, node)
	s.flags = []string{"--redis", "redis://" + startEnterprise(t, node.Addr())}
	s.separatesSlots = true
	s.kinds = append(s.kinds, "clusterdown")
	return s
}

func write(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startProxy runs a program of a Debian package until the test ends, and waits until it listens.
func startProxy(t *testing.T, addr, program, debianPackage string, args ...string) {
	t.Helper()
	path, err := fixture.Program(t.Context(), program, debianPackage)
	if err != nil {
		t.Fatal(err)
	}
	runProxy(t, addr, path, args...)
}

func runProxy(t *testing.T, addr, path string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...) // t.Context() ends before the cleanups run
	var log fixture.LockedBuffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Wait() // killed
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(path), log.String())
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	err := fixture.Poll(ctx, pause, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if err != nil {
		t.Fatalf("%s does not listen: %v", filepath.Base(path), err)
	}
}

// port returns the port of host:port.
func port(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
