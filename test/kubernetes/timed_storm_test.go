package kubernetes

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/latency"
)

// stormDuration is the duration of the storm: five seconds, or the value of WEIR_SOAK, in which 1 means ten minutes.
func stormDuration() (time.Duration, error) {
	switch soak := os.Getenv("WEIR_SOAK"); soak {
	case "":
		return 5 * time.Second, nil
	case "1":
		return 10 * time.Minute, nil
	default:
		return time.ParseDuration(soak)
	}
}

// Tenants flood both API servers, and Redis fails and recovers repeatedly. Exempt users write all the time.
func TestStorm_ExemptLoseNoRequest(t *testing.T) {
	latency.Alone(t)
	w := newWorld(t)
	lasts := mustGet[time.Duration](t)(stormDuration())
	namespace := mustGet[string](t)(w.Namespace(t.Context(), "acme"))
	const limit = 10 // so few that a slow machine reaches it while Redis is available
	p := policy("storm", v1alpha1.AxisTenant, limit, "1m", nil)
	strict := policy("storm-closed", v1alpha1.AxisTenant, limit, "1m", func(s *v1alpha1.ClusterRateLimitPolicySpec) {
		s.OnStoreFailure = v1alpha1.StoreFailureDeny // rejects limited writes while Redis is unavailable
	})
	must(t, w.Enforce(t.Context(), Person("alice"), configMap(namespace), p, strict))

	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var storm sync.WaitGroup
	var passed, denied, refused atomic.Int64
	for _, c := range bothClients(t, w, pipeline("some")) {
		storm.Go(func() {
			repeatEvery(ctx, 10*time.Millisecond, func() {
				switch err := writeAndDelete(t.Context(), c, namespace); {
				case err == nil:
					passed.Add(1)
				case IsDenied(err):
					denied.Add(1)
				default:
					refused.Add(1)
				}
			})
		})
	}
	var tried, lost atomic.Int64
	for name, who := range exemptIdentities() {
		for server, c := range bothClients(t, w, who) {
			storm.Go(func() {
				repeatEvery(ctx, 100*time.Millisecond, func() {
					tried.Add(1)
					if err := writeAndDelete(t.Context(), c, namespace); err != nil {
						lost.Add(1)
						t.Errorf("%s, by API server %d: %v", name, server, err)
					}
				})
			})
		}
	}
	outages := 0
	repeatEvery(ctx, lasts/6, func() {
		w.Redis.Kill()
		sleep(ctx, lasts/12)
		if err := w.Redis.Restart(t.Context()); err != nil {
			t.Error(err)
		}
		outages++
	})
	storm.Wait()
	t.Logf("%v, Redis failed %d times: of %d writes by exempt users %d were lost; of the tenant's %d passed, %d were denied, %d rejected",
		lasts, outages, tried.Load(), lost.Load(), passed.Load(), denied.Load(), refused.Load())
	if outages < 2 || denied.Load() == 0 || refused.Load() == 0 || tried.Load() < int64(lasts/time.Second) {
		t.Error("too few outages, denials or writes for a storm")
	}
}

func writeAndDelete(ctx context.Context, c client.Client, namespace string) error {
	m := configMap(namespace)
	if err := c.Create(ctx, m); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	return c.Delete(ctx, m)
}

// repeatEvery calls do at this interval until ctx is done. It waits for the last call.
func repeatEvery(ctx context.Context, pause time.Duration, do func()) {
	for ctx.Err() == nil {
		do()
		sleep(ctx, pause)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
