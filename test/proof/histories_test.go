package proof

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/limiter/storetest"
	"github.com/weir-dev/weir/test/fixture"
)

// longTimeout is the timeout of calls in tests that do not test timeouts.
const longTimeout = 10 * time.Second

// stepsPerAlgorithm is the number of steps of random histories for each algorithm.
func stepsPerAlgorithm(t testing.TB) int {
	t.Helper()
	if soakFor(t) > 0 {
		return 100_000
	}
	return 5_000
}

func TestHistories_OnRedis(t *testing.T) {
	url := fixture.Redis(t).URL()
	storetest.HistoriesOf(t, func(t testing.TB, clock *storetest.Clock) storetest.Subject {
		return storetest.Subject{Store: redisstore.NewStore(open(t, url, longTimeout), longTimeout, redisstore.WithClock(clock.Now))}
	}, stepsPerAlgorithm(t))
}

func TestHistories_InMemory(t *testing.T) {
	storetest.HistoriesOf(t, func(_ testing.TB, clock *storetest.Clock) storetest.Subject {
		return storetest.Subject{Store: memstore.New(clock.Now)}
	}, stepsPerAlgorithm(t))
}

// It takes fewer steps, because the Lua of miniredis is about ten times slower, and miniredis is for tests only.
func TestHistories_OnMiniredis(t *testing.T) {
	const slower = 10
	storetest.HistoriesOf(t, func(t testing.TB, clock *storetest.Clock) storetest.Subject {
		server := miniredis.RunT(t)
		server.SetTime(clock.Now())
		return storetest.Subject{Store: redisstore.NewStore(open(t, "redis://"+server.Addr(), longTimeout), longTimeout, redisstore.WithClock(clock.Now))}
	}, stepsPerAlgorithm(t)/slower)
}

// open returns a client that is closed when the test ends.
func open(t testing.TB, url string, timeout time.Duration) *redisclient.Client {
	t.Helper()
	client, err := redisclient.Open(url, timeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}
