package mutualtls_test

import (
	"crypto/ed25519"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/mutualtls"
)

func public(t *testing.T, key ed25519.PrivateKey) ed25519.PublicKey {
	t.Helper()
	parsed, err := mutualtls.ParsePublic(mutualtls.PublicText(key))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// start starts a server that accepts client.
func start(t *testing.T, server ed25519.PrivateKey, client ed25519.PublicKey) (url string) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.TLS.DidResume)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	var err error
	if s.TLS, err = mutualtls.Server(server, client); err != nil {
		t.Fatal(err)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

// get calls a server with config, on a new connection.
func get(t *testing.T, url string, config *tls.Config) (resumed string, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Transport{TLSClientConfig: config, DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

func TestServer_AcceptsOnlyTheOperator(t *testing.T) {
	master := limiter.RandomHashKey()
	operator, replica := mutualtls.OperatorKey(master), mutualtls.LimiterKey(master.Derive("a/b"))
	other := mutualtls.OperatorKey(limiter.RandomHashKey())
	client := func(own ed25519.PrivateKey) *tls.Config {
		config, err := mutualtls.Client(own, public(t, replica))
		if err != nil {
			t.Fatal(err)
		}
		return config
	}
	url := start(t, replica, public(t, operator))
	if _, err := get(t, url, client(operator)); err != nil {
		t.Errorf("operator: %v", err)
	}
	for name, config := range map[string]*tls.Config{
		"another operator": client(other), "a limiter": client(replica),
		"no certificate": {InsecureSkipVerify: true, MinVersion: tls.VersionTLS13},
	} {
		if _, err := get(t, url, config); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestClient_AcceptsOnlyTheLimiterThatItCalls(t *testing.T) {
	master := limiter.RandomHashKey()
	operator := mutualtls.OperatorKey(master)
	config, err := mutualtls.Client(operator, public(t, mutualtls.LimiterKey(master.Derive("a/b"))))
	if err != nil {
		t.Fatal(err)
	}
	_, err = get(t, start(t, mutualtls.LimiterKey(master.Derive("a/c")), public(t, operator)), config)
	if err == nil || !strings.Contains(err.Error(), "the peer has another key than expected") {
		t.Errorf("another Limiter: %v", err)
	}
}

func TestServer_VerifiesAResumedSession(t *testing.T) {
	master := limiter.RandomHashKey()
	operator, replica := mutualtls.OperatorKey(master), mutualtls.LimiterKey(master)
	expected := public(t, operator)
	url := start(t, replica, expected)
	client, err := mutualtls.Client(operator, public(t, replica))
	if err != nil {
		t.Fatal(err)
	}
	client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for _, want := range []string{"false", "true"} {
		if resumed, err := get(t, url, client); resumed != want || err != nil {
			t.Fatalf("resumed %s (%v), want %s", resumed, err, want)
		}
	}
	clear(expected) // as if the server expected another key now
	if _, err := get(t, url, client); err == nil {
		t.Error("a resumed session of another client is accepted")
	}
}

func TestParsePublic_RejectsInvalidKeys(t *testing.T) {
	for _, text := range []string{"", "AAAA", "not base64!"} {
		if _, err := mutualtls.ParsePublic(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestKeys_DifferByInstallationAndLimiter(t *testing.T) {
	a, b := limiter.RandomHashKey(), limiter.RandomHashKey()
	keys := map[string]string{}
	for name, key := range map[string]ed25519.PrivateKey{
		"operator a": mutualtls.OperatorKey(a), "operator b": mutualtls.OperatorKey(b),
		"limiter a/x": mutualtls.LimiterKey(a.Derive("a/x")), "limiter a/y": mutualtls.LimiterKey(a.Derive("a/y")), "master a": mutualtls.LimiterKey(a),
	} {
		text := mutualtls.PublicText(key)
		if other := keys[text]; other != "" {
			t.Errorf("%s and %s have the same key", name, other)
		}
		keys[text] = name
	}
	again, err := limiter.NewHashKey(a.Text())
	if err != nil || keys[mutualtls.PublicText(mutualtls.OperatorKey(again))] != "operator a" {
		t.Error("the operator has another key after a restart")
	}
}
