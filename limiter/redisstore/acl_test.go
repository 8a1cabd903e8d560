package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/bypass"
	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/limiter/redisstore/bypasses"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

// documentedACL returns the arguments of the ACL SETUSER command for user in docs/reference/redis.md, beginning with the name.
func documentedACL(t *testing.T, user string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "ACL SETUSER "+user+" ")
	if !found {
		t.Fatalf("docs/reference/redis.md has no ACL for %s", user)
	}
	command, _, _ := strings.Cut(after, "\n\n")
	command, _, _ = strings.Cut(command, "\n```")
	command = strings.ReplaceAll(command, "\\\n", " ")
	return append([]string{user}, strings.Fields(command)...)
}

// supportedACL returns the documented arguments, without read-only patterns on a server before Redis 7.0.
func supportedACL(t *testing.T, server *fixture.RedisProcess, user string) []string {
	t.Helper()
	arguments := documentedACL(t, user)
	if major(t, server) < 7 {
		for i := range arguments {
			arguments[i] = strings.Replace(arguments[i], "%R~", "~", 1)
		}
	}
	return arguments
}

func major(t *testing.T, server *fixture.RedisProcess) (version int) {
	t.Helper()
	info, err := server.Do(t.Context(), "INFO", "server")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(fmt.Sprint(info), "redis_version:")
	if _, err := fmt.Sscanf(after, "%d.", &version); err != nil {
		t.Fatal(err)
	}
	return version
}

// operate calls everything that an operator calls.
func operate(ctx context.Context, client *redisclient.Client, _ time.Duration) error {
	exchange := controlplane.NewExchange(client, "weir:", "weir-system/default")
	_, errReplicas := exchange.Replicas(ctx) // with a script that is not loaded yet
	_, errLoad := client.LoadScripts(ctx, slices.Concat(redisstore.Scripts(), controlplane.Scripts()))
	_, errFirst := exchange.Publish(ctx, rules.Encoded{Revision: "sha256:a", Data: []byte("A"), Whole: true}, false)
	_, errSecond := exchange.Publish(ctx, rules.Encoded{Revision: "sha256:b", Data: []byte("B"), Whole: true}, false) // lets the first one expire
	_, errInspect := client.Inspect(ctx)
	return errors.Join(errReplicas, errLoad, errFirst, errSecond, errInspect, client.Ping(ctx), exchange.Leave(ctx), exchange.Clear(ctx))
}

func everyAlgorithm() []limiter.Algorithm {
	return limiter.Algorithms()
}

// enforce calls everything that a limiter calls. It waits that long for subscriptions.
func enforce(ctx context.Context, client *redisclient.Client, patience time.Duration) error {
	exchange := controlplane.NewExchange(client, "weir:", "weir-system/default")
	_, errCurrent := exchange.Current(ctx)
	errs := []error{
		errCurrent, subscribe(ctx, exchange, patience), followInvalidations(ctx, client, patience), exchange.Remove(ctx, "a"),
		exchange.Heartbeat(ctx, controlplane.Replica{ID: "a"}), client.Ping(ctx),
	}
	store := redisstore.NewStore(client, longTimeout, redisstore.WithInvalidations(redisstore.InvalidationChannel("weir:")))
	for _, algorithm := range everyAlgorithm() {
		errs = append(errs, spendAndRefund(ctx, store, algorithm, false))
		if algorithm.HasCompact() {
			errs = append(errs, spendAndRefund(ctx, store, algorithm, true))
		}
	}
	errs = append(errs, spendTogether(ctx, store))
	shared := bypasses.New(client, "weir:weir-system/default:")
	errSave := shared.Save(ctx, []bypass.Bypass{bypassOf("one", time.Now())})
	_, errLoad := shared.Load(ctx)
	return errors.Join(append(errs, errSave, errLoad)...)
}

// withoutPermission is how long a test waits for a subscription that must not start: one that starts does so in less than a
// millisecond. A subscription that must start can take longTimeout.
const withoutPermission = 100 * time.Millisecond

// subscribe returns an error if a subscription to revisions does not start.
func subscribe(ctx context.Context, exchange *controlplane.Exchange, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-exchange.Subscribe(ctx):
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// followInvalidations returns an error if a subscription to invalidations does not start.
func followInvalidations(ctx context.Context, client *redisclient.Client, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	started := false
	redisstore.FollowInvalidations(ctx, client, redisstore.InvalidationChannel("weir:"), func(string) {}, func(string) {}, func() {
		started = true
		cancel()
	})
	if !started {
		return errors.New("no subscription to invalidations")
	}
	return nil
}

// spendAndRefund fills a counter, raises and lowers its limit, refunds units, and resets it.
func spendAndRefund(ctx context.Context, store *redisstore.Store, algorithm limiter.Algorithm, isCompact bool) error {
	var errs []error
	var key string
	for _, units := range []int64{4, 1000, 3} {
		limit, err := limiter.NewLimit(algorithm, units, time.Hour)
		if err != nil {
			return err
		}
		keys := limiter.NewKeySpace("weir:weir-system/default:", "Tenant", "test/acl", limit)
		if isCompact {
			keys = keys.Compact(limiter.RandomHashKey())
		}
		key = keys.Key("acme", "")
		charge := limiter.Charge{Key: key, Limit: limit, Cost: 1}
		for range 3 {
			decisions, err := store.Spend(ctx, []limiter.Charge{charge})
			if err != nil {
				return err
			}
			if decisions[0].Allowed {
				errs = append(errs, store.Refund(ctx, []limiter.Refund{{Key: key, Limit: limit, Cost: 1, At: decisions[0].At}}))
			}
			_, err = store.Spend(ctx, []limiter.Charge{charge})
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, store.Reset(ctx, []string{key}, ""))...)
}

// spendTogether decides charges on two counters, which one command reads.
func spendTogether(ctx context.Context, store *redisstore.Store) error {
	var charges []limiter.Charge
	for _, policy := range []string{"test/acl-a", "test/acl-b"} {
		limit, err := limiter.NewLimit(limiter.DefaultAlgorithm, 10, time.Hour)
		if err != nil {
			return err
		}
		key := limiter.NewKeySpace("weir:weir-system/default:", "Tenant", policy, limit).Key("acme", "")
		charges = append(charges, limiter.Charge{Key: key, Limit: limit, Cost: 1})
	}
	_, err := store.Spend(ctx, charges)
	return err
}

func TestDocumentedACL_GrantsExactlyTheRequiredPermissions(t *testing.T) { //nolint:tparallel // the subtests share the server
	t.Parallel()
	server := fixture.Redis(t)
	for user, call := range map[string]func(context.Context, *redisclient.Client, time.Duration) error{
		"weir-operator": operate, "weir-limiter": enforce,
	} {
		t.Run(user, func(t *testing.T) {
			rules := supportedACL(t, server, user)
			with := func(rules []string, patience time.Duration) error {
				do(t, server, "FLUSHALL")
				do(t, server, "SCRIPT", "FLUSH")
				do(t, server, append([]string{"ACL", "SETUSER"}, rules...)...)
				client := connect(t, redisclient.Options{
					Mode: redisclient.ModeStandalone, Addresses: []string{server.Addr()}, Username: user, Password: "secret",
				})
				defer client.Close()
				return call(t.Context(), client, patience)
			}
			if err := with(rules, longTimeout); err != nil {
				t.Fatal(err)
			}
			for i, rule := range rules {
				if !strings.ContainsAny(rule[:1], "+~&%") || rule == "+info" {
					continue // not a permission, or an optional one
				}
				if with(slices.Delete(slices.Clone(rules), i, i+1), withoutPermission) == nil {
					t.Errorf("%s is not required", rule)
				}
			}
		})
	}
}

func TestDocumentedACL_SufficesOnACluster(t *testing.T) { //nolint:tparallel // the subtests share the node
	t.Parallel()
	node := fixture.RedisClusterNode(t)
	for user, call := range map[string]func(context.Context, *redisclient.Client, time.Duration) error{
		"weir-operator": operate, "weir-limiter": enforce,
	} {
		t.Run(user, func(t *testing.T) {
			do(t, node, append([]string{"ACL", "SETUSER"}, supportedACL(t, node, user)...)...)
			options := redisclient.Options{
				Mode: redisclient.ModeCluster, Addresses: []string{node.Addr()}, Username: user, Password: "secret",
			}
			if err := call(t.Context(), connect(t, options), withoutPermission); redisclient.Kind(err) != "denied" {
				t.Errorf("without the permissions for a cluster: %v", err)
			}
			do(t, node, "ACL", "SETUSER", user, "+cluster|slots", "+asking")
			if err := call(t.Context(), connect(t, options), longTimeout); err != nil {
				t.Error(err)
			}
		})
	}
}
