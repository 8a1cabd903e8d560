package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-dev/weir/cmd/weir/flags"
	"github.com/weir-dev/weir/test/fixture"
)

// Redis is real: the test reads everything that leaves the process, after requests with credentials in each place that policies can count by.
func TestServe_NoCredentialLeavesIt(t *testing.T) {
	server := fixture.Redis(t, "--rdbcompression", "no")
	dir := t.TempDir()
	for i, identifier := range []string{
		`{header: Authorization}`, `{query: api_key}`, `{cookie: theme}`, `{claim: realm.access_token}`, `{descriptor: authorization}`,
		`{expression: 'request.headers["x-api-key"]'}`, `{expression: 'request.path + request.headers[?"x-api-key"].orValue(request.clientIP)'}`,
		`{expression: '["x-api-key"].map(name, request.headers[name])[0]'}`, `{expression: 'request.headers.map(name, request.headers[name]).join("/")'}`,
		`{expression: 'request.descriptors[0][0].value'}`,
	} {
		save(t, filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), fmt.Sprintf("apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\n"+
			"metadata: {name: p%d, namespace: shop}\nspec: {axis: Custom, limit: 1, window: 1h, identifier: %s}\n", i, identifier))
	}
	sock := filepath.Join(t.TempDir(), "admin.sock")
	counters := countersOf("weir:")
	counters.hashKey = writeHashKey(t, strings.Repeat("k", 32))
	sockets := anyPort
	decisions := &fixture.LockedBuffer{}
	sockets.decisionLog = flags.DecisionLog{Denials: 100, Sample: 1, Out: decisions}
	var stdout, log Transcript
	launch(t, func(ctx context.Context) error {
		return runServe(ctx, serveFlags{
			policies: dir, redis: "redis://" + server.Addr(), counters: counters, sockets: sockets, admin: adminFlags{listen: "unix:" + sock},
		}, &stdout, log.Logger())
	})
	base := "http://" + find(t, &log, `msg=serving listen=(\S+)`)
	const body = `{"domain":"shop","method":"GET","path":"/a?api_key=s3cret-query","clientIP":"192.0.2.1",
		"headers":{"authorization":"Bearer s3cret-header","x-api-key":"s3cret-key","cookie":"theme=s3cret-cookie"},
		"claims":{"realm":{"access_token":"s3cret-claim"}},"descriptors":[[{"key":"authorization","value":"s3cret-entry"}]]}`
	for range 2 { // the second one is denied
		check(t, base, body)
	}
	fixture.Await(t, "two decisions", func() bool { return strings.Count(decisions.String(), "\n") == 2 })
	_, metrics := get(t, "http://"+find(t, &log, `ops=(\S+)`)+"/metrics")
	places := map[string]string{
		"Redis": contentsOf(t, server.Addr()), "the log": log.String(), "the decision log": decisions.String(), "metrics": metrics,
	}
	for _, command := range []string{
		"top", "rules", "counters list --policy shop/p5", "counters list --policy shop/p2 -o json",
	} {
		_, out, errors := runWithInput(t, "", append(strings.Fields(command), "--admin", "unix:"+sock)...)
		places[command] = out + errors
	}
	_, out, errors := runWithInput(t, "", "explain", "--admin", "unix:"+sock, "--domain", "shop", "--path", "/a?api_key=s3cret-query",
		"-H", "authorization: Bearer s3cret-header", "-H", "x-api-key: s3cret-key", "-H", "cookie: theme=s3cret-cookie")
	places["explain"] = out + errors
	for place, text := range places {
		if strings.Contains(text, "s3cret") {
			t.Errorf("%s: a credential in\n%q", place, text)
		}
		if !strings.Contains(text, "shop/p") && place != "the log" {
			t.Errorf("%s: the test does not read the counters: %s", place, text)
		}
	}
}
