package reliability

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

const (
	limiters       = 3
	worldReady     = 20 * time.Second // a second on an idle machine
	publishTimeout = 2 * time.Second
	publishPeriod  = time.Second
	pollInterval   = 20 * time.Millisecond
)

// world is several limiter processes on one Redis, and a goroutine that publishes their rules periodically, as the operator does.
type world struct {
	urls     []string
	replicas []*fixture.WeirProcess
	client   *redisclient.Client
	cancel   context.CancelFunc
	operator sync.WaitGroup
}

// startWorld starts limiter processes of the binary at weir, and waits until all of them enforce the policies.
func startWorld(ctx context.Context, weir string, on Setup, all []Policy) (*world, error) {
	w := &world{cancel: func() {}}
	if err := w.start(ctx, weir, on, all); err != nil {
		return nil, errors.Join(fmt.Errorf("start %d limiters on %s: %w", limiters, on.Limiters, err), w.stop())
	}
	return w, nil
}

func (w *world) start(ctx context.Context, weir string, on Setup, all []Policy) error {
	client, err := redisclient.Open(on.Operator, publishTimeout)
	if err != nil {
		return err
	}
	w.client = client
	exchange := controlplane.NewExchange(client, keyPrefix, limiterName)
	published := encoded(ruleSet(nil))
	if _, err := exchange.Publish(ctx, published, false); err != nil {
		return err
	}
	ready, done := context.WithTimeout(ctx, worldReady)
	defer done()
	if err := w.startReplicas(ready, weir, on.Limiters); err != nil {
		return err
	}
	if err := waitFor(ready, exchange, published.Revision); err != nil {
		return err
	}
	// A replica sends a heartbeat when it has new rules, and then reads how many replicas there are. With these rules all replicas know all.
	published = encoded(ruleSet(all))
	if _, err := exchange.Publish(ctx, published, false); err != nil {
		return err
	}
	publishing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w.cancel = cancel
	w.operator.Go(func() {
		tick := time.NewTicker(publishPeriod)
		defer tick.Stop()
		for {
			select {
			case <-publishing.Done():
				return
			case <-tick.C:
				_, _ = exchange.Publish(publishing, published, false) // Redis is broken on purpose
			}
		}
	})
	return waitFor(ready, exchange, published.Revision)
}

// waitFor waits until all limiters report that they enforce a revision.
func waitFor(ctx context.Context, exchange *controlplane.Exchange, revision string) error {
	return fixture.Poll(ctx, pollInterval, func(context.Context) error {
		live, err := exchange.Replicas(ctx)
		current := slices.DeleteFunc(live, func(r controlplane.Replica) bool { return r.Revision != revision })
		if err == nil && len(current) != limiters {
			err = fmt.Errorf("%d limiters report revision %s, want %d", len(current), revision, limiters)
		}
		return err
	})
}

// startReplicas starts the limiter processes and waits until all are ready.
func (w *world) startReplicas(ctx context.Context, weir, redisURL string) (err error) {
	opsURLs := make([]string, limiters)
	for i := range opsURLs {
		if opsURLs[i], err = w.startReplica(ctx, weir, redisURL, i); err != nil {
			return err
		}
	}
	for i, url := range opsURLs {
		if err := fixture.WaitHTTP(ctx, url+"/readyz", http.StatusOK); err != nil {
			return fmt.Errorf("%w; its log:\n%s", err, w.replicas[i].Log())
		}
	}
	return nil
}

// startReplica starts a limiter process and returns the URL of its operational endpoints. It does not wait until the process is ready.
func (w *world) startReplica(ctx context.Context, weir, redisURL string, number int) (opsURL string, err error) {
	listen, err := fixture.FreeAddr(ctx)
	if err != nil {
		return "", err
	}
	ops, err := fixture.FreeAddr(ctx)
	if err != nil {
		return "", err
	}
	process, err := fixture.StartWeir(weir, "limiter", "--limiter", limiterName, "--replica", fmt.Sprintf("replica-%d", number),
		"--redis", redisURL, "--grpc-listen=", "--listen", listen, "--ops-listen", ops, "--drain", "0s")
	if err != nil {
		return "", err
	}
	w.replicas = append(w.replicas, process)
	w.urls = append(w.urls, "http://"+listen)
	return "http://" + ops, nil
}

func (w *world) stop() error {
	defer http.DefaultClient.CloseIdleConnections() // the connections of WaitHTTP
	w.cancel()
	w.operator.Wait()
	var errs []error
	for _, r := range w.replicas {
		errs = append(errs, r.Stop())
	}
	if w.client != nil {
		errs = append(errs, w.client.Close())
	}
	return errors.Join(errs...)
}

// encoded encodes a rule set as the operator publishes it.
func encoded(set rules.Set) rules.Encoded {
	return new(rules.Encoder).Encode(set, func(i int) string { return set.Rules[i].Revision() })
}
