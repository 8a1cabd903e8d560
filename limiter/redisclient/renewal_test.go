package redisclient_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/connection"
)

const (
	tokenLife = 600 * time.Millisecond
	tokens    = 12
)

// issue makes the server accept token number n and the one before.
func issue(t *testing.T, server *fixture.RedisProcess, n int) string {
	t.Helper()
	token := fmt.Sprint("token-", n)
	words := []string{"ACL", "SETUSER", "weir", "on", "~*", "&*", "+@all", ">" + token}
	if n >= 2 {
		words = append(words, fmt.Sprint("<token-", n-2))
	}
	do(t, server, words...)
	return token
}

// expiringTokens runs commands over several connections while tokens expire, and returns the number of failed commands, of connections that expired,
// and the longest command.
func expiringTokens(t *testing.T, change func(*redisclient.Options)) (failed int64, expired int64, longest time.Duration) {
	t.Helper()
	server := fixture.Redis(t)
	var token atomic.Pointer[string]
	token.Store(new(issue(t, server, 0)))
	proxy := connection.StartExpiring(t, server.Addr(), tokenLife)
	options, err := redisclient.ParseURL("redis://" + proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	options.Credentials = func(context.Context) (username, password string, err error) {
		return "weir", *token.Load(), nil
	}
	change(&options)
	client := connect(t, options)
	var failures, slowest atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				if err := client.Run(context.WithoutCancel(ctx), redisclient.NewScript("one", "return 1"), []string{"key"}).Err(); err != nil {
					failures.Add(1)
				}
				for took := int64(time.Since(began)); ; {
					if before := slowest.Load(); took <= before || slowest.CompareAndSwap(before, took) {
						break
					}
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	for n := 1; n < tokens; n++ {
		time.Sleep(tokenLife / 2)
		token.Store(new(issue(t, server, n)))
	}
	stop()
	callers.Wait()
	return failures.Load(), proxy.Expired(), time.Duration(slowest.Load())
}

func TestRenewCredentials_KeepsConnectionsWhoseTokensExpire(t *testing.T) {
	failed, expired, longest := expiringTokens(t, func(o *redisclient.Options) { o.RenewCredentials = 20 * time.Millisecond })
	t.Logf("%d tokens: %d commands failed, %d connections expired while they were idle, the longest command took %v", tokens, failed, expired, longest)
	if failed != 0 {
		t.Errorf("%d commands failed, want that each connection is authenticated again before its token expires", failed)
	}
	if failed, expired, _ := expiringTokens(t, func(*redisclient.Options) {}); expired == 0 {
		t.Errorf("without renewal, %d commands failed and no connection expired: the test shows nothing", failed)
	}
}

func TestRenewCredentials_KeepsConnectionsWhileTheProviderIsUnavailable(t *testing.T) {
	server := fixture.Redis(t)
	token := issue(t, server, 0)
	options, err := redisclient.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	var away atomic.Bool
	var calls atomic.Int64
	options.Credentials = func(context.Context) (username, password string, err error) {
		calls.Add(1)
		if away.Load() {
			return "", "", errors.New("the provider is unavailable")
		}
		return "weir", token, nil
	}
	options.RenewCredentials = 10 * time.Millisecond
	client := connect(t, options)
	if err := client.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	away.Store(true)
	before := calls.Load()
	fixture.Await(t, "the client asks the provider", func() bool { return calls.Load() > before+3 })
	if err := client.Ping(t.Context()); err != nil {
		t.Errorf("an open connection: %v", err)
	}
}

func TestNew_RejectsRenewalWithoutCredentials(t *testing.T) {
	options, err := redisclient.ParseURL("redis://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	options.Timeout = time.Second
	for _, interval := range []time.Duration{time.Second, -time.Second} {
		options.RenewCredentials = interval
		if _, err := redisclient.New(options); err == nil {
			t.Errorf("no error for %v", interval)
		}
	}
}
