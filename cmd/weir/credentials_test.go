package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"

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

// TestServe_TokensOfAProviderStayInTheProcess has a provider that becomes unavailable: Redis decides until the connections are gone, and again
// afterwards. The log and the metrics name the reason, and no token.
func TestServe_TokensOfAProviderStayInTheProcess(t *testing.T) {
	server, files := fixture.RedisTLS(t, false)
	const life = 2 * time.Second
	var away atomic.Bool
	var issued atomic.Int64 // when the last token was, in nanoseconds
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Metadata-Flavor", "Google")
		if away.Load() {
			w.WriteHeader(http.StatusForbidden)
		} else {
			issued.Store(time.Now().UnixNano())
		}
		_, _ = fmt.Fprintf(w, `{"access_token":"s3cret-token","expires_in":%d,"token_type":"Bearer"}`, int(life.Seconds()))
	}))
	defer provider.Close()
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(provider.URL, "http://"))
	var tokens flags.RedisTLS
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	tokens.Add(set)
	if err := set.Parse([]string{"--redis-auth=Google", "--redis-ca=" + files.CA}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	save(t, filepath.Join(dir, "p.yaml"), "apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\n"+
		"metadata: {name: p, namespace: shop}\nspec: {axis: IP, limit: 1000000, window: 1h}\n")
	var stdout, log Transcript
	sockets := anyPort
	sockets.decisionLog = flags.DecisionLog{Denials: 1, Out: &stdout} // so the addresses are in the log
	counters := countersOf("weir:")
	counters.hashKey = writeHashKey(t, strings.Repeat("k", 32))
	launch(t, func(ctx context.Context) error {
		return runServe(ctx, serveFlags{
			policies: dir, redis: "rediss://" + server.Addr(), redisTLS: tokens, counters: counters, sockets: sockets,
			admin: adminFlags{listen: "unix:" + filepath.Join(t.TempDir(), "admin.sock")},
		}, &stdout, log.Logger())
	})
	base := "http://" + find(t, &log, `msg=serving listen=(\S+)`)
	ops := "http://" + find(t, &log, `ops=(\S+)`)
	local := func(want string) func() bool {
		return func() bool {
			check(t, base, `{"domain":"shop","method":"GET","path":"/","clientIP":"192.0.2.1"}`)
			_, metrics := get(t, ops+"/metrics")
			return strings.Contains(metrics, "\nweir_local_mode "+want+"\n")
		}
	}
	if !local("0")() {
		t.Fatalf("local mode at start:\n%s", log.String())
	}
	away.Store(true)
	for expired := false; !expired; time.Sleep(50 * time.Millisecond) { // the connections stay
		expired = time.Since(time.Unix(0, issued.Load())) > life+life/4
		if !local("0")() {
			t.Fatalf("local mode while there are connections:\n%s", log.String())
		}
	}
	if _, err := server.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal"); err != nil {
		t.Fatal(err)
	}
	fixture.Await(t, "local mode", local("1"))
	fixture.Await(t, "probes with their reason", func() bool {
		_, metrics := get(t, ops+"/metrics")
		return strings.Contains(log.String(), "kind=credentials") &&
			regexp.MustCompile(`weir_redis_probe_errors_total\{kind="credentials"\} [1-9]`).MatchString(metrics)
	})
	away.Store(false)
	fixture.Await(t, "Redis decides", local("0"))
	_, metrics := get(t, ops+"/metrics")
	if all := log.String() + stdout.String() + metrics; !strings.Contains(all, "cannot be renewed") || strings.Contains(all, "s3cret") {
		t.Errorf("a token, or no line about the provider, in\n%s", all)
	}
}
