package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

func TestPublish_MakesTheSetActive(t *testing.T) {
	onRedis(t, publishes)
}

func publishes(t *testing.T, client *redisclient.Client) {
	e, ctx := exchange(client), t.Context()
	if current, err := e.Current(ctx); err != nil || current != "" {
		t.Fatalf("before the first Publish: Current = %q, %v", current, err)
	}
	if _, found, err := e.Load(ctx, "sha256:a"); err != nil || found {
		t.Fatalf("before the first Publish: Load found = %v, %v", found, err)
	}
	if !publish(t, e, "sha256:a", "A") {
		t.Error("the first Publish changed nothing")
	}
	if publish(t, e, "sha256:a", "A") {
		t.Error("publishing the same Set again changed something")
	}
	if current, err := e.Current(ctx); err != nil || current != "sha256:a" {
		t.Errorf("Current = %q, %v", current, err)
	}
	if data, found, err := e.Load(ctx, "sha256:a"); err != nil || !found || string(data) != "A" {
		t.Errorf("Load = %q, %v, %v", data, found, err)
	}
}

func TestPublish_LetsThePreviousSetExpire(t *testing.T) {
	onRedis(t, keepsOnlyTheCurrentSet)
}

func keepsOnlyTheCurrentSet(t *testing.T, client *redisclient.Client) {
	e := exchange(client)
	ttl := func(revision string) time.Duration {
		return client.Redis().PTTL(t.Context(), e.setKey(revision)).Val()
	}
	publish(t, e, "sha256:a", "A")
	publish(t, e, "sha256:b", "B")
	wantTTL(t, client, e.setKey("sha256:a"), time.Hour+20*time.Minute)
	if got := ttl("sha256:b"); got != -1 {
		t.Errorf("the current Set has TTL %v, want none", got)
	}
	publish(t, e, "sha256:a", "A")
	if got := ttl("sha256:a"); got != -1 {
		t.Errorf("a Set that is current again has TTL %v, want none", got)
	}
}

func TestLeave_LetsTheActiveSetExpire(t *testing.T) {
	onRedis(t, leaves)
}

func leaves(t *testing.T, client *redisclient.Client) {
	e, ctx := exchange(client), t.Context()
	if err := e.Leave(ctx); err != nil {
		t.Fatalf("before the first Publish: %v", err)
	}
	publish(t, e, "sha256:a", "A")
	if err := e.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	wantTTL(t, client, e.currentKey(), time.Hour)
	wantTTL(t, client, e.setKey("sha256:a"), time.Hour+21*time.Minute) // the pointer never names a missing Set
	if data, found, err := e.Load(ctx, "sha256:a"); err != nil || !found || string(data) != "A" {
		t.Errorf("Load before the expiry = %q, %v, %v", data, found, err)
	}
	publish(t, e, "sha256:a", "A") // because both names belong to the same Redis
	for _, key := range []string{e.currentKey(), e.setKey("sha256:a")} {
		if got := client.Redis().PTTL(ctx, key).Val(); got != -1 {
			t.Errorf("after publishing again, %s has TTL %v, want none", key, got)
		}
	}
}

func TestClear_RemovesEverythingOfTheLimiter(t *testing.T) {
	onRedis(t, clears)
}

func clears(t *testing.T, client *redisclient.Client) {
	e, other, ctx := exchange(client), NewExchange(client, "weir:", "weir-system/other"), t.Context()
	publish(t, other, "sha256:a", "A")
	if err := e.Clear(ctx); err != nil {
		t.Fatalf("before the first Publish: %v", err)
	}
	for _, revision := range []string{"sha256:a", "sha256:b", "sha256:a", "sha256:c", "sha256:d"} {
		publish(t, e, revision, "A")
	}
	if err := e.Heartbeat(ctx, Replica{ID: "a", Revision: "sha256:a"}); err != nil {
		t.Fatal(err)
	}
	if err := e.Clear(ctx); err != nil {
		t.Fatal(err)
	}
	if left, err := client.Redis().Keys(ctx, "*"+e.limiter+"*").Result(); err != nil || len(left) > 0 {
		t.Errorf("keys after Clear: %q, %v; want none", left, err)
	}
	if data, found, err := other.Load(ctx, "sha256:a"); err != nil || !found || string(data) != "A" {
		t.Errorf("Load for another limiter = %q, %v, %v", data, found, err)
	}
}

// The list of revisions has at most a thousand, and expires a month after the last one.
func TestPublish_BoundsTheListOfSupersededSets(t *testing.T) {
	onRedis(t, func(t *testing.T, client *redisclient.Client) {
		e, ctx := exchange(client), t.Context()
		listed := []any{"sha256:oldest"}
		for i := range 998 {
			listed = append(listed, fmt.Sprintf("sha256:%d", i))
		}
		if err := client.Redis().RPush(ctx, e.supersededKey(), listed...).Err(); err != nil {
			t.Fatal(err)
		}
		for i, revision := range []string{"sha256:a", "sha256:b", "sha256:c"} {
			publish(t, e, revision, "A")
			length, oldest := client.Redis().LLen(ctx, e.supersededKey()).Val(), client.Redis().LIndex(ctx, e.supersededKey(), 0).Val()
			if want := []string{"sha256:oldest", "sha256:0", "sha256:1"}[i]; length != 1000 || oldest != want {
				t.Errorf("after %s: %d listed revisions from %s, want 1000 from %s", revision, length, oldest, want)
			}
		}
		if got := client.Redis().LRange(ctx, e.supersededKey(), -2, -1).Val(); fmt.Sprint(got) != "[sha256:b sha256:c]" {
			t.Errorf("the newest are %q, want sha256:b, then sha256:c", got)
		}
		wantTTL(t, client, e.supersededKey(), 30*24*time.Hour)
	})
}

// wantTTL checks the time to live of a key that was written a moment ago.
func wantTTL(t *testing.T, client *redisclient.Client, key string, want time.Duration) {
	t.Helper()
	if got := client.Redis().PTTL(t.Context(), key).Val(); got > want || got < want-patience {
		t.Errorf("%s has TTL %v, want %v", key, got, want)
	}
}

func TestClear_RemovesTheActiveSetWithoutPermissionToList(t *testing.T) {
	server := fixture.Redis(t)
	client := open(t, server.URL())
	e := exchange(client)
	publish(t, e, "sha256:a", "A")
	if err := client.Redis().Do(t.Context(), "ACL", "SETUSER", "default", "-lrange").Err(); err != nil {
		t.Fatal(err)
	}
	if err := e.Clear(t.Context()); err == nil || !strings.Contains(err.Error(), "read "+e.supersededKey()) || redisclient.Kind(err) != redisclient.KindDenied {
		t.Errorf("error %v, want that Redis denies to read the list", err)
	}
	if left, err := client.Redis().Keys(t.Context(), "*").Result(); err != nil || len(left) > 0 {
		t.Errorf("keys after Clear: %q, %v; want none", left, err)
	}
}

func TestPublish_RepairsDamage(t *testing.T) {
	damages := map[string]func(context.Context, *Exchange) error{
		"everything is lost": func(ctx context.Context, e *Exchange) error { return e.client.Redis().FlushAll(ctx).Err() },
		"the pointer is lost": func(ctx context.Context, e *Exchange) error {
			return e.client.Redis().Del(ctx, e.currentKey()).Err()
		},
		"the Set is lost": func(ctx context.Context, e *Exchange) error {
			return e.client.Redis().Del(ctx, e.setKey("sha256:a")).Err()
		},
		"the Set is about to expire": func(ctx context.Context, e *Exchange) error {
			return e.client.Redis().Expire(ctx, e.setKey("sha256:a"), time.Minute).Err()
		},
		"the pointer names another Set": func(ctx context.Context, e *Exchange) error {
			return e.client.Redis().Set(ctx, e.currentKey(), "sha256:x", 0).Err()
		},
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			onRedis(t, func(t *testing.T, client *redisclient.Client) {
				e := exchange(client)
				publish(t, e, "sha256:a", "A")
				if err := damage(t.Context(), e); err != nil {
					t.Fatal(err)
				}
				if !publish(t, e, "sha256:a", "A") {
					t.Error("the first Publish repaired nothing")
				}
				if publish(t, e, "sha256:a", "A") {
					t.Error("the second Publish changed something")
				}
			})
		})
	}
}

// Before the first rule set, the pointer is absent, which is no error. An error of the expiry must not be lost behind it.
func TestPublish_FailsIfTheExpiryCannotBeRead(t *testing.T) {
	server := fixture.Redis(t)
	if _, err := server.Do(t.Context(), "ACL", "SETUSER", "blind", "on", ">secret", "~*", "&*", "+@all", "-pttl"); err != nil {
		t.Fatal(err)
	}
	changed, err := exchange(open(t, strings.Replace(server.URL(), "://", "://blind:secret@", 1))).Publish(t.Context(), rules.Encoded{Revision: "sha256:a", Data: []byte("A")}, false)
	if redisclient.Kind(redisclient.WithKind(err)) != redisclient.KindDenied || changed {
		t.Errorf("changed %v, %v; want that Redis denied it", changed, err)
	}
	if err == nil || !strings.HasPrefix(err.Error(), "read the expiry of weir:rules:weir-system/default:set:sha256:a: ") {
		t.Errorf("%v, want the key", err)
	}
}

// A paused operator continues after another one has been elected and has published newer rules.
func TestBeforeReplacing_KeepsTheSetOfASuccessor(t *testing.T) {
	onRedis(t, keepsTheSetOfASuccessor)
}

func keepsTheSetOfASuccessor(t *testing.T, client *redisclient.Client) {
	paused, successor := exchange(client), exchange(client)
	confirmations, lost := 0, error(nil)
	paused.BeforeReplacing(func(context.Context) error {
		confirmations++
		return lost
	})
	publish(t, paused, "sha256:a", "A") // the first one replaces nothing
	publish(t, paused, "sha256:a", "A")
	if confirmations != 0 {
		t.Errorf("%d confirmations, though nothing was replaced", confirmations)
	}
	publish(t, paused, "sha256:b", "B")
	if confirmations != 1 {
		t.Errorf("%d confirmations, want 1", confirmations)
	}
	publish(t, successor, "sha256:c", "C")
	lost = errors.New("another operator is the leader")
	for _, stale := range []string{"sha256:b", "sha256:d"} { // its resync, and an edit that it had compiled
		if changed, err := paused.Publish(t.Context(), rules.Encoded{Revision: stale, Data: []byte("old")}, false); !errors.Is(err, lost) || changed {
			t.Errorf("%s: changed %v, %v", stale, changed, err)
		}
	}
	if current, err := successor.Current(t.Context()); err != nil || current != "sha256:c" {
		t.Errorf("Current = %q, %v", current, err)
	}
	if err := client.Redis().FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if !publish(t, paused, "sha256:b", "B") { // the successor replaces them
		t.Error("an empty Redis is not repaired")
	}
}
