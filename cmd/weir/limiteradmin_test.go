package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/admin/adminapi"
	"github.com/weir-dev/weir/limiter/mutualtls"
	"github.com/weir-dev/weir/test/fixture"
)

// limiterWithAdmin runs weir limiter with the admin endpoint for the operator of master, and returns its address.
func limiterWithAdmin(t *testing.T, master *limiter.HashKey) (address string, log *Transcript) {
	t.Helper()
	return limiterOn(t, master, "redis://"+miniredis.RunT(t).Addr())
}

// limiterOn is limiterWithAdmin for a Redis.
func limiterOn(t *testing.T, master *limiter.HashKey, url string) (address string, log *Transcript) {
	t.Helper()
	counters := countersOf("weir:")
	counters.hashKey = filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(counters.hashKey, master.Derive("weir-system/default").Text(), 0o600); err != nil {
		t.Fatal(err)
	}
	log = &Transcript{}
	launch(t, func(ctx context.Context) error {
		return runLimiter(ctx, limiterFlags{
			limiter: "weir-system/default", redis: url, counters: counters, sockets: anyPort,
			admin: limiterAdminFlags{listen: "127.0.0.1:0", operatorKey: mutualtls.PublicText(mutualtls.OperatorKey(master))},
		}, log.Logger())
	})
	return find(t, log, `admin=(127\.0\.0\.1:[0-9]+)`), log
}

// requestLimiter calls the admin endpoint of a limiter of master with a private key.
func requestLimiter(t *testing.T, own ed25519.PrivateKey, master *limiter.HashKey, method, url, caller, body string) (*http.Response, error) {
	t.Helper()
	server, err := mutualtls.ParsePublic(mutualtls.PublicText(mutualtls.LimiterKey(master.Derive("weir-system/default"))))
	if err != nil {
		t.Fatal(err)
	}
	config, err := mutualtls.Client(own, server)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(admin.CallerHeader, caller)
	return (&http.Transport{TLSClientConfig: config, DisableKeepAlives: true}).RoundTrip(request)
}

// callLimiter is requestLimiter for an answer that ends.
func callLimiter(t *testing.T, own ed25519.PrivateKey, master *limiter.HashKey, method, url, caller, body string) (status int, text string, err error) {
	t.Helper()
	response, err := requestLimiter(t, own, master, method, url, caller, body)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	all, err := io.ReadAll(response.Body)
	return response.StatusCode, string(all), err
}

func TestLimiterAdmin_AnswersTopAndDenials(t *testing.T) {
	master := limiter.RandomHashKey()
	address, _ := limiterWithAdmin(t, master)
	operator, base := mutualtls.OperatorKey(master), "https://"+address+"/admin/v1/"
	var top admin.Top
	status, text, err := callLimiter(t, operator, master, http.MethodGet, base+"top", "jane", "")
	if err = errors.Join(err, json.Unmarshal([]byte(text), &top)); err != nil || status != http.StatusOK || top.Seconds <= 0 {
		t.Errorf("top: %d %s (%v)", status, text, err)
	}
	response, err := requestLimiter(t, operator, master, http.MethodGet, base+"denials", "jane", "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if line, err := bufio.NewReader(response.Body).ReadString('\n'); err != nil || response.StatusCode != http.StatusOK || line != "{}\n" {
		t.Errorf("denials: %s %q (%v)", response.Status, line, err)
	}
}

func TestLimiterAdmin_AnswersOnlyTheOperator(t *testing.T) {
	master := limiter.RandomHashKey()
	address, log := limiterWithAdmin(t, master)
	operator, level := mutualtls.OperatorKey(master), "https://"+address+"/admin/v1/log-level"
	status, text, err := callLimiter(t, operator, master, http.MethodPut, level, "jane%40example.com", `{"level":"debug"}`)
	if err != nil || status != http.StatusOK || !json.Valid([]byte(text)) {
		t.Errorf("operator: %d %s (%v)", status, text, err)
	}
	fixture.Await(t, "the log names the user", func() bool { return strings.Contains(log.String(), `caller=jane@example.com`) })
	if status, text, err := callLimiter(t, operator, master, http.MethodGet, level, "", ""); status != http.StatusUnauthorized {
		t.Errorf("without a user: %d %s (%v)", status, text, err)
	}
	for name, key := range map[string]ed25519.PrivateKey{
		"another operator": mutualtls.OperatorKey(limiter.RandomHashKey()), "a limiter": mutualtls.LimiterKey(master.Derive("weir-system/default")),
	} {
		if status, text, err := callLimiter(t, key, master, http.MethodGet, level, "jane", ""); err == nil {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	response, err := http.Get("http://" + address + "/admin/v1/log-level")
	if err == nil {
		_ = response.Body.Close()
	}
	if err == nil && response.StatusCode == http.StatusOK {
		t.Error("without TLS: the limiter answers")
	}
}

func TestLimiterAdmin_RejectsFlagsWithoutAuthentication(t *testing.T) {
	key := mutualtls.PublicText(mutualtls.OperatorKey(limiter.RandomHashKey()))
	for _, test := range []struct {
		flags limiterAdminFlags
		key   *limiter.HashKey
		want  string
	}{
		{limiterAdminFlags{}, nil, ""},
		{limiterAdminFlags{listen: ":0", operatorKey: key}, limiter.RandomHashKey(), ""},
		{limiterAdminFlags{operatorKey: key}, limiter.RandomHashKey(), "--admin-operator-key requires --admin-listen"},
		{limiterAdminFlags{listen: ":0"}, limiter.RandomHashKey(), "--admin-listen requires --admin-operator-key"},
		{limiterAdminFlags{listen: ":0", operatorKey: key}, nil, "--admin-listen requires --hash-key"},
		{limiterAdminFlags{listen: ":0", operatorKey: "AAAA"}, limiter.RandomHashKey(), `--admin-operator-key: "AAAA" is not a public key`},
	} {
		_, err := test.flags.tlsConfig(&counters{hashKey: test.key})
		if (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.flags, err, test.want)
		}
	}
}

// The check uses new connections: it shows a password that has changed while the old connections are still open.
func TestLimiterAdmin_ChecksRedis(t *testing.T) {
	master, redis := limiter.RandomHashKey(), fixture.Redis(t, "--maxmemory", "100mb", "--maxmemory-policy", "noeviction")
	address, _ := limiterOn(t, master, redis.URL())
	check := func() (report adminapi.RedisReport) {
		status, text, err := callLimiter(t, mutualtls.OperatorKey(master), master, http.MethodGet, "https://"+address+"/admin/v1/redis", "jane", "")
		if err = errors.Join(err, json.Unmarshal([]byte(text), &report)); err != nil || status != http.StatusOK {
			t.Errorf("%d %s (%v)", status, text, err)
		}
		return report
	}
	if r := check(); !r.Usable || r.Server == nil || len(r.Findings) != 0 || len(r.Primaries) != 1 || r.FreeMemory == 0 {
		t.Errorf("report %+v", r)
	}
	for _, words := range [][]string{
		{"ACL", "SETUSER", "default", "-evalsha"},
		{"CONFIG", "SET", "requirepass", "hunter2"},
	} {
		if _, err := redis.Do(t.Context(), words...); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"ACL": "grant the user +evalsha", "CONFIG": "requires a password"}[words[0]]
		if r := check(); r.Usable || len(r.Findings) == 0 || !strings.Contains(r.Findings[0].Text, want) {
			t.Errorf("after %v: report %+v, want %q", words, r, want)
		}
	}
}
