package flags

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

func TestOpenRedis_ReadsTLSFiles(t *testing.T) {
	server, files := fixture.RedisTLS(t, true)
	ping := func(f RedisTLS) error {
		client, err := OpenRedis(server.URL(), f, time.Second, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		defer client.Close()
		return client.Ping(t.Context())
	}
	if err := ping(RedisTLS{Ca: files.CA, Cert: files.ClientCert, Key: files.ClientKey}); err != nil {
		t.Error(err)
	}
	if err := ping(RedisTLS{Ca: files.CA}); err == nil {
		t.Error("connected without the required client certificate")
	}
	if err := ping(RedisTLS{}); err == nil {
		t.Error("trusted a certificate that no CA of the system signed")
	}
}

func TestOpenRedis_ReloadsTheCertificateForEachConnection(t *testing.T) {
	server, files := fixture.RedisTLS(t, true)
	client, err := OpenRedis(server.URL(), RedisTLS{Ca: files.CA, Cert: files.ClientCert, Key: files.ClientKey}, time.Second, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	minuteAgo := time.Now().Add(-time.Minute)
	if err := errors.Join(os.Remove(files.ClientCert), os.Chtimes(filepath.Dir(files.ClientCert), minuteAgo, minuteAgo)); err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(t.Context()); err == nil {
		t.Error("used a certificate whose file was removed")
	}
}

// TestOpenRedis_ReloadsTheCAForEachConnection replaces the CA of Redis while a client is open.
func TestOpenRedis_ReloadsTheCAForEachConnection(t *testing.T) {
	server, files := fixture.RedisTLS(t, false)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	replace := func(from string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(ca, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace(files.ServerCert) // not a CA certificate
	client, err := OpenRedis(server.URL(), RedisTLS{Ca: ca}, time.Second, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	other, err := fixture.WriteTLSFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	replace(other.CA)
	if err := client.Ping(t.Context()); err == nil {
		t.Error("trusted a certificate from another CA")
	}
	replace(files.CA)
	if err := client.Ping(t.Context()); err != nil {
		t.Errorf("after the CA was replaced: %v", err)
	}
}

// TestOpenRedis_ReadsCredentialsFromADirectory reads files as of a mounted Secret, and reads them again after a change.
func TestOpenRedis_ReadsCredentialsFromADirectory(t *testing.T) {
	server := fixture.Redis(t)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer admin.Close()
	administer := func(words ...any) {
		t.Helper()
		if err := admin.Do(t.Context(), words...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ping := func() error {
		client, err := OpenRedis(server.URL(), RedisTLS{credentials: dir}, time.Second, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		defer client.Close()
		return client.Ping(t.Context())
	}
	if err := ping(); err == nil || !strings.Contains(err.Error(), "--redis-credentials: open ") {
		t.Errorf("without a file with the password: %v", err)
	}
	administer("ACL", "SETUSER", "weir", "on", ">fi#rst", "~*", "+@all")
	write("username", "weir")
	write("password", "fi#rst\n")
	if err := ping(); err != nil {
		t.Error(err)
	}
	client, err := OpenRedis(server.URL(), RedisTLS{credentials: dir}, time.Second, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	administer("ACL", "SETUSER", "weir", "resetpass", ">second")
	if err := client.Ping(t.Context()); err == nil || strings.Contains(err.Error(), "fi#rst") {
		t.Errorf("the old password: %v", err)
	}
	write("password", "second")
	if err := client.Ping(t.Context()); err != nil {
		t.Errorf("the new password: %v", err)
	}
	for _, change := range []func(){
		func() { write("password", "") },
		func() { _ = os.Remove(filepath.Join(dir, "password")) },
	} {
		change()
		administer("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") // so that it connects again
		fixture.Await(t, "a connection while the file is written", func() bool { return client.Ping(t.Context()) == nil })
	}
	write("password", "second")
	administer("CONFIG", "SET", "requirepass", "alone")
	if err := os.Remove(filepath.Join(dir, "username")); err != nil {
		t.Fatal(err)
	}
	write("password", "alone")
	if err := ping(); err != nil {
		t.Errorf("a password without a username is for the default user: %v", err)
	}
	if _, err := OpenRedis("redis://:hunter2@a", RedisTLS{credentials: dir}, time.Second, slog.New(slog.DiscardHandler)); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("credentials in the URL too: %v", err)
	}
}

func TestOpenRedis_ReadsSentinelCredentials(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{
		"password": "a", "sentinel-username": "b", "sentinel-password": "c",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	options := redisclient.Options{}
	files := RedisTLS{credentials: dir}
	if err := files.addCredentials(&options); err != nil {
		t.Fatal(err)
	}
	username, password, err := options.SentinelCredentials(t.Context())
	if err != nil || username != "b" || password != "c" {
		t.Errorf("credentials for Sentinels: %q, %q, %v", username, password, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sentinel-password"), []byte("d"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, password, err := options.SentinelCredentials(t.Context()); err != nil || password != "d" {
		t.Errorf("after a change of the file: %q, %v", password, err)
	}
}

// TestOpenRedis_RejectsTokensThatCannotWork has the combinations of flags that are wrong without asking a provider.
func TestOpenRedis_RejectsTokensThatCannotWork(t *testing.T) {
	aws := func(change func(*RedisTLS)) RedisTLS {
		f := RedisTLS{auth: "ElastiCache", user: "weir", cache: "cache-1", region: "eu-west-1"}
		change(&f)
		return f
	}
	tests := map[string]struct {
		url   string
		files RedisTLS
		want  string
	}{
		"no kind":           {"rediss://a", RedisTLS{user: "weir"}, "require --redis-auth"},
		"an unknown kind":   {"rediss://a", RedisTLS{auth: "Oracle"}, `"Oracle" is invalid: must be one of ElastiCache`},
		"no TLS":            {"redis://a", aws(func(*RedisTLS) {}), "requires TLS"},
		"a password":        {"rediss://:hunter2@a", aws(func(*RedisTLS) {}), "remove one of the two"},
		"Sentinels":         {"rediss://a?master=m", aws(func(*RedisTLS) {}), "do not have Sentinels"},
		"no user":           {"rediss://a", aws(func(f *RedisTLS) { f.user = "" }), "the name of the user is missing"},
		"no cache":          {"rediss://a", aws(func(f *RedisTLS) { f.cache = "" }), "the name of the cache is missing"},
		"no region":         {"rediss://a", aws(func(f *RedisTLS) { f.region = "" }), "has no AWS_REGION"},
		"a cache of Azure":  {"rediss://a", RedisTLS{auth: "Azure", cache: "c"}, "does not use a cache"},
		"a user for Google": {"rediss://a", RedisTLS{auth: "Google", user: "u"}, "does not use a user"},
	}
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := OpenRedis(test.url, test.files, time.Second, slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// TestOpenRedis_AuthenticatesWithTokens uses the token of a metadata server as the password.
func TestOpenRedis_AuthenticatesWithTokens(t *testing.T) {
	server, files := fixture.RedisTLS(t, false)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Metadata-Flavor", "Google")
		_, _ = w.Write([]byte(`{"access_token":"the-token","expires_in":3599,"token_type":"Bearer"}`))
	}))
	defer provider.Close()
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(provider.URL, "http://"))
	if _, err := server.Do(t.Context(), "ACL", "SETUSER", "default", "resetpass", ">the-token"); err != nil {
		t.Fatal(err)
	}
	client, err := OpenRedis(server.URL(), RedisTLS{Ca: files.CA, auth: "Google"}, time.Second, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Ping(t.Context()); err != nil {
		t.Errorf("the first command, which waits for the first token: %v", err)
	}
}

func TestOpenRedis_RejectsInvalidFiles(t *testing.T) {
	files, err := fixture.WriteTLSFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join(t.TempDir(), "gone.pem")
	tests := map[string]struct {
		url   string
		files RedisTLS
		want  string
	}{
		"without TLS":              {"redis://a", RedisTLS{Ca: files.CA}, "use a URL that starts with rediss://"},
		"a certificate alone":      {"rediss://a", RedisTLS{Cert: files.ClientCert}, "set both --redis-cert and --redis-key"},
		"a key alone":              {"rediss://a", RedisTLS{Key: files.ClientKey}, "set both --redis-cert and --redis-key"},
		"a missing CA file":        {"rediss://a", RedisTLS{Ca: gone}, "--redis-ca: open " + gone},
		"no certificate in a file": {"rediss://a", RedisTLS{Ca: files.ClientKey}, "contains no PEM certificate"},
		"a missing certificate":    {"rediss://a", RedisTLS{Cert: gone, Key: files.ClientKey}, "--redis-cert, --redis-key: open " + gone},
		"a mismatched key":         {"rediss://a", RedisTLS{Cert: files.ClientCert, Key: files.ServerKey}, "does not match"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := OpenRedis(test.url, test.files, time.Second, slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}
