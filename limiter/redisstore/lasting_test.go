package redisstore_test

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/test/fixture"
)

// newCounter returns a charge on another counter with each call, of an hour.
func newCounter(t *testing.T, algorithm limiter.Algorithm, units int64, isCompact bool) func() []limiter.Charge {
	t.Helper()
	limit, err := limiter.NewLimit(algorithm, units, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	keys := limiter.NewKeySpace("weir:", "Tenant", "test/lasting-"+strconv.FormatBool(isCompact), limit)
	if isCompact {
		keys = keys.Compact(limiter.RandomHashKey())
	}
	var n atomic.Int64
	return func() []limiter.Charge {
		return []limiter.Charge{{Key: keys.Key(strconv.FormatInt(n.Add(1), 10), ""), Limit: limit, Cost: 1}}
	}
}

// spendUntil spends on another counter every few milliseconds until an address or a part of it is reported.
func spendUntil(t *testing.T, store *redisstore.Store, charges func() []limiter.Charge, reported <-chan string) (what string, calls int) {
	t.Helper()
	fixture.Await(t, "an outage is reported", func() bool {
		_, _ = store.Spend(t.Context(), charges()) // some fail
		calls++
		select {
		case what = <-reported:
			return true
		case <-time.After(5 * time.Millisecond):
			return false
		}
	})
	return what, calls
}

// A proxy answers everything with an error that has no kind of its own. After a second, that is an outage: requests no longer pay for a round trip.
func TestBreaker_AnyErrorThatLastsIsAnOutage(t *testing.T) {
	t.Parallel()
	for _, reply := range []string{"-upstream failure\r\n", "-CROSSSLOT Keys in request don't hash to the same slot\r\n", "$-1\r\n", "-MOVED 1 \r\n"} {
		t.Run(strings.Fields(reply)[0], func(t *testing.T) {
			t.Parallel()
			outages := newOutageRecorder()
			store := storeWithBreaker(t, fakeRedis(t, reply), outages)
			charges := newCounter(t, limiter.TokenBucket, 10, false)
			began := time.Now()
			spendUntil(t, store, charges, outages.unavailable)
			if took := time.Since(began); took < 900*time.Millisecond || took > 5*time.Second {
				t.Errorf("an outage after %v, want about 1 s", took)
			}
			for range 20 {
				if _, err := store.Spend(t.Context(), charges()); redisclient.Kind(err) != redisclient.KindUnavailable {
					t.Fatalf("a call during the outage: %v", err)
				}
			}
		})
	}
}

// All requests are for one counter, whose calls are held back after the first failures. The probes of the counter show that the error lasts.
func TestBreaker_AnErrorOfTheOnlyCounterThatLastsIsAnOutage(t *testing.T) {
	t.Parallel()
	t.Run("of the node", func(t *testing.T) {
		t.Parallel()
		outages := newOutageRecorder()
		store := storeWithBreaker(t, fakeRedis(t, "-upstream failure\r\n"), outages)
		charges := newCounter(t, limiter.TokenBucket, 10, false)()
		spendUntil(t, store, func() []limiter.Charge { return charges }, outages.unavailable)
	})
	t.Run("of what it needs", func(t *testing.T) {
		t.Parallel()
		server, outages := fixture.Redis(t), newOutageRecorder()
		do(t, server, "ACL", "SETUSER", "default", "-hget")
		store := storeWithBreaker(t, server.URL(), outages)
		charges, others := newCounter(t, limiter.SlidingWindowCounter, 10, true)(), newCounter(t, limiter.TokenBucket, 10, false)
		part, _ := spendUntil(t, store, func() []limiter.Charge {
			awaitSpend(t, store, others())
			return charges
		}, outages.unavailable)
		if want := server.Addr() + " Compact counters of SlidingWindowCounter"; part != want {
			t.Errorf("unavailable is %q, want %q", part, want)
		}
	})
}

func TestBreaker_AnUnknownPrimaryIsUnreachable(t *testing.T) {
	t.Parallel()
	server := fixture.Redis(t)
	sentinel, outages := fixture.Sentinel(t, server.Addr()), newOutageRecorder()
	store := storeWithBreaker(t, "redis://"+sentinel.Addr()+"?master=typo", outages)
	_, err := store.Spend(t.Context(), newCounter(t, limiter.TokenBucket, 10, false)())
	if wantKind(t, err, "unreachable"); err == nil || !strings.Contains(err.Error(), "no Sentinel knows a primary of this name") {
		t.Errorf("%v, want an error that names the cause", err)
	}
	receive(t, outages.unavailable)
}

// A missing permission is an outage of the counters that need it, and of no others. The probe of the node does not need it.
func TestBreaker_AMissingPermissionAffectsWhatNeedsIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		permission string
		algorithm  limiter.Algorithm
		units      int64
		isCompact  bool
		same       bool // the same counter, which has units
		part       string
	}{
		"expiry of blocks":    {permission: "pexpireat", algorithm: limiter.FixedWindow, units: 10, isCompact: true, part: "Compact counters of FixedWindow"},
		"fields":              {permission: "hget", algorithm: limiter.SlidingWindowCounter, units: 10, isCompact: true, part: "Compact counters of SlidingWindowCounter"},
		"parts of large logs": {permission: "setrange", algorithm: limiter.SlidingWindowLog, units: 1000, same: true, part: "large counters of SlidingWindowLog"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, outages := fixture.Redis(t), newOutageRecorder()
			set := func(sign string) { do(t, server, "ACL", "SETUSER", "default", sign+test.permission) }
			set("-")
			store := storeWithBreaker(t, server.URL(), outages)
			failing, others := newCounter(t, test.algorithm, test.units, test.isCompact), newCounter(t, limiter.TokenBucket, 10, false)
			if test.same {
				once := failing()
				failing = func() []limiter.Charge { return once }
			}
			local := 0
			spend := func() []limiter.Charge {
				awaitSpend(t, store, others())
				return failing()
			}
			part, calls := spendUntil(t, store, spend, outages.unavailable)
			if want := server.Addr() + " " + test.part; part != want {
				t.Errorf("unavailable is %q, want %q", part, want)
			}
			if calls < 10 {
				t.Errorf("an outage after %d calls, want more than a second of them", calls)
			}
			for range 50 {
				charge := failing()[0]
				if !store.UnavailableFor(&charge) {
					t.Fatal("UnavailableFor = false for a counter that needs the permission")
				}
				if _, err := store.Spend(t.Context(), []limiter.Charge{charge}); redisclient.Kind(err) != redisclient.KindUnavailable {
					t.Errorf("a call that needs the permission: %v", err)
				}
				other := others()
				if store.UnavailableFor(&other[0]) {
					local++
				} else if _, err := store.Spend(t.Context(), other); err != nil {
					local++
				}
				time.Sleep(time.Millisecond)
			}
			if local > 0 {
				t.Errorf("%d of 50 calls that do not need the permission are not decided in Redis", local)
			}
			set("+")
			if part := receive(t, outages.recovered); part != server.Addr()+" "+test.part {
				t.Errorf("recovered is %q", part)
			}
			awaitSpend(t, store, failing())
			if n := outages.count(); n != 2 {
				t.Errorf("%d notifications, want one outage and its end: %v", n, outages.notifications)
			}
		})
	}
}

// Redis comes back with a password: the probes have another error than the call that began the outage.
func TestBreaker_ReportsTheErrorsOfProbes(t *testing.T) {
	t.Parallel()
	server, outages := fixture.Redis(t), newOutageRecorder()
	store := storeWithBreaker(t, server.URL(), outages)
	charges := newCounter(t, limiter.TokenBucket, 10, false)
	awaitSpend(t, store, charges())
	server.Kill()
	awaitOutage(t, store, charges(), outages)
	probes := func(kind string) int {
		outages.mu.Lock()
		defer outages.mu.Unlock()
		return outages.probes[kind]
	}
	fixture.Await(t, "probes are refused", func() bool { return probes("unreachable") > 3 })
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	receive(t, outages.recovered)
	do(t, server, "CONFIG", "SET", "requirepass", "secret")
	reconnected := storeWithBreaker(t, server.URL(), outages)
	awaitOutage(t, reconnected, charges(), outages)
	fixture.Await(t, "probes are denied", func() bool { return probes("denied") > 3 })
}

// NULL in place of a host means the host that was queried.
func TestSpend_OnAClusterThatReportsNoHosts(t *testing.T) {
	t.Parallel()
	cluster, err := fixture.StartRedisPrimaries(t.Context(), 3, "--cluster-preferred-endpoint-type", "unknown-endpoint")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	store, client := openStore(t, cluster.URL())
	t.Cleanup(func() { _ = client.Close() })
	charges := newCounter(t, limiter.TokenBucket, 10, false)
	for range 100 {
		if d, err := store.Spend(t.Context(), charges()); err != nil || !d[0].Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	moved := charges()
	if _, err := store.Spend(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	if err := cluster.MigrateSlot(t.Context(), moved[0].Key); err != nil {
		t.Fatal(err)
	}
	if d, err := store.Spend(t.Context(), moved); err != nil || d[0].Remaining != 8 {
		t.Errorf("after the slot moved: %+v, %v, want 8 units", d, err)
	}
}
