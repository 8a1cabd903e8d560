package e2e_test

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

// sequenced returns an encoded rule set with one rule and a sequence.
func sequenced(units int64, onFailure rules.StoreFailure, sequence int64) (data []byte, revision string) {
	data, revision = rules.Encode(rules.Set{Rules: []rules.Rule{{
		Policy: "shop/tenant", Domain: "shop", Axis: "Tenant", Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"},
		Algorithm: limiter.FixedWindow, Units: units, WindowSeconds: 3600, OnStoreFailure: onFailure,
	}}})
	return rules.WithSequence(data, sequence), revision
}

// TestOutage_RulesChangeThroughTheSnapshot loosens and tightens a policy while Redis is not running.
func TestOutage_RulesChangeThroughTheSnapshot(t *testing.T) {
	redis := fixture.Redis(t)
	snapshot := filepath.Join(t.TempDir(), "rules.json.gz")
	var addresses [2]string
	for i := range addresses {
		var err error
		if addresses[i], err = fixture.FreeAddr(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	denying, denyingRevision := sequenced(100, rules.DenyOnFailure, 5)
	save(t, snapshot, denying)
	publish(t, redis.URL(), denying, denyingRevision)
	l := &coldLimiter{T: t, started: time.Now(), ops: "http://" + addresses[1], snapshot: snapshot}
	l.WeirProcess = fixture.Weir(t, buildWeir(t), "limiter", "--grpc-listen=", "--listen", addresses[0], "--ops-listen", addresses[1],
		"--redis", redis.URL(), "--snapshot", snapshot, "--drain", "0s")
	l.awaitReady("ok " + denyingRevision + " from redis\n")
	check := func() int {
		t.Helper()
		response, err := http.Post("http://"+addresses[0]+"/v1/check", "application/json", strings.NewReader(`{"domain":"shop","headers":{"x-tenant-id":"a"}}`))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode
	}
	if got := check(); got != http.StatusOK {
		t.Fatalf("before the outage: status %d", got)
	}
	redis.Kill()
	if got := check(); got != http.StatusServiceUnavailable {
		t.Fatalf("onStoreFailure: Deny in the outage: status %d, want 503", got)
	}

	fromSnapshot := func(data []byte, revision string) {
		t.Helper()
		save(t, snapshot, data)
		l.awaitReady("ok " + revision + " from snapshot " + snapshot + "\n")
	}
	loosened, loosenedRevision := sequenced(100, rules.LocalOnFailure, 6)
	fromSnapshot(loosened, loosenedRevision)
	if got := check(); got != http.StatusOK {
		t.Errorf("loosened: status %d, want 200", got)
	}
	tightened, tightenedRevision := sequenced(1, rules.LocalOnFailure, 7)
	fromSnapshot(tightened, tightenedRevision)
	if got := check(); got != http.StatusTooManyRequests {
		t.Errorf("tightened: status %d, want 429", got)
	}
	save(t, snapshot, loosened) // from a backup

	if err := redis.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	publish(t, redis.URL(), denying, denyingRevision) // what Redis had
	(&testCluster{T: t}).until("the limiter logs that Redis has older rules", func() bool {
		return strings.Contains(l.Log(), "in Redis is older than the active one")
	})
	if status, body := l.readyz(); status != http.StatusOK || body != "ok "+tightenedRevision+" from snapshot "+snapshot+"\n" {
		t.Errorf("/readyz returns %d %q, want the tightened rules", status, body)
	}
	publish(t, redis.URL(), tightened, tightenedRevision)
	l.awaitReady("ok " + tightenedRevision + " from redis\n")
}
