package redisstore_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/bypass"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore/bypasses"
	"github.com/weir-dev/weir/test/fixture"
)

func bypassOf(name string, created time.Time) bypass.Bypass {
	return bypass.Bypass{
		Name: name, Policy: "shop/a", Identifier: "acme", Reason: "INC-1", CreatedBy: "jane", CreatedAt: created.UTC(), ExpiresAt: created.Add(time.Hour).UTC(),
	}
}

// It runs with the documented permissions of a limiter.
func TestBypasses_KeepsEntriesUntilTheyExpire(t *testing.T) {
	t.Parallel()
	server := fixture.Redis(t)
	do(t, server, append([]string{"ACL", "SETUSER"}, supportedACL(t, server, "weir-limiter")...)...)
	client := connect(t, redisclient.Options{
		Mode: redisclient.ModeStandalone, Addresses: []string{server.Addr()}, Username: "weir-limiter", Password: "secret",
	})
	store, key := bypasses.New(client, "weir:weir-system/default:"), "weir:weir-system/default:throttle:bypasses"
	now := time.Now().Truncate(time.Second)
	current, ended, expired := bypassOf("current", now), bypassOf("ended", now), bypassOf("expired", now.Add(-time.Hour-6*time.Minute))
	ended.EndedBy = "joe"
	if err := store.Save(t.Context(), []bypass.Bypass{current, ended, expired}); err != nil {
		t.Fatal(err)
	}
	do(t, server, "HSET", key, "other", "{", "renamed", `{"name":"current"}`)
	all, err := store.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b bypass.Bypass) int { return len(b.Name) - len(a.Name) })
	if !slices.Equal(all, []bypass.Bypass{current, ended}) {
		t.Errorf("%+v", all)
	}
	if exists, err := server.Do(t.Context(), "HEXISTS", key, "expired"); err != nil || exists != int64(0) {
		t.Errorf("the expired one remains: %v (%v)", exists, err)
	}
	reply, err := server.Do(t.Context(), "TTL", key)
	if seconds, is := reply.(int64); err != nil || !is || seconds < 24*3600 || seconds > 25*3600 {
		t.Errorf("TTL %v (%v)", reply, err)
	}
}

func TestBypasses_LoadRemovesWhatCanNeverBeValid(t *testing.T) {
	t.Parallel()
	server := fixture.Redis(t)
	client := connect(t, redisclient.Options{Mode: redisclient.ModeStandalone, Addresses: []string{server.Addr()}})
	store, key := bypasses.New(client, "weir:x:"), "weir:x:throttle:bypasses"
	for i := range 1001 {
		do(t, server, "HSET", key, fmt.Sprint("junk", i), "{")
	}
	const times = `"createdAt":"9998-01-01T00:00:00Z","expiresAt":"9998-01-01T01:00:00Z"}`
	do(t, server, "HSET", key, "far", `{"name":"far","policy":"a/b","identifier":"x","reason":"r","createdBy":"j",`+times, "large", strings.Repeat("x", 1<<20),
		"renamed", `{"name":"current"}`)
	current := bypassOf("current", time.Now().Add(10*time.Minute).Truncate(time.Second)) // of a process whose clock is ahead
	if err := store.Save(t.Context(), []bypass.Bypass{current}); err != nil {
		t.Fatal(err)
	}
	if all, err := store.Load(t.Context()); err != nil || !slices.Equal(all, []bypass.Bypass{current}) {
		t.Errorf("%+v (%v)", all, err)
	}
	if n, err := server.Do(t.Context(), "HLEN", key); err != nil || n != int64(1) {
		t.Errorf("%v fields remain (%v)", n, err)
	}
}

func TestBypasses_LoadDeletesAHashThatIsTooLarge(t *testing.T) {
	t.Parallel()
	server := fixture.Redis(t)
	do(t, server, append([]string{"ACL", "SETUSER"}, supportedACL(t, server, "weir-limiter")...)...)
	client := connect(t, redisclient.Options{
		Mode: redisclient.ModeStandalone, Addresses: []string{server.Addr()}, Username: "weir-limiter", Password: "secret",
	})
	store, key := bypasses.New(client, "weir:weir-system/default:"), "weir:weir-system/default:throttle:bypasses"
	current := bypassOf("current", time.Now().Truncate(time.Second))
	for what, fill := range map[string]string{
		"20001 fields":   "for i = 1, 20000 do redis.call('HSET', KEYS[1], i, '') end",
		"20000000 bytes": "redis.call('HSET', KEYS[1], ('x'):rep(1e7), ('x'):rep(1e7)) redis.call('HDEL', KEYS[1], 'current')",
	} {
		if err := store.Save(t.Context(), []bypass.Bypass{current}); err != nil {
			t.Fatal(err)
		}
		do(t, server, "EVAL", fill, "1", key)
		if all, err := store.Load(t.Context()); err == nil || len(all) > 0 || !strings.Contains(err.Error(), key+" had "+what+", which is too much to read, and was deleted") {
			t.Errorf("%s: %+v (%v)", what, all, err)
		}
		if n, err := server.Do(t.Context(), "EXISTS", key); err != nil || n != int64(0) {
			t.Errorf("%s: the hash remains (%v)", what, err)
		}
		if all, err := store.Load(t.Context()); err != nil || len(all) > 0 {
			t.Errorf("%s: %+v (%v)", what, all, err)
		}
	}
}

// Otherwise the responders of some namespaces can stop the exchange of all bypasses.
func TestBypasses_TheHashHasRoomForWhatAListAdmits(t *testing.T) {
	t.Parallel()
	server := fixture.Redis(t)
	client := connect(t, redisclient.Options{Mode: redisclient.ModeStandalone, Addresses: []string{server.Addr()}})
	store := bypasses.New(client, "weir:x:")
	list, now := bypass.NewList(time.Now), time.Now()
	for _, namespace := range []string{"a", "b", "c", "d", "e"} {
		for i := range 500 {
			b := bypassOf(fmt.Sprintf("%s-%d", namespace, i), now)
			b.Policy, b.Identifier, b.Reason = namespace+"/p", strings.Repeat("<", bypass.MaxIdentifier), strings.Repeat("<", bypass.MaxReason)
			if _, err := list.Add(b); err != nil {
				break
			}
			list.End(b.Name, "jane")
		}
	}
	all := list.All()
	for part := range slices.Chunk(all, 20) {
		if err := store.Save(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := store.Load(t.Context()); err != nil || len(got) != len(all) || len(all) < 100 {
		t.Errorf("the list has %d bypasses, Load returns %d, %v", len(all), len(got), err)
	}
}

// What a limiter that does not know blocks reads, must not be a valid bypass: it would let an identifier pass that is blocked.
func TestBypasses_ABlockIsNoBypassForAnOlderLimiter(t *testing.T) {
	t.Parallel()
	server := fixture.Redis(t)
	client := connect(t, redisclient.Options{Mode: redisclient.ModeStandalone, Addresses: []string{server.Addr()}})
	store, key := bypasses.New(client, "weir:x:"), "weir:x:throttle:bypasses"
	block := bypassOf("one", time.Now().Truncate(time.Second))
	block.Blocks = true
	if err := store.Save(t.Context(), []bypass.Bypass{block}); err != nil {
		t.Fatal(err)
	}
	if all, err := store.Load(t.Context()); err != nil || !slices.Equal(all, []bypass.Bypass{block}) {
		t.Errorf("%+v, %v", all, err)
	}
	text, err := server.Do(t.Context(), "HGET", key, "one")
	if err != nil {
		t.Fatal(err)
	}
	var old bypass.Bypass // has the fields of an older limiter, and others that it ignores
	if err := json.Unmarshal(fmt.Append(nil, text), &old); err != nil || old.Name != "one" || old.Validate(time.Now()) == nil {
		t.Errorf("%s is valid for an older limiter: %+v, %v", text, old, err)
	}
}
