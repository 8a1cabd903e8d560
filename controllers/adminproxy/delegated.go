package adminproxy

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
)

const (
	// reviewTimeout bounds a TokenReview.
	reviewTimeout = 10 * time.Second
	// cached is how long answers of the API server are reused: a script with many calls must not load the API server, and a revoked permission
	// must end soon.
	cached = 10 * time.Second
)

// Delegated returns the Access of the API server: TokenReview, SubjectAccessReview, and the CA of its client certificates, which the
// returned function keeps up to date until its context is done.
func Delegated(kube kubernetes.Interface) (*Access, func(context.Context), error) {
	backoff := &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 3}
	clientCA, err := dynamiccertificates.NewDynamicCAFromConfigMapController("client-ca",
		"kube-system", "extension-apiserver-authentication", "client-ca-file", kube)
	if err != nil {
		return nil, nil, fmt.Errorf("read the CA of client certificates: %w", err)
	}
	authentication, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous:                &apiserver.AnonymousAuthConfig{Enabled: false},
		TokenAccessReviewClient:  kube.AuthenticationV1(),
		TokenAccessReviewTimeout: reviewTimeout,
		WebhookRetryBackoff:      backoff,
		CacheTTL:                 cached,

		ClientCertificateCAContentProvider: clientCA,
	}.New()
	if err != nil {
		return nil, nil, fmt.Errorf("authenticate users: %w", err)
	}
	authorization, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: kube.AuthorizationV1(),
		AllowCacheTTL:             cached,
		DenyCacheTTL:              time.Second,
		WebhookRetryBackoff:       backoff,
	}.New()
	if err != nil {
		return nil, nil, fmt.Errorf("authorize users: %w", err)
	}
	return &Access{Authenticator: authentication, Authorizer: authorization}, func(ctx context.Context) { clientCA.Run(ctx, 1) }, nil
}
