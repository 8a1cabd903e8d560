package redisclient_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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

func TestNew_RejectsKeepingConnectionsWithoutRenewal(t *testing.T) {
	options, err := redisclient.ParseURL("redis://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	options.Timeout = time.Second
	for _, keep := range []time.Duration{time.Second, -time.Second} {
		options.KeepConnections = keep
		if _, err := redisclient.New(options); err == nil {
			t.Errorf("no error for %v", keep)
		}
	}
}

// Connections stay as they are when the credentials change, and are replaced after their time.
func TestKeepConnections_ReplacesThemOnlyAfterTheirTime(t *testing.T) {
	server := fixture.Redis(t)
	proxy := connection.StartExpiring(t, server.Addr(), time.Hour)
	options, err := redisclient.ParseURL("redis://" + proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int64
	options.Credentials = func(context.Context) (username, password string, err error) {
		return "default", strconv.FormatInt(n.Add(1), 10), nil // a server without passwords accepts any
	}
	options.RenewCredentials, options.KeepConnections = 5*time.Millisecond, 500*time.Millisecond
	client := connect(t, options)
	began := time.Now()
	if err := client.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	fixture.Await(t, "the connection is replaced", func() bool { return proxy.Authenticated() >= 2 })
	if took := time.Since(began); took < 450*time.Millisecond || n.Load() < 10 {
		t.Errorf("replaced after %v and %d other credentials, want after 500 ms", took, n.Load())
	}
}

// The password of the Sentinels changes after they have answered, and the file with it.
func TestSentinelCredentials_ChangeWithoutARestart(t *testing.T) {
	server := fixture.Redis(t)
	sentinel := fixture.Sentinel(t, server.Addr())
	do(t, sentinel, "ACL", "SETUSER", "watcher", "on", ">first", "~*", "&*", "+@all")
	options, err := redisclient.ParseURL("redis://" + sentinel.Addr() + "?master=weir")
	if err != nil {
		t.Fatal(err)
	}
	var password atomic.Pointer[string]
	password.Store(new("wrong"))
	options.SentinelCredentials = func(context.Context) (string, string, error) { return "watcher", *password.Load(), nil }
	options.Credentials = func(context.Context) (string, string, error) { return "", "", nil }
	options.RenewCredentials = 10 * time.Millisecond
	client := connect(t, options)
	if err := client.Ping(t.Context()); err == nil {
		t.Fatal("no error with the wrong password for the Sentinel")
	}
	password.Store(new("first"))
	fixture.Await(t, "the client connects with the right password", func() bool { return client.Ping(t.Context()) == nil })
	do(t, sentinel, "ACL", "SETUSER", "watcher", "resetpass", ">second")
	password.Store(new("second"))
	do(t, sentinel, "CLIENT", "KILL", "USER", "watcher")
	fixture.Await(t, "the Sentinel has a connection with the new password", func() bool {
		list, err := sentinel.Do(t.Context(), "CLIENT", "LIST")
		return err == nil && client.Ping(t.Context()) == nil && strings.Contains(fmt.Sprint(list), "user=watcher")
	})
}

func TestCredentials_ErrorsHaveAKindOfTheirOwn(t *testing.T) {
	options, err := redisclient.ParseURL(fixture.Redis(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("the provider is unavailable")
	options.Credentials = func(context.Context) (string, string, error) { return "", "", cause }
	err = connect(t, options).Ping(t.Context())
	if !errors.Is(err, cause) || redisclient.Kind(err) != redisclient.KindCredentials || redisclient.MayHaveRun(err) || !redisclient.IsOutage(err) {
		t.Errorf("%v of kind %q", err, redisclient.Kind(err))
	}
}

func TestNew_FailsWithoutTheCredentialsOfSentinels(t *testing.T) {
	cause := errors.New("no such Secret")
	_, err := redisclient.New(redisclient.Options{
		Mode: redisclient.ModeSentinel, MasterName: "m", Addresses: []string{"127.0.0.1:1"}, Timeout: time.Second,
		SentinelCredentials: func(context.Context) (string, string, error) { return "", "", cause },
	})
	if !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
}

// On a cluster, the connections to each node are replaced, and no call fails meanwhile.
func TestRenewCredentials_ReplacesTheConnectionsToEachNodeOfACluster(t *testing.T) {
	cluster := fixture.RedisCluster(t)
	ids := func() (all []string) { // of the connections of the user
		for _, node := range cluster.Nodes() {
			do(t, node, "ACL", "SETUSER", "weir", "on", "nopass", "~*", "&*", "+@all")
			list, err := node.Do(t.Context(), "CLIENT", "LIST")
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.SplitSeq(fmt.Sprint(list), "\n") {
				if strings.Contains(line, "user=weir") {
					id, _, _ := strings.Cut(line, " ")
					all = append(all, node.Addr()+" "+id)
				}
			}
		}
		return all
	}
	ids()
	options, err := redisclient.ParseURL(cluster.URL())
	if err != nil {
		t.Fatal(err)
	}
	var password atomic.Pointer[string]
	password.Store(new("first"))
	options.Credentials = func(context.Context) (string, string, error) { return "weir", *password.Load(), nil }
	options.RenewCredentials = 10 * time.Millisecond
	client := connect(t, options)
	call := func() {
		for i := range 30 {
			if err := client.Run(t.Context(), redisclient.NewScript("one", "return 1"), []string{strconv.Itoa(i)}).Err(); err != nil {
				t.Errorf("a call: %v", err)
			}
		}
	}
	call()
	before := ids()
	if len(before) < 3 {
		t.Fatalf("connections %v, want one to each primary at least", before)
	}
	password.Store(new("second"))
	fixture.Await(t, "as many new connections, to each node", func() bool { // the old ones wait for calls in flight
		call()
		fresh := slices.DeleteFunc(ids(), func(id string) bool { return slices.Contains(before, id) })
		return len(fresh) >= len(before) && len(nodesOf(fresh)) >= len(nodesOf(before))
	})
}

// nodesOf returns the addresses in a list of address, space, and the ID of a connection.
func nodesOf(connections []string) map[string]bool {
	nodes := map[string]bool{}
	for _, c := range connections {
		address, _, _ := strings.Cut(c, " ")
		nodes[address] = true
	}
	return nodes
}
