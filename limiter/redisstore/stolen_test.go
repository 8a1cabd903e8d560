package redisstore_test

import (
	"testing"

	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

// TestDocumentedACL_AStolenLimiterCannotPublishRules uses a client with exactly the permissions of a limiter. Redis before 7.0 has no
// read-only permissions, which docs/reference/redis.md states.
func TestDocumentedACL_AStolenLimiterCannotPublishRules(t *testing.T) {
	t.Parallel()
	server := fixture.Redis(t)
	do(t, server, append([]string{"ACL", "SETUSER"}, supportedACL(t, server, "weir-limiter")...)...)
	ctx := t.Context()
	operator := open(t, server.URL())
	own, other := "weir-system/default", "weir-system/other"
	for _, limiter := range []string{own, other} {
		if _, err := controlplane.NewExchange(operator, "weir:", limiter).Publish(ctx, rules.Encoded{Revision: "sha256:a", Data: []byte("rules"), Whole: true}, false); err != nil {
			t.Fatal(err)
		}
	}
	do(t, server, "SET", "weir:weir-system/other:throttle:tenant:{acme}:shop/a:abc", "1")
	stolen := connect(t, redisclient.Options{
		Mode: redisclient.ModeStandalone, Addresses: []string{server.Addr()}, Username: "weir-limiter", Password: "secret",
	})
	readOnly := major(t, server) >= 7
	publish := func(limiter string) func() error {
		return func() error {
			_, err := controlplane.NewExchange(stolen, "weir:", limiter).Publish(ctx, rules.Encoded{Revision: "sha256:b", Data: []byte("no rules"), Whole: true}, false)
			return err
		}
	}
	run := func(words ...any) func() error {
		return func() error { return stolen.Redis().Do(ctx, words...).Err() }
	}
	script := func(source, key string) func() error { return run("EVAL", source, 1, key, "sha256:b") }
	const write, forged = "return redis.call('SET', KEYS[1], ARGV[1])", "weir:weir-system/other:throttle:tenant:{acme}:shop/a:abc"
	for name, test := range map[string]struct {
		try     func() error
		allowed bool
	}{
		// Redis 6.2 rejects the PTTL of publish. What a limiter can do there instead is to move the pointer.
		"publish rules":                     {publish(own), false},
		"publish rules of another Limiter":  {publish(other), false},
		"move the pointer":                  {run("SET", "weir:rules:"+own+":current", "sha256:b"), !readOnly},
		"move the pointer by a script":      {script(write, "weir:rules:"+own+":current"), !readOnly},
		"remove the rules":                  {run("UNLINK", "weir:rules:"+own+":set:sha256:a"), !readOnly},
		"expire the rules":                  {run("PEXPIRE", "weir:rules:"+own+":current", 1), !readOnly},
		"read the rules of another Limiter": {run("GETRANGE", "weir:rules:"+other+":current", 0, 70), false},
		"a heartbeat of another Limiter": {func() error {
			return controlplane.NewExchange(stolen, "weir:", other).Heartbeat(ctx, controlplane.Replica{ID: "forged"})
		}, false},
		"read a counter of another Limiter":   {run("GETRANGE", forged, 0, 70), false},
		"change a counter of another Limiter": {run("SET", forged, "2"), false},
		"change it by a script":               {script(write, forged), false},
		"notify another Limiter":              {run("PUBLISH", "weir:rules:"+other, "sha256:b"), false},
		"flush the database":                  {run("FLUSHALL"), false},
		"list the keys":                       {run("KEYS", "*"), false},
		"change its permissions":              {run("ACL", "SETUSER", "weir-limiter", "allkeys"), false},
		"change the configuration":            {run("CONFIG", "SET", "maxmemory", "1"), false},

		"read its rules":              {run("GETRANGE", "weir:rules:"+own+":current", 0, 70), true},
		"change a counter of its own": {run("SET", "weir:"+own+":throttle:tenant:{acme}:shop/a:abc", "2"), true},
		"a heartbeat of its Limiter": {func() error {
			return controlplane.NewExchange(stolen, "weir:", own).Heartbeat(ctx, controlplane.Replica{ID: "forged"})
		}, true},
		"make limiters forget a denial": {run("PUBLISH", "weir:forget", "key"), true},
	} {
		err := test.try()
		if denied := redisclient.Kind(redisclient.WithKind(err)) == redisclient.KindDenied; (err == nil) != test.allowed || (err != nil) != denied {
			t.Errorf("%s: error %v, want it allowed: %t", name, err, test.allowed)
		}
	}
	if !readOnly {
		return
	}
	for _, limiter := range []string{own, other} {
		if revision, err := controlplane.NewExchange(operator, "weir:", limiter).Current(ctx); err != nil || revision != "sha256:a" {
			t.Errorf("%s: revision %q, %v; want that of the operator", limiter, revision, err)
		}
	}
}
