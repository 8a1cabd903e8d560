package deployment

import (
	"context"
	"errors"
	"net/netip"
	"path"
	"strings"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// filesDir is the parent of the directories with the files of the endpoints.
const filesDir = "/etc/weir"

// tlsFile is a part of a Secret that an endpoint needs, and where it is mounted.
type tlsFile struct {
	volume string
	field  string // of the Limiter, for messages
	secret string
	keys   []string
	use    v1alpha1.CertificateUse // "" if it is no certificate of the Limiter
}

func (f tlsFile) dir() string { return path.Join(filesDir, f.volume) }

// endpointTLS is the TLS configuration of one port.
type endpointTLS struct {
	name string // of the port, the prefix of its flags
	use  v1alpha1.CertificateUse
	spec *v1alpha1.EndpointTLS
}

func endpointsTLS(limiter *v1alpha1.Limiter) []endpointTLS {
	var all []endpointTLS
	endpoints := limiter.Spec.Endpoints
	for _, e := range []endpointTLS{{"http", v1alpha1.CertificateHTTP, endpoints.HTTP.TLS}, {"grpc", v1alpha1.CertificateGRPC, endpoints.GRPC.TLS}} {
		if e.spec != nil {
			all = append(all, e)
		}
	}
	return all
}

// pair is the certificate of the port. It is a file set of its own, because a Secret of another owner may hold the CAs.
func (e endpointTLS) pair() tlsFile {
	return tlsFile{
		e.name + "-tls", "spec.endpoints." + e.name + ".tls.secretRef", e.spec.SecretRef.Name, []string{certificateKey, privateKeyKey}, e.use,
	}
}

// clientCA are the CAs of the callers. The volume has only the CAs: the same Secret may hold a private key.
func (e endpointTLS) clientCA() (files tlsFile, found bool) {
	if e.spec.ClientCASecretRef == nil {
		return tlsFile{}, false
	}
	return tlsFile{
		e.name + "-client-ca", "spec.endpoints." + e.name + ".tls.clientCASecretRef", e.spec.ClientCASecretRef.Name, []string{caKey}, "",
	}, true
}

// tlsFiles returns the files that the endpoints need.
func tlsFiles(limiter *v1alpha1.Limiter) []tlsFile {
	var all []tlsFile
	for _, e := range endpointsTLS(limiter) {
		all = append(all, e.pair())
		if files, found := e.clientCA(); found {
			all = append(all, files)
		}
	}
	return all
}

func (e endpointTLS) arguments() []string {
	pair := e.pair().dir()
	args := []string{
		"--" + e.name + "-cert=" + path.Join(pair, certificateKey),
		"--" + e.name + "-key=" + path.Join(pair, privateKeyKey),
	}
	if files, found := e.clientCA(); found {
		args = append(args, "--"+e.name+"-client-ca="+path.Join(files.dir(), caKey))
	}
	if len(e.spec.ClientNames) > 0 {
		args = append(args, "--"+e.name+"-client-names="+csvList(texts(e.spec.ClientNames)))
	}
	return args
}

// endpointArguments returns the flags for the endpoints, and for what they read from proxies.
func endpointArguments(spec v1alpha1.LimiterSpec) []string {
	var args []string
	text := func(flag, value string) {
		if value != "" {
			args = append(args, "--"+flag+"="+value)
		}
	}
	endpoints := spec.Endpoints
	text("response-headers", string(spec.ResponseHeaders))
	text("trusted-proxies", strings.Join(texts(spec.Identity.IP.TrustedProxies), ","))
	text("client-address-header", string(spec.Identity.IP.Header))
	text("proxy-protocol-from", strings.Join(texts(endpoints.HTTP.ProxyProtocolFrom), ","))
	text("claims-header", strings.ReplaceAll(string(endpoints.ForwardAuth.ClaimsHeader), "$", "$$"))
	for _, e := range endpointsTLS(&v1alpha1.Limiter{Spec: spec}) {
		args = append(args, e.arguments()...)
	}
	text("grpc-transport", strings.ToLower(string(endpoints.GRPC.Transport)))
	text("grpc-default-domain", strings.ReplaceAll(string(endpoints.GRPC.DefaultDomain), "$", "$$"))
	text("grpc-refunds", string(endpoints.GRPC.Refunds))
	for _, option := range []struct {
		flag string
		set  bool
	}{{"envoy-unit-multiplier", endpoints.GRPC.UnitMultiplier}, {"envoy-error-response", endpoints.GRPC.ErrorResponse}} {
		if option.set {
			text(option.flag, "true")
		}
	}
	text("log-level", strings.ToLower(string(spec.LogLevel)))
	return append(append(args, decisionLogArguments(spec.DecisionLog)...), tracingArguments(spec.Tracing)...)
}

func texts[T ~string](values []T) []string {
	all := make([]string, len(values))
	for i, value := range values {
		all[i] = string(value)
	}
	return all
}

// defaultDrain is the drain time of a Limiter without one.
const defaultDrain = 5 * time.Second

// drainSeconds is how long a pod keeps serving, not ready, after SIGTERM, until callers have noticed.
func drainSeconds(limiter *v1alpha1.Limiter) int64 {
	drain, err := time.ParseDuration(string(limiter.Spec.Endpoints.Drain))
	if err != nil { // unset: the CRD validates the field
		drain = defaultDrain
	}
	return int64(drain / time.Second)
}

// checkEndpoints rejects networks that the CRD accepts and the process does not.
func checkEndpoints(limiter *v1alpha1.Limiter) error {
	for _, list := range []struct {
		field    string
		networks []v1alpha1.CIDR
	}{
		{"spec.identity.ip.trustedProxies", limiter.Spec.Identity.IP.TrustedProxies},
		{"spec.endpoints.http.proxyProtocolFrom", limiter.Spec.Endpoints.HTTP.ProxyProtocolFrom},
	} {
		for i, network := range list.networks {
			prefix, err := netip.ParsePrefix(string(network))
			if err == nil && prefix.Bits() == 0 {
				return refused("%s[%d]: %s contains all addresses, so that clients could choose their own addresses: list the networks of your proxies",
					list.field, i, network)
			}
		}
	}
	return nil
}

// checkEndpointSecrets returns a conditionError if a Secret of an endpoint does not exist or lacks a key. It adds certificates to found.
func (r *Reconciler) checkEndpointSecrets(ctx context.Context, limiter *v1alpha1.Limiter, found *Secrets) error {
	for _, files := range tlsFiles(limiter) {
		keys, certificate, err := r.readKeys(ctx, limiter.Namespace, files.secret)
		if missing, is := errors.AsType[conditionError](err); is {
			return secretMissing("%s: %s", files.field, missing.message)
		}
		if err != nil {
			return err
		}
		for _, key := range files.keys {
			if !keys.Has(key) {
				return secretMissing("%s: Secret %s has no key %s: add it", files.field, files.secret, key)
			}
		}
		if files.use != "" {
			found.addCertificate(files.use, files.secret, certificate)
		}
	}
	return nil
}
