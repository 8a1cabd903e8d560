package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/controllers/registration"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/webhook/certificate"
	"github.com/weir-dev/weir/webhook/policy"
)

// How the webhook gets its certificates.
const (
	certificatesNone     = "None"     // there is no webhook
	certificatesManaged  = "Managed"  // the elected operator makes them
	certificatesExternal = "External" // somebody else writes the Secret: cert-manager
)

const (
	// webhookSecret, webhookService and webhookConfiguration are the names in config/webhook.
	webhookSecret        = "weir-webhook-certificates"
	webhookService       = "weir-webhook"
	webhookConfiguration = "weir-policies"
	// rotationCheck is how often the certificates and whom API servers trust are looked at.
	rotationCheck = time.Minute
)

// webhookFlags are about the webhook that judges policies.
type webhookFlags struct {
	address      string
	certificates string
}

func (f *webhookFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.certificates, "webhook-certificates", certificatesNone,
		"where webhooks have their certificates from, that of the operator that judges policies and those of limiters that API\n"+
			"servers ask about writes: Managed, the operator makes them; External, somebody writes the Secrets, such as\n"+
			"cert-manager, "+webhookSecret+" and "+deployment.ThrottleSecret+"; None, nobody judges policies, and the latter is left to others")
	flags.StringVar(&f.address, "webhook-bind-address", ":9443", "address of the webhook")
}

// judge is the webhook, nil if there is to be none.
type judge struct {
	managed bool
	host    string
	port    int
	secret  types.NamespacedName
	serving certificate.Serving
}

// judge reads the flags. What belongs to the webhook lies in the operator's namespace.
func (f *webhookFlags) judge(namespace string) (*judge, error) {
	switch f.certificates {
	case certificatesNone:
		return nil, nil //nolint:nilnil // no webhook is what was asked for
	case certificatesManaged, certificatesExternal:
	default:
		return nil, fmt.Errorf("--webhook-certificates %q is not %s, %s or %s",
			f.certificates, certificatesManaged, certificatesExternal, certificatesNone)
	}
	host, port, err := net.SplitHostPort(f.address)
	if err != nil {
		return nil, fmt.Errorf("--webhook-bind-address: %w", err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return nil, fmt.Errorf("--webhook-bind-address %s: %q is no port", f.address, port)
	}
	return &judge{
		managed: f.certificates == certificatesManaged, host: host, port: int(number),
		secret: types.NamespacedName{Namespace: namespace, Name: webhookSecret},
	}, nil
}

// prepare adds to a manager's options what the webhook needs of it.
func (j *judge) prepare(options *ctrl.Options) error {
	if err := admissionv1.AddToScheme(options.Scheme); err != nil {
		return fmt.Errorf("register the API of webhooks: %w", err)
	}
	options.WebhookServer = webhook.NewServer(webhook.Options{Host: j.host, Port: j.port, TLSOpts: []func(*tls.Config){j.serving.Configure}})
	if options.Cache.ByObject == nil {
		options.Cache.ByObject = map[client.Object]cache.ByObject{}
	}
	options.Cache.ByObject[&corev1.Secret{}] = certificate.CacheFor(j.secret)
	return nil
}

// setup makes mgr judge policies, and keep the certificates if they are its own to keep.
func (j *judge) setup(mgr ctrl.Manager, identity compile.Identity) error {
	policy.Register(mgr.GetWebhookServer(), policy.Config{Scheme: mgr.GetScheme(), Stored: mgr.GetClient(), Identity: identity})
	errs := []error{
		certificate.Follow(mgr, j.secret, &j.serving),
		mgr.AddReadyzCheck("webhook", mgr.GetWebhookServer().StartedChecker()),
	}
	if j.managed {
		rotator, err := certificate.NewRotator(certificate.Config{
			Rotation:       certificate.DefaultRotation(webhookService + "." + j.secret.Namespace + ".svc"),
			Secret:         j.secret,
			Configurations: []string{webhookConfiguration},
			Client:         mgr.GetClient(),
			Uncached:       mgr.GetAPIReader(),
			Serving:        &j.serving,
			Interval:       rotationCheck,
			Clock:          time.Now,
		})
		if err != nil {
			return err
		}
		errs = append(errs, rotator.SetupWithManager(mgr), j.setupThrottle(mgr))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("set the webhook up: %w", err)
	}
	return nil
}

// setupThrottle keeps the certificate that limiters answer API servers with.
func (j *judge) setupThrottle(mgr ctrl.Manager) error {
	namespace := j.secret.Namespace
	rotator, err := certificate.NewRotator(certificate.Config{
		Rotation:               certificate.DefaultRotation("*." + namespace + ".svc"),
		Secret:                 types.NamespacedName{Namespace: namespace, Name: deployment.ThrottleSecret},
		ExternalConfigurations: []string{registration.ConfigurationName},
		Client:                 mgr.GetClient(),
		Uncached:               mgr.GetAPIReader(),
		Interval:               rotationCheck,
		Clock:                  time.Now,
	})
	if err != nil {
		return err
	}
	return rotator.SetupWithManager(mgr)
}
