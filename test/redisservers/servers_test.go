package redisservers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

func TestServers_DecideAllRequestsAndComeBack(t *testing.T) {
	weir := build(t)
	for _, test := range []struct {
		name  string
		start func(*testing.T) setup
	}{
		{"one server", standalone},
		{"one server without administrative commands", withoutAdminCommands},
		{"one server with an ACL user", aclUser},
		{"a cluster of three primaries", cluster(3)},
		{"a cluster of one primary", cluster(1)},
		{"a cluster with replicas", clusterFailover},
		{"Sentinels", sentinels},
		{"HAProxy in front of servers with Sentinels", haproxy},
		{"stunnel with SNI", stunnel},
		{"a server that hides that it separates slots", enterprise},
	} {
		t.Run(test.name, func(t *testing.T) { checkServer(t, weir, test.start(t)) })
	}
}

// Some servers are built without TLS.
func TestServersWithTLS_DecideAllRequestsAndComeBack(t *testing.T) {
	weir := build(t)
	t.Run("of the server", func(t *testing.T) { checkServer(t, weir, encrypted(t)) })
	t.Run("with client certificates", func(t *testing.T) { checkServer(t, weir, mutualTLS(t)) })
}

func build(t *testing.T) string {
	t.Helper()
	weir, err := fixture.BuildWeir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return weir
}

// checkServer verifies what weir redis check reports, that two processes share a limit, and that an outage has a cause in the log and ends.
func checkServer(t *testing.T, weir string, s setup) {
	t.Helper()
	r, status := redisCheck(t, weir, s.flags)
	t.Logf("weir redis check: %s", &r)
	if status != 0 || !r.Usable || r.Server.Mode != s.mode || r.Server.Corrected != s.corrected || r.Server.Primaries != s.primaries ||
		!slices.Equal(r.missing(), s.missing) {
		t.Fatalf("weir redis check: status %d, %s; want %s, corrected %t, %d primaries", status, &r, s.mode, s.corrected, s.primaries)
	}
	w := newWorld(t, weir, s.flags)
	w.checkSharedLimit("acme", false)
	for i, process := range w.processes {
		if got := strings.Contains(process.Log(), "CROSSSLOT"); got != s.separatesSlots {
			t.Errorf("process %d logs that the server separates slots: %t", i, got)
		}
	}
	began := time.Now()
	s.fail()
	w.awaitLocalMode()
	localAfter := time.Since(began)
	for i := range w.processes {
		fixture.Await(t, fmt.Sprintf("process %d logs a cause of the kinds %v", i, s.kinds), func() bool {
			log := w.outageLog(i)
			return slices.ContainsFunc(s.kinds, func(kind string) bool { return strings.Contains(log, "kind="+kind) })
		})
	}
	began = time.Now()
	if s.recover != nil {
		s.recover()
	}
	w.awaitRedis()
	t.Logf("local mode after %v, its end %v after the failure ended; log:\n%s", localAfter.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), w.outageLog(0))
	w.checkSharedLimit("after the outage", true)
}

// twemproxy closes a connection that sends HELLO. Weir reports it before the first request.
func TestTwemproxy_IsReportedAtStart(t *testing.T) {
	server, addr := fixture.Redis(t), freeAddr(t)
	startProxy(t, addr, "nutcracker", "nutcracker", "--stats-port", port(t, freeAddr(t)), "--conf-file", write(t, "nutcracker.yml", `
redis:
  listen: `+addr+`
  hash: fnv1a_64
  distribution: ketama
  redis: true
  servers:
   - `+server.Addr()+`:1
`))
	weir := build(t)
	flags := []string{"--redis", "redis://" + addr}
	const want = "closed the connection during the handshake"
	if r, status := redisCheck(t, weir, flags); status != 1 || !strings.Contains(r.String(), want) {
		t.Errorf("weir redis check: status %d, %s", status, &r)
	}
	w := newWorld(t, weir, flags)
	fixture.Await(t, "the log names the cause", func() bool { return strings.Contains(w.processes[0].Log(), want) })
	w.awaitLocalMode()
}
