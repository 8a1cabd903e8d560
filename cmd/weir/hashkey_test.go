package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

const (
	keysPolicy = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: keys, namespace: shop}
spec:
  axis: APIKey
  limit: 3
  window: 1h
  algorithm: SlidingWindowLog
  tiers: [{name: partner, when: {identifiers: [partner-key-1]}, limit: 5}]
`
	partner = `{"domain":"shop","headers":{"x-api-key":"partner-key-1"}}`
	anyKey  = `{"domain":"shop","headers":{"x-api-key":"client-key-1"}}`
)

// writeHashKey writes a hash key to a file.
func writeHashKey(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "hash-key")
	save(t, path, text)
	return path
}

func compileWith(t *testing.T, key string) rules.Set {
	t.Helper()
	hashKey, err := limiter.NewHashKey([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	schema, err := apischema.New()
	if err != nil {
		t.Fatal(err)
	}
	loader := policyfile.NewLoader(compile.DefaultIdentity().WithHashKey(hashKey), schema)
	dir := t.TempDir()
	save(t, filepath.Join(dir, "keys.yaml"), keysPolicy)
	result, err := loader.Load(nil, dir)
	if err != nil || len(result.Problems) > 0 {
		t.Fatal(err, result.Problems)
	}
	return result.Rules
}

// allowed returns how many of ten requests pass, sent to the bases in turn.
func allowed(t *testing.T, body string, bases ...string) (n int) {
	t.Helper()
	for i := range 10 {
		if check(t, bases[i%len(bases)], body).status == http.StatusOK {
			n++
		}
	}
	return n
}

// Redis is real: the test reads everything that is in it.
func TestHashKey_NobodyWithoutItCanTestGuessesOfAPIKeys(t *testing.T) {
	const key, other = "the key of this installation, which is secret", "the key of another installation, also secret"
	server := fixture.Redis(t, "--rdbcompression", "no")
	exchangeClient, err := redisclient.Open("redis://"+server.Addr(), limiterTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = exchangeClient.Close() })
	publishSet(t, controlplane.NewExchange(exchangeClient, "weir:", "weir-system/default"), compileWith(t, key))

	var logs Transcript
	start := func(replica, text string) (base, ops string) {
		counters := countersOf("weir:")
		counters.hashKey = writeHashKey(t, text)
		var log Transcript
		launch(t, func(ctx context.Context) error {
			return runLimiter(ctx, limiterFlags{
				limiter: "weir-system/default", redis: "redis://" + server.Addr(), counters: counters, replica: replica, sockets: anyPort,
			}, log.Logger())
		})
		base, ops = "http://"+find(t, &log, `listen=(\S+)`), "http://"+find(t, &log, `ops=(\S+)`)
		t.Cleanup(func() { _, _ = logs.Write([]byte(log.String())) })
		return base, ops
	}
	a, opsA := start("a", key)
	b, opsB := start("b", key)
	_, opsWrong := start("wrong", other)
	for _, ops := range []string{opsA, opsB} {
		fixture.Await(t, "ready", func() bool { status, _ := get(t, ops+"/readyz"); return status == http.StatusOK })
	}
	fixture.Await(t, "the replica with another key rejects the rules", func() bool {
		status, body := get(t, opsWrong+"/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "rule shop/keys was compiled with hash key") &&
			strings.Contains(body, "both must be the same")
	})

	if got := allowed(t, partner, a, b); got != 5 {
		t.Errorf("two replicas admit %d requests of the tier, want 5", got)
	}
	if got := allowed(t, anyKey, a, b); got != 3 {
		t.Errorf("two replicas admit %d requests of a client without a tier, want 3", got)
	}
	response, err := http.Post(a+"/v1/check", "application/json", strings.NewReader(partner))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	_, metrics := get(t, opsA+"/metrics")
	for place, text := range map[string]string{
		"Redis": contentsOf(t, server.Addr()), "logs": logs.String(), "metrics": metrics, "answer": string(answer),
	} {
		if place == "Redis" && (!strings.Contains(text, "shop/keys") || !strings.Contains(text, `"identifiers":["`)) {
			t.Fatalf("the test does not read the counters and rules:\n%s", text)
		}
		for _, secret := range []string{"partner-key-1", "client-key-1"} {
			sum := sha256.Sum256([]byte(secret))
			for form, guess := range map[string]string{
				"the API key": secret, "a bare hash": hex.EncodeToString(sum[:8]), "a bare binary hash": string(sum[:8]), "the hash key": key[:20],
			} {
				if strings.Contains(strings.ToLower(text), strings.ToLower(guess)) {
					t.Errorf("%s: contains %s of %s", place, form, secret)
				}
			}
		}
	}
}

// contentsOf returns the names and values in a Redis, uncompressed.
func contentsOf(t *testing.T, address string) string {
	t.Helper()
	admin := redis.NewClient(&redis.Options{Addr: address})
	defer func() { _ = admin.Close() }()
	var all strings.Builder
	keys, err := admin.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		dump, err := admin.Dump(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(key + "\n" + dump + "\n")
		if text, err := admin.Get(t.Context(), key).Bytes(); err == nil {
			if r, err := gzip.NewReader(bytes.NewReader(text)); err == nil {
				_, _ = io.Copy(&all, r)
			}
		}
	}
	return all.String()
}

func TestServe_CountsAPIKeysUnderItsHashKey(t *testing.T) {
	server := fixture.Redis(t)
	dir := t.TempDir()
	save(t, filepath.Join(dir, "keys.yaml"), keysPolicy)
	start := func(key string) string {
		counters := countersOf("weir:")
		counters.hashKey = writeHashKey(t, key)
		var stdout, log Transcript
		launch(t, func(ctx context.Context) error {
			return runServe(ctx, serveFlags{policies: dir, redis: "redis://" + server.Addr(), counters: counters, sockets: anyPort}, &stdout, log.Logger())
		})
		return find(t, &stdout, `(http://127\.0\.0\.1:\d+)/v1/check`)
	}
	a, b, other := start(strings.Repeat("a", 32)), start(strings.Repeat("a", 32)+"\n"), start(strings.Repeat("b", 32))
	if got := allowed(t, anyKey, a, b); got != 3 {
		t.Errorf("two processes with one key admit %d requests, want 3", got)
	}
	if got := allowed(t, anyKey, other); got != 3 {
		t.Errorf("a process with another key admits %d requests, want 3", got)
	}
	if got := allowed(t, partner, a, other); got != 10 {
		t.Errorf("processes with different keys admit %d requests of the tier, want 5 each", got)
	}
}

const compactPolicy = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: compact, namespace: shop}
spec: {axis: User, limit: 6, window: 720h, storage: Compact}
`

// Redis is real, so the test reads what is in it: no identifier.
func TestServe_SharesCompactCounters(t *testing.T) {
	server := fixture.Redis(t, "--rdbcompression", "no")
	dir := t.TempDir()
	save(t, filepath.Join(dir, "compact.yaml"), compactPolicy)
	start := func(key string) string {
		counters := countersOf("weir:")
		counters.hashKey = writeHashKey(t, key)
		var stdout, log Transcript
		launch(t, func(ctx context.Context) error {
			return runServe(ctx, serveFlags{policies: dir, redis: "redis://" + server.Addr(), counters: counters, sockets: anyPort}, &stdout, log.Logger())
		})
		return find(t, &stdout, `(http://127\.0\.0\.1:\d+)/v1/check`)
	}
	a, b := start(strings.Repeat("a", 32)), start(strings.Repeat("a", 32))
	for _, user := range []string{"alice-of-example", "bob-of-example"} {
		if got := allowed(t, `{"domain":"shop","headers":{"x-user-id":"`+user+`"}}`, a, b); got != 6 {
			t.Errorf("two processes admit %d requests of %s, want 6", got, user)
		}
	}
	contents := contentsOf(t, server.Addr())
	if !strings.Contains(contents, ":shop/compact:") || strings.Contains(contents, "example") {
		t.Errorf("want counters of the policy without identifiers in Redis:\n%q", contents)
	}
}

func TestHashKey_ErrorsNameTheFlagAndTheReason(t *testing.T) {
	dir := t.TempDir()
	save(t, filepath.Join(dir, "keys.yaml"), keysPolicy)
	redisURL := "redis://" + fixture.Redis(t).Addr()
	short := writeHashKey(t, "too short")
	for name, test := range map[string]struct{ redis, file, want string }{
		"no key for API keys in Redis": {redisURL, "", "rule shop/keys hashes identifiers, and there is no hash key: set --hash-key"},
		"a missing file":               {redisURL, dir + "/none", "--hash-key: open " + dir + "/none: no such file or directory"},
		"an unreadable file":           {"", dir, "--hash-key: read " + dir + ": is a directory"},
		"a short key":                  {redisURL, short, "--hash-key: " + short + ": a hash key must have from 32 to 4096 bytes, got 9: create one with `openssl rand -hex 32`"},
	} {
		t.Run(name, func(t *testing.T) {
			counters := countersOf("weir:")
			counters.hashKey = test.file
			var log Transcript
			err := runServe(t.Context(), serveFlags{policies: dir, redis: test.redis, counters: counters, sockets: anyPort}, io.Discard, log.Logger())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestServe_WithoutRedisNeedsNoHashKey(t *testing.T) {
	dir := t.TempDir()
	save(t, filepath.Join(dir, "keys.yaml"), keysPolicy)
	var stdout, log Transcript
	launch(t, func(ctx context.Context) error {
		return runServe(ctx, serveFlags{policies: dir, counters: countersOf("weir:"), sockets: anyPort}, &stdout, log.Logger())
	})
	base := find(t, &stdout, `(http://127\.0\.0\.1:\d+)/v1/check`)
	if got := allowed(t, partner, base); got != 5 {
		t.Errorf("%d requests of the tier pass, want 5", got)
	}
}
