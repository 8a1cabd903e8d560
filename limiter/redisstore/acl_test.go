package redisstore_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/test/fixture"
)

// documentedACL returns the words of the command that docs/reference/redis.md gives for user, from the name on.
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

// operates does what an operator does.
func operates(ctx context.Context, client *redisclient.Client) error {
	exchange := controlplane.NewExchange(client, "weir:", "weir-system/default")
	_, errReplicas := exchange.Replicas(ctx) // with a script that Redis does not know yet
	_, errLoad := client.LoadScripts(ctx, slices.Concat(redisstore.Scripts(), controlplane.Scripts()))
	_, errFirst := exchange.Publish(ctx, "sha256:a", []byte("A"))
	_, errSecond := exchange.Publish(ctx, "sha256:b", []byte("B")) // which lets the first expire
	_, errInspect := client.Inspect(ctx)
	return errors.Join(errReplicas, errLoad, errFirst, errSecond, errInspect, client.Ping(ctx), exchange.Leave(ctx), exchange.Clear(ctx))
}

func everyAlgorithm() []limiter.Algorithm {
	return []limiter.Algorithm{
		limiter.FixedWindow, limiter.SlidingWindowLog, limiter.SlidingWindowCounter, limiter.TokenBucket, limiter.LeakyBucket,
	}
}

// limits does what a limiter does.
func limits(ctx context.Context, client *redisclient.Client) error {
	exchange := controlplane.NewExchange(client, "weir:", "weir-system/default")
	_, errCurrent := exchange.Current(ctx)
	errs := []error{
		errCurrent, listens(ctx, exchange), hearsNotices(ctx, client), exchange.Remove(ctx, "a"),
		exchange.Heartbeat(ctx, controlplane.Replica{ID: "a"}), client.Ping(ctx),
	}
	store := redisstore.NewStore(client, patient, redisstore.WithInvalidations(redisstore.InvalidationChannel("weir:")))
	for _, algorithm := range everyAlgorithm() {
		errs = append(errs, spends(ctx, store, algorithm))
	}
	return errors.Join(errs...)
}

// subscribes is how long a subscription may take to begin, and a test to see that none does.
const subscribes = 2 * time.Second

// listens wants a subscription to begin.
func listens(ctx context.Context, exchange *controlplane.Exchange) error {
	ctx, cancel := context.WithTimeout(ctx, subscribes)
	defer cancel()
	select {
	case <-exchange.Subscribe(ctx):
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hearsNotices wants a subscription to notices to begin.
func hearsNotices(ctx context.Context, client *redisclient.Client) error {
	ctx, cancel := context.WithTimeout(ctx, subscribes)
	defer cancel()
	heard := false
	redisstore.FollowInvalidations(ctx, client, redisstore.InvalidationChannel("weir:"), func(string) {}, func() {
		heard = true
		cancel()
	})
	if !heard {
		return errors.New("no subscription to notices")
	}
	return nil
}

// spends fills a counter, raises its limit, lowers it, takes back, and forgets it.
func spends(ctx context.Context, store *redisstore.Store, algorithm limiter.Algorithm) error {
	var errs []error
	var key string
	for _, units := range []int64{4, 1000, 3} {
		limit, err := limiter.NewLimit(algorithm, units, time.Hour)
		if err != nil {
			return err
		}
		key = limiter.NewKeySpace("weir:", "Tenant", "test/acl", limit).Key("acme", "")
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
	return errors.Join(append(errs, store.Reset(ctx, []string{key}))...)
}

func TestTheDocumentedRightsSufficeAndNoneIsTooMany(t *testing.T) {
	server := fixture.Redis(t)
	for user, works := range map[string]func(context.Context, *redisclient.Client) error{
		"weir-operator": operates, "weir-limiter": limits,
	} {
		t.Run(user, func(t *testing.T) {
			rights := documentedACL(t, user)
			with := func(rights []string) error {
				do(t, server, "FLUSHALL")
				do(t, server, "SCRIPT", "FLUSH")
				do(t, server, append([]string{"ACL", "SETUSER"}, rights...)...)
				client := connect(t, redisclient.Options{
					Mode: redisclient.ModeStandalone, Addresses: []string{server.Addr()}, Username: user, Password: "secret",
				})
				defer client.Close()
				return works(t.Context(), client)
			}
			if err := with(rights); err != nil {
				t.Fatal(err)
			}
			for i, right := range rights {
				if !strings.ContainsAny(right[:1], "+~&") || right == "+info" {
					continue // not a right, or one that may be missing
				}
				if with(slices.Delete(slices.Clone(rights), i, i+1)) == nil {
					t.Errorf("%s is not needed", right)
				}
			}
		})
	}
}

func TestTheDocumentedRightsSufficeOnACluster(t *testing.T) {
	node := fixture.RedisClusterNode(t)
	for user, works := range map[string]func(context.Context, *redisclient.Client) error{
		"weir-operator": operates, "weir-limiter": limits,
	} {
		t.Run(user, func(t *testing.T) {
			do(t, node, append([]string{"ACL", "SETUSER"}, documentedACL(t, user)...)...)
			options := redisclient.Options{
				Mode: redisclient.ModeCluster, Addresses: []string{node.Addr()}, Username: user, Password: "secret",
			}
			if err := works(t.Context(), connect(t, options)); redisclient.Kind(err) != "denied" {
				t.Errorf("without the rights for a cluster: %v", err)
			}
			do(t, node, "ACL", "SETUSER", user, "+cluster|slots", "+asking")
			if err := works(t.Context(), connect(t, options)); err != nil {
				t.Error(err)
			}
		})
	}
}
