package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/test/fixture"
)

// The process is one of two replicas: its share of 10 units is 5.
func TestCountersGet_PrintsTheShareWhileRedisIsUnavailable(t *testing.T) {
	unused, err := fixture.FreeAddr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir, log := t.TempDir(), &Transcript{}
	save(t, filepath.Join(dir, "policies.yaml"), onFailure("Local")+onFailure("Allow"))
	counters, socket := countersOf("weir:"), "unix:"+filepath.Join(dir, "admin.sock")
	counters.replicas = 2
	launch(t, func(ctx context.Context) error {
		f := serveFlags{policies: dir, redis: "redis://" + unused, counters: counters, sockets: anyPort, admin: adminFlags{listen: socket}}
		return runServe(ctx, f, log, log.Logger())
	})
	base := find(t, log, `at (http://\S+)/v1/check`)
	spent := int64(0)
	for _, want := range []admin.Counter{{}, {Limit: 5, Used: 2, Remaining: 3}, {Limit: 5, Used: 5, Over: true}} {
		for ; spent < want.Used; spent++ {
			check(t, base, `{"domain":"shop","path":"/local","headers":{"x-tenant-id":"acme"}}`)
		}
		status, stdout, stderr := runWithInput(t, "", "counters", "get", "acme", "--admin", socket, "-o", "json")
		var list admin.CounterList
		if err := json.Unmarshal([]byte(stdout), &list); err != nil || status != 0 {
			t.Fatalf("status %d, %v: %s%s", status, err, stdout, stderr)
		}
		if want.Used == 0 {
			if len(list.Counters) != 0 {
				t.Errorf("an unused share: %+v", list.Counters)
			}
			continue
		}
		if len(list.Counters) != 1 {
			t.Fatalf("%+v, want the counter of one policy", list.Counters)
		}
		c := list.Counters[0]
		if c.Limit != want.Limit || c.Used != want.Used || c.Remaining != want.Remaining || c.Over != want.Over || !c.Local {
			t.Errorf("%+v, want %+v of the local share", c, want)
		}
		if _, stdout, stderr := runWithInput(t, "", "counters", "get", "acme", "--admin", socket); !strings.Contains(stdout, "5 per 1h") || !strings.Contains(stdout, "local share") {
			t.Errorf("%s%s", stdout, stderr)
		}
	}
	_, stdout, _ := runWithInput(t, "", "explain", "--domain", "shop", "--path", "/local", "-H", "x-tenant-id: acme", "--admin", socket, "-o", "json")
	var explained admin.Explanation
	if err := json.Unmarshal([]byte(stdout), &explained); err != nil || len(explained.Policies) == 0 {
		t.Fatalf("%v: %s", err, stdout)
	}
	for _, p := range explained.Policies {
		if p.Charge != nil && (*p.Charge.Used != 5 || *p.Charge.Remaining != 0) {
			t.Errorf("explain: %s", stdout)
		}
	}
}
