package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisclient/identity"
	"github.com/weir-dev/weir/limiter/redisclient/identity/providers"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/limiter/rules"
)

const (
	// operatorRedisTimeout is the timeout of a Redis command of the operator. It is longer than that of limiters, because no
	// request waits for it.
	operatorRedisTimeout = time.Second
	// credentialsInterval is how often the Secret with credentials is read while there are connections.
	credentialsInterval = 30 * time.Second
	// secretTimeout is the timeout for reading a Secret.
	secretTimeout = 5 * time.Second
)

// limiterStores opens the Redis of Limiters. It reads the Secrets of a Limiter for each connection.
type limiterStores struct {
	secrets client.Reader
	prefix  string
	// namespace is the namespace of the operator, in which DNS resolves short Service names.
	namespace string
	// confirm returns an error if this operator is not the leader any more.
	confirm func(context.Context) error
}

// open implements the function of ruleset.Config.
func (s limiterStores) open(limiter *v1alpha1.Limiter) (publish.Store, error) {
	options, err := s.options(limiter)
	if err != nil {
		return nil, err
	}
	redis, err := redisclient.New(options)
	if err != nil {
		return nil, err
	}
	exchange := controlplane.NewExchange(redis, s.prefix, limiter.Namespace+"/"+limiter.Name)
	exchange.BeforeReplacing(s.confirm)
	return limiterStore{redis, exchange}, nil
}

func (s limiterStores) options(limiter *v1alpha1.Limiter) (redisclient.Options, error) {
	redis := limiter.Spec.Redis
	options := redisclient.Options{
		Mode:       redisclient.Mode(redis.EffectiveMode()),
		MasterName: redis.MasterName,
		Database:   int(redis.Database),
		Timeout:    operatorRedisTimeout,
	}
	for _, address := range redis.Addresses {
		options.Addresses = append(options.Addresses, string(address))
	}
	if limiter.Namespace != s.namespace {
		options.DialAddress = servicesOf(limiter.Namespace)
	}
	if tls := redis.TLS; tls != nil {
		s.addTLS(&options, limiter.Namespace, tls.SecretRef)
	}
	if redis.Auth != nil {
		return options, addTokens(&options, redis.Auth)
	}
	if ref := cmp.Or(redis.OperatorCredentialsSecretRef, redis.CredentialsSecretRef); ref != nil {
		s.addCredentials(&options, types.NamespacedName{Namespace: limiter.Namespace, Name: ref.Name})
	}
	return options, nil
}

// servicesOf returns a function that resolves a short name to the Service in the namespace, as DNS does for pods there.
func servicesOf(namespace string) func(string) string {
	return func(address string) string {
		host, port, err := net.SplitHostPort(address)
		if err != nil || strings.ContainsAny(host, ".:") || host == "localhost" {
			return address
		}
		return net.JoinHostPort(host+"."+namespace+".svc", port)
	}
}

// addTokens makes the tokens of a provider the credentials. They are those of the identity of the operator.
func addTokens(options *redisclient.Options, auth *v1alpha1.RedisAuth) error {
	settings := providers.Settings{Kind: providers.Azure}
	switch {
	case auth.AWS != nil:
		settings = providers.Settings{
			Kind: providers.Kind(auth.AWS.Service), Cache: auth.AWS.Name, Region: auth.AWS.Region, User: string(cmp.Or(auth.AWS.OperatorUser, auth.AWS.User)),
		}
	case auth.Google != nil:
		settings = providers.Settings{Kind: providers.Google}
	}
	provider, err := providers.Open(settings)
	if err != nil {
		return publish.NewStoreError(v1alpha1.ReasonStoreCredentialsUnavailable, fmt.Errorf("spec.redis.auth: %w", err))
	}
	identity.NewSource(provider, slog.Default()).AddTo(options)
	return nil
}

// addCredentials adds the credentials in the Secret.
func (s limiterStores) addCredentials(options *redisclient.Options, name types.NamespacedName) {
	options.RenewCredentials = credentialsInterval
	options.Credentials = func(ctx context.Context) (username, password string, err error) {
		data, err := s.read(ctx, name)
		if err != nil {
			return "", "", err
		}
		if len(data["password"]) == 0 {
			return "", "", publish.NewStoreError(v1alpha1.ReasonSecretNotFound, fmt.Errorf("secret %s has no key named password", name))
		}
		return cli.TrimNewline(data["username"]), cli.TrimNewline(data["password"]), nil
	}
	if options.Mode != redisclient.ModeSentinel {
		return
	}
	options.SentinelCredentials = func(ctx context.Context) (username, password string, err error) {
		data, err := s.read(ctx, name)
		return cli.TrimNewline(data["sentinel-username"]), cli.TrimNewline(data["sentinel-password"]), err
	}
}

// addTLS configures TLS with the certificates in the Secret, if there is one.
func (s limiterStores) addTLS(options *redisclient.Options, namespace string, ref *v1alpha1.SecretReference) {
	options.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if ref == nil {
		return
	}
	name := types.NamespacedName{Namespace: namespace, Name: ref.Name}
	options.RootCAs = func() (*x509.CertPool, error) {
		data, err := s.read(context.Background(), name)
		if err != nil || len(data["ca.crt"]) == 0 {
			return nil, err // nil selects the CAs of the system
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(data["ca.crt"]) {
			return nil, publish.NewStoreError(v1alpha1.ReasonStoreUntrusted, fmt.Errorf("key ca.crt of Secret %s contains no PEM certificate", name))
		}
		return pool, nil
	}
	options.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		data, err := s.read(context.Background(), name)
		if err != nil || len(data["tls.crt"]) == 0 {
			return &tls.Certificate{}, err // no client certificate
		}
		pair, err := tls.X509KeyPair(data["tls.crt"], data["tls.key"])
		if err != nil {
			return nil, publish.NewStoreError(v1alpha1.ReasonStoreUntrusted, fmt.Errorf("keys tls.crt and tls.key of Secret %s are invalid: %w", name, err))
		}
		return &pair, nil
	}
}

func (s limiterStores) read(ctx context.Context, name types.NamespacedName) (map[string][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	var secret corev1.Secret
	err := s.secrets.Get(ctx, name, &secret)
	if apierrors.IsNotFound(err) {
		return nil, publish.NewStoreError(v1alpha1.ReasonSecretNotFound, fmt.Errorf("secret %s does not exist", name))
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	return secret.Data, nil
}

// limiterStore implements publish.Store with Redis.
type limiterStore struct {
	*redisclient.Client
	*controlplane.Exchange
}

// Inspect implements publish.Store.
func (s limiterStore) Inspect(ctx context.Context) (publish.Redis, error) {
	found, err := s.Client.Inspect(ctx)
	redis := publish.Redis{Primaries: found.Primaries, Version: found.Version, Warnings: found.Warnings}
	for _, clock := range found.WrongClocks {
		redis.WrongClocks = append(redis.WrongClocks, clock.String())
	}
	return redis, withReason(err)
}

// LoadScripts implements publish.Store.
func (s limiterStore) LoadScripts(ctx context.Context) ([]publish.Script, error) {
	loaded, err := s.Client.LoadScripts(ctx, slices.Concat(redisstore.Scripts(), controlplane.Scripts()))
	scripts := make([]publish.Script, len(loaded))
	for i, script := range loaded {
		scripts[i] = publish.Script{Name: script.Name, SHA: script.SHA, LoadedOn: script.LoadedOn}
	}
	return scripts, withReason(err)
}

// Publish implements publish.Store.
func (s limiterStore) Publish(ctx context.Context, set rules.Encoded, rewrite bool) (changed bool, err error) {
	changed, err = s.Exchange.Publish(ctx, set, rewrite)
	return changed, withReason(err)
}

// Active implements publish.Store.
func (s limiterStore) Active(ctx context.Context) (revision string, sequence int64, err error) {
	revision, sequence, err = s.Exchange.Active(ctx)
	return revision, sequence, withReason(err)
}

// Archive implements publish.Store.
func (s limiterStore) Archive(ctx context.Context, revision string) (data []byte, found bool, err error) {
	data, found, err = s.Exchange.Archive(ctx, revision)
	return data, found, withReason(err)
}

// Replicas implements publish.Store.
func (s limiterStore) Replicas(ctx context.Context) ([]publish.Replica, error) {
	live, err := s.Exchange.Replicas(ctx)
	replicas := make([]publish.Replica, len(live))
	for i, r := range live {
		replicas[i] = publish.Replica(r)
	}
	return replicas, withReason(err)
}

// withReason adds the condition reason to err.
func withReason(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[publish.StoreError](err); ok {
		return err
	}
	return publish.NewStoreError(reasonOf(err), err)
}

func reasonOf(err error) string {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		remote       *net.OpError
		plain        tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, redisclient.ErrTooOld):
		return v1alpha1.ReasonStoreTooOld
	case redisclient.Kind(err) == redisclient.KindCredentials:
		return v1alpha1.ReasonStoreCredentialsUnavailable
	case redisclient.Kind(err) == redisclient.KindDenied:
		return v1alpha1.ReasonStoreDenied
	case errors.As(err, &verification), errors.As(err, &authority), errors.As(err, &plain),
		errors.As(err, &remote) && remote.Op == "remote error": // the Op of TLS alerts from the server
		return v1alpha1.ReasonStoreUntrusted
	default:
		return v1alpha1.ReasonStoreUnreachable
	}
}
