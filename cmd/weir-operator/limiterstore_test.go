package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	miniserver "github.com/alicebob/miniredis/v2/server"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

// secrets are the Secrets of namespace shop, in a fake client: the test is about Redis.
type secrets map[string]map[string]string

func (s secrets) open(t *testing.T, redis v1alpha1.Redis) publish.Store {
	t.Helper()
	cluster := fake.NewClientBuilder()
	for name, data := range s {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Data: map[string][]byte{}}
		for key, value := range data {
			secret.Data[key] = []byte(value)
		}
		cluster.WithObjects(secret)
	}
	limiter := &v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "edge"}, Spec: v1alpha1.LimiterSpec{Redis: redis}}
	store, err := limiterStores{cluster.Build(), "weir:", "weir-system", nil}.open(limiter)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func at(address string) v1alpha1.Redis {
	return v1alpha1.Redis{Addresses: []v1alpha1.RedisAddress{v1alpha1.RedisAddress(address)}}
}

func content(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestLimiterStore_ReturnsTheReasonOfAnError checks the condition reason of each configuration error of Redis in a Limiter.
func TestLimiterStore_ReturnsTheReasonOfAnError(t *testing.T) {
	open := fixture.Redis(t)
	locked := fixture.Redis(t, "--requirepass", "s3cret")
	encrypted, files := fixture.RedisTLS(t, true)
	authorities := map[string]string{"ca.crt": content(t, files.CA)}
	shown := map[string]string{"ca.crt": content(t, files.CA), "tls.crt": content(t, files.ClientCert), "tls.key": content(t, files.ClientKey)}
	others, err := fixture.WriteTLSFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	old, err := miniserver.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if err := old.Register("INFO", func(c *miniserver.Peer, _ string, _ []string) { c.WriteBulk("redis_version:5.0.14\r\n") }); err != nil {
		t.Fatal(err)
	}
	with := func(redis v1alpha1.Redis, credentials, tls string) v1alpha1.Redis {
		if credentials != "" {
			redis.CredentialsSecretRef = &v1alpha1.SecretReference{Name: credentials}
		}
		if tls != "" {
			redis.TLS = &v1alpha1.RedisTLS{SecretRef: &v1alpha1.SecretReference{Name: tls}}
		}
		return redis
	}
	given := secrets{
		"right": {"password": "s3cret\n"}, "wrong": {"password": "guess"}, "empty": {"username": "default"},
		"trusted": authorities, "shown": shown, "strangers": {"ca.crt": content(t, others.CA)}, "none": {"ca.crt": "no certificate"},
	}
	for name, test := range map[string]struct {
		redis  v1alpha1.Redis
		reason string // empty if there is no error
		want   string
	}{
		"no error":                    {redis: at(open.Addr())},
		"the right password":          {redis: with(at(locked.Addr()), "right", "")},
		"connection refused":          {at("127.0.0.1:1"), v1alpha1.ReasonStoreUnreachable, "127.0.0.1:1"},
		"an unknown host name":        {at("redis.invalid:6379"), v1alpha1.ReasonStoreUnreachable, "redis.invalid"},
		"a missing Service":           {at("redis:6379"), v1alpha1.ReasonStoreUnreachable, "redis.shop.svc"},
		"no password":                 {at(locked.Addr()), v1alpha1.ReasonStoreDenied, "NOAUTH"},
		"a wrong password":            {with(at(locked.Addr()), "wrong", ""), v1alpha1.ReasonStoreDenied, "WRONGPASS"},
		"a missing Secret":            {with(at(locked.Addr()), "lost", ""), v1alpha1.ReasonSecretNotFound, "shop/lost"},
		"a Secret without a password": {with(at(locked.Addr()), "empty", ""), v1alpha1.ReasonSecretNotFound, "no key named password"},
		"a client certificate":        {redis: with(at(encrypted.Addr()), "", "shown")},
		"no client certificate":       {with(at(encrypted.Addr()), "", "trusted"), v1alpha1.ReasonStoreUntrusted, "certificate required"},
		"other CAs":                   {with(at(encrypted.Addr()), "", "strangers"), v1alpha1.ReasonStoreUntrusted, "certificate"},
		"invalid CAs":                 {with(at(encrypted.Addr()), "", "none"), v1alpha1.ReasonStoreUntrusted, "shop/none"},
		"missing CAs":                 {with(at(encrypted.Addr()), "", "lost"), v1alpha1.ReasonSecretNotFound, "shop/lost"},
		"TLS to a server without TLS": {with(at(open.Addr()), "", "trusted"), v1alpha1.ReasonStoreUnreachable, "TLS handshake with " + open.Addr()},
		"a Redis that is too old":     {at(old.Addr().String()), v1alpha1.ReasonStoreTooOld, "older than 6.2"},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := given.open(t, test.redis).Inspect(t.Context())
			// A server that rejects a certificate can close the connection before the client has read the reason.
			for range 20 {
				if is, _ := errors.AsType[publish.StoreError](err); test.reason != v1alpha1.ReasonStoreUntrusted || is.Reason == test.reason {
					break
				}
				found, err = given.open(t, test.redis).Inspect(t.Context())
			}
			if test.reason == "" {
				if err != nil || found.Primaries != 1 {
					t.Errorf("%+v, %v", found, err)
				}
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			if is, _ := errors.AsType[publish.StoreError](err); is.Reason != test.reason {
				t.Errorf("reason %s, want %s: %v", is.Reason, test.reason, err)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %q, want %q", err, test.want)
			}
			if strings.Contains(err.Error(), "guess") {
				t.Errorf("the error contains the password: %v", err)
			}
		})
	}
}

func TestInspect_WarnsOfAWrongClock(t *testing.T) {
	server, clock := fixture.RedisWithClock(t)
	client, err := redisclient.Open(server.URL(), operatorRedisTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	store := limiterStore{Client: client}
	if found, err := store.Inspect(t.Context()); err != nil || len(found.WrongClocks) > 0 {
		t.Errorf("%+v, %v, want no warning", found, err)
	}
	if err := clock.Shift(time.Hour); err != nil {
		t.Fatal(err)
	}
	found, err := store.Inspect(t.Context())
	if err != nil || len(found.WrongClocks) != 1 || !strings.HasPrefix(found.WrongClocks[0], server.Addr()+": its clock is ") {
		t.Errorf("%+v, %v, want a warning that names the server", found, err)
	}
}

// TestOpen_AuthenticatesWithTheIdentityOfTheOperator uses tokens of a metadata server, and reports their absence with a reason of its own.
func TestOpen_AuthenticatesWithTheIdentityOfTheOperator(t *testing.T) {
	server, files := fixture.RedisTLS(t, false)
	if _, err := server.Do(t.Context(), "ACL", "SETUSER", "default", "resetpass", ">the-token"); err != nil {
		t.Fatal(err)
	}
	status := http.StatusOK
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Metadata-Flavor", "Google")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"access_token":"the-token","expires_in":3599,"token_type":"Bearer"}`))
	}))
	defer provider.Close()
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(provider.URL, "http://"))
	redis := at(server.Addr())
	redis.Auth = &v1alpha1.RedisAuth{Google: &v1alpha1.RedisGoogleAuth{}}
	redis.TLS = &v1alpha1.RedisTLS{SecretRef: &v1alpha1.SecretReference{Name: "trusted"}}
	given := secrets{"trusted": {"ca.crt": content(t, files.CA)}}
	if found, err := given.open(t, redis).Inspect(t.Context()); err != nil || found.Primaries != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	status = http.StatusForbidden
	_, err := given.open(t, redis).Inspect(t.Context())
	if is, _ := errors.AsType[publish.StoreError](err); is.Reason != v1alpha1.ReasonStoreCredentialsUnavailable || !strings.Contains(err.Error(), "metadata server") {
		t.Errorf("reason %q: %v", is.Reason, err)
	}
}

// TestOptions_OfAProviderAreThoseOfTheOperator has the settings that differ between the operator and the pods.
func TestOptions_OfAProviderAreThoseOfTheOperator(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIA")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	for operatorUser, want := range map[v1alpha1.RedisUser]string{"": "pods", "operator": "operator"} {
		redis := at("cache:6379")
		redis.TLS = &v1alpha1.RedisTLS{}
		redis.Auth = &v1alpha1.RedisAuth{AWS: &v1alpha1.RedisAWSAuth{
			Service: v1alpha1.RedisMemoryDB, Name: "counters", Region: "eu-west-1", User: "pods", OperatorUser: operatorUser,
		}}
		options, err := limiterStores{}.options(&v1alpha1.Limiter{Spec: v1alpha1.LimiterSpec{Redis: redis}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		go options.Renew(ctx)
		username, password, err := options.Credentials(t.Context())
		stop()
		if err != nil || username != want || !strings.HasPrefix(password, "counters/?Action=connect&User="+want) || !strings.Contains(password, "memorydb") {
			t.Errorf("user %q, token %q, %v", username, password, err)
		}
	}
}
