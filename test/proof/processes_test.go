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

// ready bounds the start of all processes: a second on an idle machine.
const ready = time.Minute

// TestNeverOverFromSeveralProcesses asks limiters over HTTP. Their answers do not tell when they decided: only that it was
// between question and answer, which the windows are long against.
func TestNeverOverFromSeveralProcesses(t *testing.T) {
	server := fixture.Redis(t)
	sharesTheClock(t, server)
	const (
		units  = 200
		window = 2 * time.Second
		burst  = 40
		calm   = 5 * time.Second / 2
		length = 7 * time.Second
		// steady is what two whole windows promise, less the bounds of each Least and what the doubt about instants costs it.
		steady = 2 * units * 3 / 4
	)
	all := counters(units, window, burst, time.Millisecond)
	urls := limiters(t, server.URL(), all)
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: patient}
	t.Cleanup(web.CloseIdleConnections)
	rounds(t, func(round int) {
		end := time.Now().Add(length)
		journals := make([]journal, len(all))
		var wg sync.WaitGroup
		for client := range clients {
			d := door{web: web, url: urls[client%replicas], tenant: strconv.Itoa(round), units: 1 + int64(client/3%3)}
			wg.Go(func() {
				for n := client; time.Now().Before(end); n++ {
					i := n % len(all)
					r, err := d.ask(t, all[i])
					if err != nil {
						t.Errorf("ask %s: %v", d.url, err)
						return
					}
					journals[i].write(promise.Log{r})
				}
			})
		}
		disturbances := disturb(t.Context(), t, server, end.Add(-calm))
		wg.Wait()
		for i, c := range all {
			c.holds(t, journals[i].log, steady)
			recovers(t, c, journals[i].log, disturbances)
		}
	})
	sharesTheClock(t, server)
}

// limiters starts processes that enforce the counters on one Redis, and returns where they answer.
func limiters(t *testing.T, redisURL string, all []counter) []string {
	t.Helper()
	weir, err := fixture.BuildWeir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	policies := t.TempDir()
	for _, c := range all {
		if err := os.WriteFile(filepath.Join(policies, strings.ToLower(c.String())+".yaml"), []byte(c.policy()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), ready)
	defer cancel()
	var urls []string
	for range replicas {
		var addrs [2]string
		for i := range addrs {
			if addrs[i], err = fixture.FreeAddr(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		fixture.Weir(t, weir, "serve", "--policies", policies, "--redis", redisURL, "--redis-timeout", lateness.String(),
			"--grpc-listen=", "--listen", addrs[0], "--ops-listen", addrs[1])
		if err := fixture.WaitHTTP(ctx, "http://"+addrs[1]+"/readyz", http.StatusOK); err != nil {
			t.Fatal(err)
		}
		urls = append(urls, "http://"+addrs[0])
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections) // those of WaitHTTP
	return urls
}

func (c counter) policy() string {
	burst := ""
	if c.burst > 0 {
		burst = fmt.Sprintf(", burst: %d", c.burst)
	}
	return fmt.Sprintf(`apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: %s, namespace: proof}
spec: {axis: Tenant, algorithm: %s, limit: %d, window: %v%s, onStoreFailure: Deny, match: {http: {paths: [{type: Exact, value: %s}]}}}
`, strings.ToLower(c.String()), c, c.units, c.window, burst, c.path())
}

// door is a client of one limiter.
type door struct {
	web    *http.Client
	url    string
	tenant string
	units  int64
}

// ask asks once. A 503 says that Redis did not answer, or was not asked for that: the request is lost. The policies say
// Deny, so nothing is decided without Redis.
func (d door) ask(t *testing.T, c counter) (promise.Request, error) {
	body, err := json.Marshal(map[string]any{
		"domain": "proof", "method": http.MethodGet, "path": c.path(), "headers": map[string]string{"x-tenant-id": d.tenant}, "cost": d.units,
	})
	if err != nil {
		return promise.Request{}, err
	}
	r := promise.Request{From: micros(), Units: d.units}
	question, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/v1/check", bytes.NewReader(body))
	if err != nil {
		return promise.Request{}, err
	}
	question.Header.Set("Content-Type", "application/json")
	reply, err := d.web.Do(question)
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
		r.Delay, err = delayOf(text, c)
		return r, err
	case http.StatusTooManyRequests:
		r.Outcome = promise.Denied
		time.Sleep(rand.N(10 * time.Millisecond)) // see spendUntil
	case http.StatusServiceUnavailable:
		r.Outcome, r.To = promise.Lost, r.To+lateness.Microseconds()
	default:
		return promise.Request{}, fmt.Errorf("%s: %s", reply.Status, text)
	}
	return r, nil
}

// delayOf is the delay in the answer to an admitted request. That it counted at all, and where, is checked, too.
func delayOf(text []byte, c counter) (microseconds int64, err error) {
	var answer struct {
		Policy, Source string
		DelayMs        int64
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return 0, fmt.Errorf("%w in %s", err, text)
	}
	if answer.Policy != "proof/"+strings.ToLower(c.String()) || answer.Source != "redis" {
		return 0, fmt.Errorf("admitted by policy %q on %q", answer.Policy, answer.Source)
	}
	return answer.DelayMs * time.Millisecond.Microseconds(), nil
}
