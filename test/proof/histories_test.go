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

// patient is a timeout for calls that do not test timeouts.
const patient = 10 * time.Second

// stepsOfEach is how many steps under each algorithm random histories take.
func stepsOfEach(t testing.TB) int {
	t.Helper()
	if soakFor(t) > 0 {
		return 100_000
	}
	return 5_000
}

func TestHistoriesOnRedis(t *testing.T) {
	url := fixture.Redis(t).URL()
	storetest.HistoriesOf(t, func(t testing.TB, clock *storetest.Clock) storetest.Subject {
		return storetest.Subject{Store: redisstore.NewStore(open(t, url, patient), patient, redisstore.WithClock(clock.Now))}
	}, stepsOfEach(t))
}

func TestHistoriesInMemory(t *testing.T) {
	storetest.HistoriesOf(t, func(_ testing.TB, clock *storetest.Clock) storetest.Subject {
		return storetest.Subject{Store: memstore.New(clock.Now)}
	}, stepsOfEach(t))
}

// TestHistoriesOnMiniredis takes fewer steps: its Lua is some ten times slower, and not what anybody runs.
func TestHistoriesOnMiniredis(t *testing.T) {
	const slower = 10
	storetest.HistoriesOf(t, func(t testing.TB, clock *storetest.Clock) storetest.Subject {
		server := miniredis.RunT(t)
		server.SetTime(clock.Now())
		return storetest.Subject{Store: redisstore.NewStore(open(t, "redis://"+server.Addr(), patient), patient, redisstore.WithClock(clock.Now))}
	}, stepsOfEach(t)/slower)
}

// open connects to a Redis until the test ends.
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
