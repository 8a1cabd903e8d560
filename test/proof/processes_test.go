package proof

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/proof/promise"
)

// startTimeout bounds the start of all processes, which takes a second on an idle machine.
const startTimeout = time.Minute

// The replies do not contain the instants of decisions: they are between request and reply. The windows are long in
// comparison.
func TestLimiter_KeepsThePromisesFromSeveralProcesses(t *testing.T) {
	server := fixture.Redis(t)
	checkClock(t, server)
	const (
		units  = 100
		window = time.Second
		burst  = 20
		calm   = 3 * time.Second / 2
		length = 3 * time.Second
		// steady is the promise of two whole windows, less the precision of MinCounted and of the instants.
		steady = 2 * units * 3 / 4
	)
	all := withCompact(counters(units, window, burst, time.Millisecond))
	urls := limiters(t, server.URL(), all)
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: longTimeout}
	t.Cleanup(web.CloseIdleConnections)
	rounds(t, func(round int) {
		end := time.Now().Add(length)
		journals := make([]journal, len(all))
		var wg sync.WaitGroup
		for client := range clients {
			d := checkClient{web: web, url: urls[client%replicas], tenant: strconv.Itoa(round), units: 1 + int64(client/3%3)}
			wg.Go(func() {
				for n := client; time.Now().Before(end); n++ {
					i := n % len(all)
					r, err := d.check(t, all[i])
					if err != nil {
						t.Errorf("check with %s: %v", d.url, err)
						return
					}
					journals[i].write(promise.Log{r})
				}
			})
		}
		disturbances := disturb(t.Context(), t, server, end.Add(-calm))
		wg.Wait()
		for i, c := range all {
			c.checkLog(t, countedTwice(journals[i].log, disturbances), steady)
			checkRecovery(t, c, journals[i].log, disturbances)
		}
	})
	checkClock(t, server)
}

// limiters starts processes that enforce the counters with one Redis, and returns their URLs.
func limiters(t *testing.T, redisURL string, all []counter) []string {
	t.Helper()
	weir, err := fixture.BuildWeir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	policies, key := writePolicies(t, all), filepath.Join(t.TempDir(), "hash-key")
	if err := os.WriteFile(key, []byte(hashKey), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	var urls []string
	for range replicas {
		var addrs [2]string
		for i := range addrs {
			if addrs[i], err = fixture.FreeAddr(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		fixture.Weir(t, weir, "serve", "--policies", policies, "--redis", redisURL, "--redis-timeout", maxLateness.String(), "--hash-key", key,
			"--grpc-listen=", "--listen", addrs[0], "--ops-listen", addrs[1])
		if err := fixture.WaitHTTP(ctx, "http://"+addrs[1]+"/readyz", http.StatusOK); err != nil {
			t.Fatal(err)
		}
		urls = append(urls, "http://"+addrs[0])
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections) // connections of WaitHTTP
	return urls
}

// writePolicies writes the policies of the counters to a directory.
func writePolicies(t *testing.T, all []counter) string {
	t.Helper()
	directory := t.TempDir()
	for _, c := range all {
		if err := os.WriteFile(filepath.Join(directory, strings.ToLower(c.String())+".yaml"), []byte(c.policy()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return directory
}

func (c counter) policy() string {
	options := ""
	if c.burst > 0 {
		options = fmt.Sprintf(", burst: %d", c.burst)
	}
	if c.lease != "" {
		options += ", lease: " + c.lease
	}
	if c.isCompact {
		options += ", storage: Compact"
	}
	return fmt.Sprintf(`apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: %s, namespace: proof}
spec: {axis: Tenant, algorithm: %s, limit: %d, window: %v%s, onStoreFailure: Deny, match: {http: {paths: [{type: Exact, value: %s}]}}}
`, strings.ToLower(c.String()), c.algorithm, c.units, c.window, options, c.path())
}

// checkClient is a client of the HTTP check endpoint of one limiter.
type checkClient struct {
	web    *http.Client
	url    string
	tenant string
	units  int64
}

// check sends one check. Status 503 means that Redis did not reply or was unavailable: the request is lost. The policies have
// onStoreFailure Deny, so nothing is decided locally.
func (d checkClient) check(t *testing.T, c counter) (promise.Request, error) {
	body, err := json.Marshal(map[string]any{
		"domain": "proof", "method": http.MethodGet, "path": c.path(), "headers": map[string]string{"x-tenant-id": d.tenant}, "cost": d.units,
	})
	if err != nil {
		return promise.Request{}, err
	}
	r := promise.Request{From: micros(), Units: d.units}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/v1/check", bytes.NewReader(body))
	if err != nil {
		return promise.Request{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	reply, err := d.web.Do(request)
	if err != nil {
		return promise.Request{}, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	r.To = micros()
	if err != nil {
		return promise.Request{}, err
	}
	switch reply.StatusCode {
	case http.StatusOK:
		r.Delay, err = parseDelay(text, c)
		return r, err
	case http.StatusTooManyRequests:
		r.Outcome = promise.Denied
		time.Sleep(rand.N(10 * time.Millisecond)) // see spendUntil
	case http.StatusServiceUnavailable:
		r.Outcome, r.To = promise.Lost, r.To+maxLateness.Microseconds()
	default:
		return promise.Request{}, fmt.Errorf("%s: %s", reply.Status, text)
	}
	return r, nil
}

// parseDelay returns the delay of an admitted request. It also checks the policy and the source of the decision.
func parseDelay(text []byte, c counter) (microseconds int64, err error) {
	var decision struct {
		Policy, Source string
		DelayMs        int64
	}
	if err := json.Unmarshal(text, &decision); err != nil {
		return 0, fmt.Errorf("%w in %s", err, text)
	}
	fromLease := decision.Source == "lease" && c.lease != ""
	if fromLease {
		c.fromLeases.Add(1)
	}
	if decision.Policy != "proof/"+strings.ToLower(c.String()) || decision.Source != "redis" && !fromLease {
		return 0, fmt.Errorf("admitted by policy %q from source %q", decision.Policy, decision.Source)
	}
	return decision.DelayMs * time.Millisecond.Microseconds(), nil
}
