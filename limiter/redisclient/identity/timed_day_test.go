package identity_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisclient/identity"
	"github.com/weir-dev/weir/limiter/redisclient/identity/aws"
	"github.com/weir-dev/weir/limiter/redisclient/identity/azure"
	"github.com/weir-dev/weir/limiter/redisclient/identity/google"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/connection"
	"github.com/weir-dev/weir/test/latency"
)

const (
	// dayFactor makes a day of 24 hours 16 seconds.
	dayFactor = 5400
	// decisionTimeout is the time that a decision waits for Redis.
	decisionTimeout = 150 * time.Millisecond
	// mostLate is the lateness of this process that a day can contain: half of the time for which a token of AWS is valid after its renewal.
	mostLate = 15 * time.Minute / dayFactor / 4
	// signedLife is how long a signed request of AWS is valid.
	signedLife = 15 * time.Minute
)

// cloud is a stand-in for a provider and for its service.
type cloud struct {
	clock fastClock
	away  atomic.Bool
	admin *redis.Client // of the service

	accepted atomic.Int64 // tokens
}

// service is how a provider and its service treat tokens and connections.
type service struct {
	tokenLife, connectionLife time.Duration
	open                      func(t *testing.T, c *cloud) identity.Provider
}

func services() map[string]service {
	return map[string]service{
		"AWS": {signedLife, 12 * time.Hour, func(t *testing.T, c *cloud) identity.Provider {
			endpoint := c.serve(t, func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"AccessKeyId":"ASIA","SecretAccessKey":"the-secret","Token":"the-session","Expiration":%q}`,
					c.clock.Now().Add(6*time.Hour).UTC().Format(time.RFC3339))
			})
			provider, err := aws.New(aws.Options{Cache: "cache-1", User: "weir", Region: "eu-west-1", Now: c.clock.Now, Getenv: func(name string) string {
				return map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": endpoint}[name]
			}})
			if err != nil {
				t.Fatal(err)
			}
			return provider
		}},
		"Google": {time.Hour, 1000 * time.Hour, func(t *testing.T, c *cloud) identity.Provider {
			var token cachedToken
			endpoint := c.serve(t, func(w http.ResponseWriter, _ *http.Request) {
				value, left := token.get(c.clock.Now(), time.Hour, 5*time.Minute)
				w.Header().Set("Metadata-Flavor", "Google")
				fmt.Fprintf(w, `{"access_token":"ya29.%s","expires_in":%d,"token_type":"Bearer"}`, value, int(left.Seconds()))
			})
			t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(endpoint, "http://"))
			return google.New(google.Options{Now: c.clock.Now})
		}},
		"Azure": {time.Hour, time.Hour, func(t *testing.T, c *cloud) identity.Provider {
			file := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(file, []byte("the-assertion"), 0o600); err != nil {
				t.Fatal(err)
			}
			endpoint := c.serve(t, func(w http.ResponseWriter, _ *http.Request) {
				payload := base64.RawURLEncoding.EncodeToString([]byte(`{"oid":"weir","iat":` + strconv.FormatInt(c.clock.Now().UnixNano(), 10) + `}`))
				fmt.Fprintf(w, `{"token_type":"Bearer","expires_in":3600,"access_token":"h.%s.s"}`, payload)
			})
			provider, err := azure.New(azure.Options{Now: c.clock.Now, Getenv: func(name string) string {
				return map[string]string{
					"AZURE_FEDERATED_TOKEN_FILE": file, "AZURE_CLIENT_ID": "c", "AZURE_TENANT_ID": "t", "AZURE_AUTHORITY_HOST": endpoint,
				}[name]
			}})
			if err != nil {
				t.Fatal(err)
			}
			return provider
		}},
	}
}

// cachedToken is the token of a metadata server, which is the same until shortly before it expires.
type cachedToken struct {
	mu      sync.Mutex
	n       int
	expires time.Time
}

func (c *cachedToken) get(now time.Time, life, margin time.Duration) (value string, left time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !now.Before(c.expires.Add(-margin)) {
		c.n, c.expires = c.n+1, now.Add(life)
	}
	return strconv.Itoa(c.n), c.expires.Sub(now)
}

// serve starts the endpoint of the provider, which fails while the provider is unavailable.
func (c *cloud) serve(t *testing.T, handle http.HandlerFunc) (address string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		handle(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// accepting makes Redis accept each token of a provider as the password of its user until the token expires.
type accepting struct {
	identity.Provider

	t     *testing.T
	cloud *cloud

	mu    sync.Mutex
	known map[string]bool
}

func (a *accepting) Fetch(ctx context.Context) (identity.Credentials, error) {
	c, err := a.Provider.Fetch(ctx)
	if err != nil {
		return c, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known[c.Password] {
		return c, nil
	}
	a.known[c.Password] = true
	a.cloud.accepted.Add(1)
	a.setUser(c.Username, ">"+c.Password)
	timer := time.AfterFunc(a.cloud.clock.real(c.Expires.Sub(a.cloud.clock.Now())), func() { a.setUser(c.Username, "<"+c.Password) })
	a.t.Cleanup(func() { timer.Stop() })
	return c, nil
}

func (a *accepting) setUser(user, password string) {
	err := a.cloud.admin.Do(context.WithoutCancel(a.t.Context()), "ACL", "SETUSER", user, "on", "~*", "&*", "+@all", password).Err()
	if err != nil && a.t.Context().Err() == nil {
		a.t.Errorf("ACL SETUSER: %v", err)
	}
}

// world is a store of decisions whose Redis is a service of a cloud.
type world struct {
	cloud  *cloud
	proxy  *connection.Expiring
	client *redisclient.Client
	store  *failover.Store
	log    *fixture.LockedBuffer
	errors atomic.Int64
}

func newWorld(t *testing.T, s service, factor int64) *world {
	t.Helper()
	server := fixture.Redis(t)
	for _, words := range [][]string{{"ACL", "SETUSER", "admin", "on", "nopass", "~*", "&*", "+@all"}, {"ACL", "SETUSER", "default", "resetpass"}} {
		if _, err := server.Do(t.Context(), words...); err != nil {
			t.Fatal(err)
		}
	}
	admin := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "admin", Password: "any"})
	t.Cleanup(func() { _ = admin.Close() })
	w := &world{cloud: &cloud{clock: newFastClock(factor), admin: admin}, log: &fixture.LockedBuffer{}}
	log := slog.New(slog.NewTextHandler(w.log, nil))
	w.proxy = connection.StartExpiring(t, server.Addr(), w.cloud.clock.real(s.connectionLife))
	options, err := redisclient.ParseURL("redis://" + w.proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	provider := &accepting{Provider: s.open(t, w.cloud), t: t, cloud: w.cloud, known: map[string]bool{}}
	identity.NewSourceWithClock(provider, log, w.cloud.clock).AddTo(&options)
	options.Timeout, options.RenewCredentials = decisionTimeout, 10*time.Millisecond
	options.KeepConnections = w.cloud.clock.real(options.KeepConnections)
	if w.client, err = redisclient.New(options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.client.Close() })
	counters := redisstore.NewStore(w.client, decisionTimeout)
	w.store = failover.New(counters, local.New(1<<20, time.Now), time.Now, log)
	w.store.ObserveCalls(func(_ string, _ time.Duration, err error) {
		if err != nil {
			w.errors.Add(1)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	counters.EnableBreaker(ctx, w.store)
	return w
}

// watchLateness returns a function that stops, and returns the longest time by which this process was late: the processor was taken from it.
func watchLateness() (longest func() time.Duration) {
	const interval = 2 * time.Millisecond
	stop, result := make(chan struct{}), make(chan time.Duration)
	go func() {
		late := time.Duration(0)
		for {
			began := time.Now()
			select {
			case <-stop:
				result <- late
				return
			case <-time.After(interval):
				late = max(late, time.Since(began)-interval)
			}
		}
	}()
	return func() time.Duration {
		close(stop)
		return <-result
	}
}

// charges returns a charge on a counter that never denies.
func charges(t *testing.T) []limiter.Charge {
	t.Helper()
	limit, err := limiter.NewLimit(limiter.TokenBucket, 1_000_000, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return []limiter.Charge{{Key: limiter.NewKeySpace("weir:", "Tenant", "test/day", limit).Key("acme", ""), Limit: limit, Cost: 1}}
}

// decisions are those of callers that decide all the time.
type decisions struct {
	total, local, failed, slowest atomic.Int64
}

func (w *world) decide(t *testing.T, until time.Time, callers int) *decisions {
	t.Helper()
	d := &decisions{}
	one := charges(t)
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for time.Now().Before(until) {
				began := time.Now()
				made, err := w.store.Spend(t.Context(), one)
				took := int64(time.Since(began))
				d.total.Add(1)
				switch {
				case err != nil:
					d.failed.Add(1)
				case made[0].Origin != limiter.OriginStore:
					d.local.Add(1)
				}
				for before := d.slowest.Load(); took > before; before = d.slowest.Load() {
					if d.slowest.CompareAndSwap(before, took) {
						break
					}
				}
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	group.Wait()
	return d
}

// TestDay_TokensExpireWithoutALocalDecision decides for 24 simulated hours. Tokens expire, and services close connections. The provider is unavailable for
// ten minutes every two hours.
func TestDay_TokensExpireWithoutALocalDecision(t *testing.T) { //nolint:tparallel // it waits for other packages
	latency.Alone(t)
	for name, s := range services() {
		w := newWorld(t, s, dayFactor) // sets an environment variable, so not in a parallel test
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slow := latency.Of(t)
			if err := w.client.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			ends := time.Now().Add(24 * time.Hour / dayFactor)
			go func() {
				for time.Now().Before(ends) {
					time.Sleep(w.cloud.clock.real(110 * time.Minute))
					w.cloud.away.Store(true)
					time.Sleep(w.cloud.clock.real(10 * time.Minute))
					w.cloud.away.Store(false)
				}
			}()
			lateness := watchLateness()
			d := w.decide(t, ends, 4)
			late := lateness()
			fail := t.Errorf
			if late > mostLate { // minutes of this clock, in which nothing is renewed
				fail = slow.Errorf
			}
			t.Logf("%d decisions, the slowest took %v; %d tokens, %d authentications; the service closed %d connections; the process was late by %v",
				d.total.Load(), time.Duration(d.slowest.Load()), w.cloud.accepted.Load(), w.proxy.Authenticated(), w.proxy.Expired(), late)
			if d.local.Load() != 0 || d.failed.Load() != 0 || w.errors.Load() != 0 {
				fail("%d decisions local, %d failed, %d calls failed, want 0; the process was late by %v:\n%s", d.local.Load(), d.failed.Load(), w.errors.Load(), late, w.log)
			}
			if slowest := time.Duration(d.slowest.Load()); slowest > decisionTimeout {
				slow.Errorf("the slowest decision took %v, want at most %v", slowest, decisionTimeout)
			}
			// A connection that Azure would close has been replaced, and waits for calls in flight: that takes an hour of this clock.
			if n := w.proxy.Expired(); n != 0 && s.connectionLife > s.tokenLife {
				fail("the service closed %d connections, want that they are replaced before", n)
			}
			if tokens := w.cloud.accepted.Load(); tokens < int64(20*time.Hour/s.tokenLife) {
				t.Errorf("%d tokens in a day, each valid for %v: the test shows nothing", tokens, s.tokenLife)
			}
			if strings.Contains(w.log.String(), "unavailable; every policy") {
				fail("an outage in the log:\n%s", w.log)
			}
			for _, secret := range []string{"the-secret", "the-session", "the-assertion", "X-Amz-Signature", "ya29."} {
				if strings.Contains(w.log.String(), secret) {
					t.Errorf("the log contains %q:\n%s", secret, w.log)
				}
			}
		})
	}
}

// TestOutage_IsLocalModeWithItsReason has an outage of the provider that outlasts the tokens and the connections.
func TestOutage_IsLocalModeWithItsReason(t *testing.T) {
	slow := latency.Of(t)
	latency.Alone(t)
	w := newWorld(t, services()["Azure"], dayFactor)
	fixture.Await(t, "Redis decides", func() bool {
		d := w.decide(t, time.Now().Add(50*time.Millisecond), 4)
		return d.total.Load() > 0 && d.local.Load() == 0 && d.failed.Load() == 0
	})
	w.cloud.away.Store(true)
	fixture.Await(t, "local mode", func() bool {
		_, active := w.store.LocalMode()
		w.decide(t, time.Now().Add(5*time.Millisecond), 1)
		return active
	})
	fixture.Await(t, "the reason", func() bool {
		w.decide(t, time.Now().Add(20*time.Millisecond), 1)
		return strings.Contains(w.log.String(), "kind=credentials")
	})
	d := w.decide(t, time.Now().Add(300*time.Millisecond), 4)
	if d.local.Load() != d.total.Load() || d.failed.Load() != 0 {
		t.Errorf("%d of %d decisions local, %d failed", d.local.Load(), d.total.Load(), d.failed.Load())
	}
	if slowest := time.Duration(d.slowest.Load()); slowest > decisionTimeout {
		slow.Errorf("the slowest decision took %v, want at most %v", slowest, decisionTimeout)
	}
	for _, want := range []string{"credentials for Redis cannot be renewed", "503 Service Unavailable"} {
		if !strings.Contains(w.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, w.log)
		}
	}
	if n := strings.Count(w.log.String(), "kind=credentials"); n > 2 {
		t.Errorf("%d lines with the reason, want one:\n%s", n, w.log)
	}
	w.cloud.away.Store(false)
	fixture.Await(t, "Redis decides", func() bool {
		_, active := w.store.LocalMode()
		return !active
	})
}
