package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/controllers/adminproxy"
	"github.com/weir-dev/weir/limiter"
)

// operatorAdminFlags configure the admin endpoint of the operator.
type operatorAdminFlags struct {
	address          string
	certificate, key string
}

func (f *operatorAdminFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.address, "admin-bind-address", "0",
		"address to listen on for the admin endpoint, which kubectl weir calls over TLS; each caller is authenticated and authorized\n"+
			"by the API server; 0 disables it")
	flags.StringVar(&f.certificate, "admin-cert", "",
		"PEM file with the certificate for --admin-bind-address; reloaded for each connection; empty uses a self-signed certificate,\n"+
			"which is enough for kubectl weir: it connects through the API server")
	flags.StringVar(&f.key, "admin-key", "", "PEM file with the private key of --admin-cert; reloaded for each connection")
}

// validate returns an error if the flags contradict each other.
func (f *operatorAdminFlags) validate() error {
	switch {
	case (f.certificate == "") != (f.key == ""):
		return errors.New("set both --admin-cert and --admin-key, or neither")
	case f.address == "0" && f.certificate != "":
		return errors.New("--admin-cert and --admin-key require --admin-bind-address, which is 0")
	}
	return nil
}

// addTo adds the endpoint to mgr, unless the flags disable it.
func (f *operatorAdminFlags) addTo(ctx context.Context, mgr manager.Manager, hashKey *limiter.HashKey) error {
	if f.address == "0" {
		return nil
	}
	certificate, err := f.certificates()
	if err != nil {
		return cli.UsageError(err)
	}
	kube, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("connect to the Kubernetes API server: %w", err)
	}
	access, follow, err := adminproxy.Delegated(kube)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.address)
	if err != nil {
		return cli.UsageError(fmt.Errorf("%w; set another address with --admin-bind-address", err))
	}
	log := slog.Default()
	handler := adminproxy.NewHandler(adminproxy.Config{
		Access: access, Client: mgr.GetClient(), Uncached: mgr.GetAPIReader(), HashKey: hashKey, Log: log,
	})
	return mgr.Add(&adminproxy.Server{Handler: handler, Listener: listener, Certificate: certificate, Follow: follow, Log: log})
}

func (f *operatorAdminFlags) certificates() (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	if f.certificate != "" {
		reloader, err := cli.NewCertReloader(f.certificate, f.key)
		if err != nil {
			return nil, fmt.Errorf("--admin-cert, --admin-key: %w", err)
		}
		return reloader.GetCertificate, nil
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("weir-operator", nil, nil)
	if err != nil {
		return nil, fmt.Errorf("create a self-signed certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("create a self-signed certificate: %w", err)
	}
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }, nil
}
