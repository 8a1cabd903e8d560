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

// The sources of the certificates of the webhook.
const (
	certificatesNone     = "None"     // no webhook
	certificatesManaged  = "Managed"  // the leader creates and rotates them
	certificatesExternal = "External" // another controller writes the Secret, for example cert-manager
)

const (
	// webhookSecret, webhookService and webhookConfiguration are the names in config/webhook.
	webhookSecret        = "weir-webhook-certificates"
	webhookService       = "weir-webhook"
	webhookConfiguration = "weir-policies"
	// rotationCheck is the interval between checks of the certificates and of the CA bundle that the API server trusts.
	rotationCheck = time.Minute
)

// webhookFlags configure the webhook that validates policies.
type webhookFlags struct {
	address      string
	certificates string
}

func (f *webhookFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.certificates, "webhook-certificates", certificatesNone,
		"source of the certificates of the policy webhook, in Secret "+webhookSecret+", and of limiters that serve\n"+
			"the admission endpoint, in Secret "+deployment.ThrottleSecret+". Managed: the operator creates them;\n"+
			"External: another controller writes the Secrets, for example cert-manager; None: as External, without a policy webhook")
	flags.StringVar(&f.address, "webhook-bind-address", ":9443", "address to listen on for the policy webhook")
}

// policyWebhook is the webhook that validates policies.
type policyWebhook struct {
	managed bool
	host    string
	port    int
	secret  types.NamespacedName
	serving certificate.Serving
}

// policyWebhook parses the flags. It returns nil if the webhook is disabled. The Secrets are in the namespace of the operator.
func (f *webhookFlags) policyWebhook(namespace string) (*policyWebhook, error) {
	switch f.certificates {
	case certificatesNone:
		return nil, nil //nolint:nilnil // the flags disable the webhook
	case certificatesManaged, certificatesExternal:
	default:
		return nil, fmt.Errorf("--webhook-certificates %q is invalid: must be %s, %s or %s",
			f.certificates, certificatesManaged, certificatesExternal, certificatesNone)
	}
	host, port, err := net.SplitHostPort(f.address)
	if err != nil {
		return nil, fmt.Errorf("--webhook-bind-address: %w", err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return nil, fmt.Errorf("--webhook-bind-address %s: %q is not a valid port", f.address, port)
	}
	return &policyWebhook{
		managed: f.certificates == certificatesManaged, host: host, port: int(number),
		secret: types.NamespacedName{Namespace: namespace, Name: webhookSecret},
	}, nil
}

// prepare adds the settings of the webhook to the options of a manager.
func (j *policyWebhook) prepare(options *ctrl.Options) error {
	if err := admissionv1.AddToScheme(options.Scheme); err != nil {
		return fmt.Errorf("register the API of webhook configurations: %w", err)
	}
	options.WebhookServer = webhook.NewServer(webhook.Options{Host: j.host, Port: j.port, TLSOpts: []func(*tls.Config){j.serving.Configure}})
	if options.Cache.ByObject == nil {
		options.Cache.ByObject = map[client.Object]cache.ByObject{}
	}
	options.Cache.ByObject[&corev1.Secret{}] = certificate.CacheFor(j.secret)
	return nil
}

// setup adds the webhook to mgr, and the certificate rotation if the operator manages the certificates.
func (j *policyWebhook) setup(mgr ctrl.Manager, identity compile.Identity) error {
	policy.Register(mgr.GetWebhookServer(), policy.Config{Scheme: mgr.GetScheme(), Cache: mgr.GetCache(), Identity: identity})
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
		return fmt.Errorf("set up the webhook: %w", err)
	}
	return nil
}

// setupThrottle adds the rotation of the certificate for the admission endpoint of limiters.
func (j *policyWebhook) setupThrottle(mgr ctrl.Manager) error {
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
