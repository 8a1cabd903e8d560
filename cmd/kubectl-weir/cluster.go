package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/ask"
	"github.com/weir-dev/weir/controllers/adminproxy/proxyapi"
)

// clusterFlags select a Limiter in a cluster, and how its operator is called. They implement [ask.Limiters].
type clusterFlags struct {
	limiter             string
	kubeconfig, context string
	operatorNamespace   string
	operator            string
	operatorCA          string

	reuse bool        // keep the connection for later calls, until disconnect
	kept  *connection // nil without one
}

// connection is a connection to the operator.
type connection struct {
	base   string // the URL
	client *http.Client
	stop   func() // ends the forwarding
}

// disconnect ends the connection that reuse keeps. The next call opens another one.
func (f *clusterFlags) disconnect() {
	if f.kept != nil {
		f.kept.client.CloseIdleConnections()
		f.kept.stop()
		f.kept = nil
	}
}

// connect returns the connection that reuse keeps, or a new one. The caller calls done when it has read the response.
func (f *clusterFlags) connect(ctx context.Context) (base string, client *http.Client, done func(), err error) {
	if f.kept != nil {
		return f.kept.base, f.kept.client, func() {}, nil
	}
	base, client, stop, err := f.operatorClient(ctx)
	if err != nil {
		return "", nil, nil, err
	}
	if f.reuse {
		f.kept = &connection{base, client, stop}
		return base, client, func() {}, nil
	}
	return base, client, func() {
		client.CloseIdleConnections()
		stop()
	}, nil
}

// AddFlags implements [ask.Limiters].
func (f *clusterFlags) AddFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.addKubeconfig(flags)
	flags.StringVar(&f.limiter, "limiter", "default", "Limiter whose replicas are called, as namespace/name, or its name in --operator-namespace")
	f.addOperator(flags)
	cli.CompleteFlags(cmd, map[string]cli.Values{"limiter": f.limiters, "context": f.contexts})
}

// addOperator adds the flags that select how the operator is called.
func (f *clusterFlags) addOperator(flags *pflag.FlagSet) {
	flags.StringVar(&f.operator, "operator", "",
		"URL of the admin endpoint of the operator; empty forwards a port to a pod of the operator, as kubectl port-forward does")
	flags.StringVar(&f.operatorCA, "operator-ca", "", "PEM file with the certificate authorities (CAs) of --operator; empty uses those of the system")
}

// addKubeconfig adds the flags that select a cluster.
func (f *clusterFlags) addKubeconfig(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file; empty uses KUBECONFIG or ~/.kube/config")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig file; empty uses its current context")
	flags.StringVar(&f.operatorNamespace, "operator-namespace", "weir-system", "namespace of the operator")
}

// config returns the configuration of the API server.
func (f *clusterFlags) config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.context}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, cli.UsageError(errors.New("there is no kubeconfig: set --kubeconfig or KUBECONFIG. To ask a limiter without Kubernetes, use weir with --admin"))
	}
	if err != nil {
		return nil, cli.UsageError(fmt.Errorf("read the kubeconfig: %w", err))
	}
	if config.Impersonate.UserName != "" {
		return nil, cli.UsageError(errors.New("the kubeconfig impersonates a user, which the operator does not support: use the credentials of the user"))
	}
	return config, nil
}

// limiterName returns the namespace and the name of the Limiter.
func (f *clusterFlags) limiterName() (namespace, name string, err error) {
	namespace, name, found := strings.Cut(f.limiter, "/")
	if !found {
		namespace, name = f.operatorNamespace, f.limiter
	}
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", "", cli.UsageError(fmt.Errorf("--limiter %q is invalid: must be namespace/name, or a name in the namespace of the operator", f.limiter))
	}
	return namespace, name, nil
}

// operatorClient returns the URL of the operator, and a client that sends the credentials of the kubeconfig to it. close ends the forwarding.
func (f *clusterFlags) operatorClient(ctx context.Context) (base string, client *http.Client, stop func(), err error) {
	config, err := f.config()
	if err != nil {
		return "", nil, nil, err
	}
	copied := rest.CopyConfig(config)
	// No proxy: neither the forwarded port nor a host of the cluster is behind it.
	copied.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil } //nolint:nilnil // nil is no proxy
	copied.CAData, copied.CAFile, copied.ServerName, copied.NextProtos = nil, f.operatorCA, "", nil
	base, stop = strings.TrimSuffix(f.operator, "/"), func() {}
	if f.operator == "" {
		var address string
		if address, stop, err = f.forward(ctx, config); err != nil {
			return "", nil, nil, err
		}
		base = "https://weir-operator"
		// The API server has authenticated the pod: the port leads to its loopback interface.
		copied.Insecure, copied.CAFile = true, ""
		copied.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}
	} else if u, err := url.Parse(f.operator); err != nil || u.Scheme != "https" || u.Host == "" {
		return "", nil, nil, cli.UsageError(fmt.Errorf("--operator %q is invalid: must be an https URL, because it gets your credentials", f.operator))
	} else {
		copied.Insecure = false
	}
	copied.Host = base
	client, err = rest.HTTPClientFor(copied)
	if err != nil {
		stop()
		return "", nil, nil, cli.UsageError(fmt.Errorf("read the credentials of the kubeconfig: %w", err))
	}
	client.CheckRedirect = ask.RefuseRedirects
	return base, client, stop, nil
}

// Request implements [ask.Limiters]: it sends in to the operator, which calls all replicas of the Limiter.
func (f *clusterFlags) Request(ctx context.Context, method, path string, body []byte) (response *http.Response, closeConnection func(), err error) {
	namespace, name, err := f.limiterName()
	if err != nil {
		return nil, nil, err
	}
	base, client, end, err := f.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	target := limiterURL(base, namespace, name, path)
	request, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		end()
		return nil, nil, fmt.Errorf("create the request: %w", err)
	}
	response, err = client.Do(request)
	if err != nil {
		end()
		f.disconnect() // for example, the pod has ended to which the port leads
		return nil, nil, fmt.Errorf("the operator does not answer: %w", errors.Unwrap(err))
	}
	return response, func() {
		_ = response.Body.Close()
		end()
	}, nil
}

// limiterURL returns the URL of a path of the limiters of a Limiter, at the operator.
func limiterURL(base, namespace, name, path string) string {
	return base + proxyapi.Prefix + url.PathEscape(namespace) + "/" + url.PathEscape(name) + strings.TrimPrefix(path, "/admin/v1")
}

// Selected implements [ask.Limiters]. Without a kubeconfig, Request fails.
func (*clusterFlags) Selected() error { return nil }

// Replicated implements [ask.Limiters].
func (*clusterFlags) Replicated() bool { return true }

// Keep implements [ask.Limiters]: it forwards a port once for all calls.
func (f *clusterFlags) Keep() (end func()) {
	f.reuse = true
	return f.disconnect
}

// String implements [ask.Limiters].
func (f *clusterFlags) String() string {
	return "the operator and the replicas of Limiter " + f.limiter
}
