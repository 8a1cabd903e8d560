package redischeck_test

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

func open(t *testing.T, url string) *redisclient.Client {
	t.Helper()
	client, err := redisclient.Open(url, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func do(t *testing.T, server *fixture.RedisProcess, words ...string) {
	t.Helper()
	if _, err := server.Do(t.Context(), words...); err != nil {
		t.Fatal(err)
	}
}
