package certificate

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

// Serving holds the certificate that this process serves. It is safe for concurrent use. The zero Serving holds no certificate.
type Serving struct {
	pair atomic.Pointer[tls.Certificate]
}

// Configure makes a server use the current certificate for each handshake.
func (s *Serving) Configure(config *tls.Config) {
	config.MinVersion = tls.VersionTLS13
	config.GetCertificate = s.GetCertificate
	// With HTTP/1.1 an API server opens a connection for every few calls, which spreads the calls over the replicas.
	config.NextProtos = []string{"http/1.1"}
}

// GetCertificate implements GetCertificate of [tls.Config].
func (s *Serving) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair := s.pair.Load()
	if pair == nil {
		return nil, errors.New("the webhook has no certificate yet")
	}
	return pair, nil
}

// Load replaces the certificate with the one in the Secret. If the Secret is invalid, Load returns an error and keeps the current one.
func (s *Serving) Load(secret *corev1.Secret) error {
	pair, err := tls.X509KeyPair(secret.Data[keyCertificate], secret.Data[keyPrivate])
	if err != nil {
		return fmt.Errorf("read the certificate in Secret %s: %w", client.ObjectKeyFromObject(secret), err)
	}
	s.pair.Store(&pair)
	return nil
}

// current returns the current pair for the rotation. It returns the zero Pair if there is no pair or its key is not ECDSA.
func (s *Serving) current() Pair {
	pair := s.pair.Load()
	if pair == nil {
		return Pair{}
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return Pair{}
	}
	return Pair{pair.Leaf, key}
}

// follower loads the certificate in the Secret into Serving.
type follower struct {
	cached  client.Reader
	secret  types.NamespacedName
	serving *Serving
}

// Follow makes every replica, elected or not, serve the certificate in the Secret, whichever component writes it. The cache of the
// manager must hold the Secret: see [CacheFor].
func Follow(mgr ctrl.Manager, secret types.NamespacedName, serving *Serving) error {
	everyReplica := false
	return ctrl.NewControllerManagedBy(mgr).
		Named("webhook-certificate").
		For(&corev1.Secret{}, onlySecret(secret)).
		WithOptions(controller.Options{NeedLeaderElection: &everyReplica}).
		Complete(&follower{cached: mgr.GetClient(), secret: secret, serving: serving})
}

// Reconcile keeps the current certificate if the Secret is missing or invalid. The elected replica repairs the Secret.
func (f *follower) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	var secret corev1.Secret
	if err := f.cached.Get(ctx, f.secret, &secret); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{}, f.serving.Load(&secret)
}
