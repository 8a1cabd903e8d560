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

// Serving is the pair that this process answers with. It is safe for concurrent use, and the zero Serving has none yet.
type Serving struct {
	pair atomic.Pointer[tls.Certificate]
}

// Configure makes a server answer with the pair as it is at the time of each handshake.
func (s *Serving) Configure(config *tls.Config) {
	config.MinVersion = tls.VersionTLS13
	config.GetCertificate = s.GetCertificate
	// API servers open a connection for every few calls only over HTTP/1.1, which is what spreads them over the replicas.
	config.NextProtos = []string{"http/1.1"}
}

// GetCertificate is that of a [tls.Config].
func (s *Serving) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair := s.pair.Load()
	if pair == nil {
		return nil, errors.New("the webhook has no certificate yet")
	}
	return pair, nil
}

// Take makes the pair of a Secret the one to answer with. On an error it stays what it was.
func (s *Serving) Load(secret *corev1.Secret) error {
	pair, err := tls.X509KeyPair(secret.Data[keyCertificate], secret.Data[keyPrivate])
	if err != nil {
		return fmt.Errorf("read the certificate in Secret %s: %w", client.ObjectKeyFromObject(secret), err)
	}
	s.pair.Store(&pair)
	return nil
}

// held is the pair for the rotation to go on from, if it is of a kind that the rotation issues.
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

// follower brings the Secret's pair to Serving.
type follower struct {
	cached  client.Reader
	secret  types.NamespacedName
	serving *Serving
}

// Follow makes every replica, elected or not, serve what the Secret holds, whoever writes it. The manager's cache must
// hold the Secret; see [CacheOf].
func Follow(mgr ctrl.Manager, secret types.NamespacedName, serving *Serving) error {
	everyReplica := false
	return ctrl.NewControllerManagedBy(mgr).
		Named("webhook-certificate").
		For(&corev1.Secret{}, onlySecret(secret)).
		WithOptions(controller.Options{NeedLeaderElection: &everyReplica}).
		Complete(&follower{cached: mgr.GetClient(), secret: secret, serving: serving})
}

// Reconcile keeps what is served when the Secret is gone or damaged: the elected replica repairs it.
func (f *follower) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	var secret corev1.Secret
	if err := f.cached.Get(ctx, f.secret, &secret); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{}, f.serving.Load(&secret)
}
