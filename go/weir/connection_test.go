package weir_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/go/weir"
	"github.com/weir-dev/weir/test/fixture"
)

// Two instances know one address each, and count together: the second request of a tenant is denied, whatever node has its counter.
func TestNewRedis_CountsInTheClusterOfItsOnlyAddress(t *testing.T) {
	cluster := fixture.RedisCluster(t)
	total := 0
	for i := range 2 {
		log := &fixture.LockedBuffer{}
		l, err := weir.NewRedis(cluster.Nodes()[i].URL(), parse(t, perTenant("shop", "1", "")), weir.Timeout(time.Second),
			weir.Log(slog.New(slog.NewTextHandler(log, nil))))
		handler := closing(t, l, err).Handler(ok())
		fixture.Await(t, "the log describes the cluster", func() bool { return strings.Contains(log.String(), "Cluster with 3 primaries") })
		for tenant := range 20 {
			total += served(statuses(handler, fmt.Sprint("tenant-", tenant), 1))
		}
	}
	if total != 20 {
		t.Errorf("%d requests of 20 tenants were served, want one for each", total)
	}
}

func TestNewRedis_LogsAWrongSetUpWithoutARequest(t *testing.T) {
	log := &fixture.LockedBuffer{}
	server := fixture.Redis(t, "--requirepass", "right")
	l, err := weir.NewRedis("redis://:hunter2@"+server.Addr(), parse(t, perTenant("shop", "5", "")), weir.Log(slog.New(slog.NewTextHandler(log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fixture.Await(t, "the log has the way out", func() bool { return strings.Contains(log.String(), "rejects the user or the password") })
	if strings.Contains(log.String(), "hunter2") {
		t.Errorf("the log contains the password:\n%s", log)
	}
}
