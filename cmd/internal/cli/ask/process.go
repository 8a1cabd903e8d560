package ask

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/limiter/admin"
)

// UnixPrefix begins the address of a Unix socket.
const UnixPrefix = "unix:"

// Process is a limiter without Kubernetes, as [Limiters].
type Process struct {
	// Address of the admin endpoint: unix:PATH, or a loopback address and a port.
	Address string
	// TokenFile has the token of the endpoint. If it is empty, no token is sent.
	TokenFile string
}

// AddFlags implements [Limiters].
func (p *Process) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.Address, "admin", "",
		"admin endpoint of a limiter without Kubernetes, as in its --admin-listen: unix:PATH, or a loopback address and a port")
	cmd.Flags().StringVar(&p.TokenFile, "admin-token-file", "", "file with the token of --admin; required on a loopback address")
}

// Selected implements [Limiters].
func (p *Process) Selected() error {
	if p.Address == "" {
		return cli.UsageError(errors.New("--admin is required: set it to the --admin-listen of a limiter. To ask the limiters of a cluster, use kubectl weir"))
	}
	return nil
}

// Request implements [Limiters].
func (p *Process) Request(ctx context.Context, method, path string, body []byte) (response *http.Response, closeConnection func(), err error) {
	host, transport := p.Address, &http.Transport{}
	if socket, isUnix := strings.CutPrefix(p.Address, UnixPrefix); isUnix {
		host = "weir"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}
	} else if address, err := netip.ParseAddrPort(host); err != nil || !address.Addr().IsLoopback() { // the token is not encrypted
		return nil, nil, cli.UsageError(fmt.Errorf("--admin %q is invalid: must be unix:PATH, or a loopback address and a port, for example 127.0.0.1:9091", host))
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+host+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, fmt.Errorf("create the request: %w", err)
	}
	if p.TokenFile != "" {
		token, err := admin.ReadToken(p.TokenFile)
		if err != nil {
			return nil, nil, cli.UsageError(fmt.Errorf("--admin-token-file: %w", err))
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err = (&http.Client{Transport: transport, CheckRedirect: RefuseRedirects}).Do(request)
	if err != nil {
		return nil, nil, fmt.Errorf("the admin endpoint %s does not answer: %w; start the limiter with --admin-listen", p.Address, errors.Unwrap(err))
	}
	return response, func() {
		_ = response.Body.Close()
		transport.CloseIdleConnections()
	}, nil
}

// Replicated implements [Limiters].
func (*Process) Replicated() bool { return false }

// Keep implements [Limiters]. A new connection to the same machine costs little.
func (*Process) Keep() (end func()) { return func() {} }

// Policies implements [Limiters].
func (p *Process) Policies(ctx context.Context) (names []string) {
	sets, err := call[admin.RuleSet](ctx, p, http.MethodGet, "/admin/v1/rules", nil, io.Discard)
	if err != nil {
		return nil
	}
	for i := range sets[0].value.Rules {
		names = append(names, sets[0].value.Rules[i].Policy)
	}
	return names
}

// String implements [Limiters].
func (p *Process) String() string { return "the admin endpoint " + p.Address }
