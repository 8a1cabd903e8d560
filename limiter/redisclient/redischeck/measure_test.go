package redischeck_test

import (
	"strings"
	"testing"
	"time"

	miniserver "github.com/alicebob/miniredis/v2/server"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisclient/redischeck"
	"github.com/weir-dev/weir/test/fixture"
)

func TestMeasure_ComparesTheClockInTheFastestCall(t *testing.T) {
	server, clock := fixture.RedisWithClock(t)
	if err := clock.Shift(-time.Hour); err != nil {
		t.Fatal(err)
	}
	measured, err := redischeck.Measure(t.Context(), open(t, server.URL()), 20)
	if err != nil || len(measured) != 1 {
		t.Fatalf("%v, %v", measured, err)
	}
	m := measured[0]
	if m.Clock.Primary != server.Addr() || (m.Clock.Ahead+time.Hour).Abs() > time.Second {
		t.Errorf("clock %+v, want an hour behind", m.Clock)
	}
	if len(m.Trips) != 20 || m.Trips[0] <= 0 || m.Trips[0] > m.Trips[19] {
		t.Errorf("round trips %v, want 20, sorted", m.Trips)
	}
}

func TestMeasure_AsksEachPrimary(t *testing.T) {
	client := open(t, fixture.RedisCluster(t).URL())
	measured, err := redischeck.Measure(t.Context(), client, 3)
	if err != nil || len(measured) != 3 || measured[0].Clock.Primary >= measured[1].Clock.Primary {
		t.Errorf("%v, %v", measured, err)
	}
	if !redischeck.FullCoverage(t.Context(), client) {
		t.Error("full coverage is not reported, which is the default of Redis")
	}
}

func TestMeasure_NamesANodeThatAnnouncesNoHost(t *testing.T) {
	node := fixture.RedisClusterNode(t)
	client := open(t, node.URL()+"?cluster=true")
	measured, err := redischeck.Measure(t.Context(), client, 1)
	if err != nil || measured[0].Clock.Primary != node.Addr() {
		t.Errorf("%v, %v, want %s", measured, err, node.Addr())
	}
	do(t, node, "CONFIG", "SET", "cluster-require-full-coverage", "no")
	if redischeck.FullCoverage(t.Context(), client) {
		t.Error("full coverage is reported")
	}
}

func TestMeasure_FailsWithoutRedis(t *testing.T) {
	server := fixture.Redis(t)
	server.Kill()
	_, err := redischeck.Measure(t.Context(), open(t, server.URL()), 1)
	if kind := redisclient.Kind(err); kind != redisclient.KindUnreachable {
		t.Errorf("kind %q of %v", kind, err)
	}
	if !strings.Contains(err.Error(), "measure round trips") {
		t.Error(err)
	}
}

// A proxy can reply to TIME in place of the server.
func TestMeasure_IgnoresAReplyThatIsNoTime(t *testing.T) {
	server, err := miniserver.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	reply := []string{"1795782400", "1795782400000000"}
	for name, handle := range map[string]miniserver.Cmd{
		"PING": func(c *miniserver.Peer, _ string, _ []string) { c.WriteInline("PONG") },
		"TIME": func(c *miniserver.Peer, _ string, _ []string) { c.WriteStrings(reply) },
	} {
		if err := server.Register(name, handle); err != nil {
			t.Fatal(err)
		}
	}
	measured, err := redischeck.Measure(t.Context(), open(t, "redis://"+server.Addr().String()), 1)
	if err != nil || len(measured) != 1 || measured[0].Clock.Ahead != 0 {
		t.Errorf("%+v, %v", measured, err)
	}
	reply[1] = "999999"
	measured, err = redischeck.Measure(t.Context(), open(t, "redis://"+server.Addr().String()), 1)
	if err != nil || len(measured) != 1 || measured[0].Clock.Ahead == 0 {
		t.Errorf("with a time of another day: %+v, %v", measured, err)
	}
}
