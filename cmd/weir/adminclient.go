package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/reply"
)

// adminTimeout bounds a call of the admin endpoint.
const adminTimeout = 30 * time.Second

// adminClientFlags select the admin endpoint that a command calls.
type adminClientFlags struct {
	address   string
	tokenFile string
}

func (f *adminClientFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.address, "admin", "", "admin endpoint of a limiter, as in its --admin-listen: unix:PATH, or a loopback address and a port")
	flags.StringVar(&f.tokenFile, "admin-token-file", "", "file with the token of the admin endpoint; required on a loopback address")
}

func (f *adminClientFlags) validate() error {
	if f.address == "" {
		return usageError(errors.New("--admin is required: set it to the admin endpoint of the limiter"))
	}
	return nil
}

// call sends in, unless it is nil, and decodes the response into out.
func (f *adminClientFlags) call(ctx context.Context, method, path string, in []byte, out any) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	response, closeConnection, err := f.request(ctx, method, path, in) //nolint:bodyclose // closeConnection closes it
	if err != nil {
		return err
	}
	defer closeConnection()
	return decodeResponse(response, out)
}

// request sends in, unless it is nil, and returns the response. The caller calls closeConnection when it has read the body.
func (f *adminClientFlags) request(ctx context.Context, method, path string, in []byte) (response *http.Response, closeConnection func(), err error) {
	host, transport := f.address, &http.Transport{}
	if socket, isUnix := strings.CutPrefix(f.address, unixPrefix); isUnix {
		host = "weir"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}
	} else if address, err := netip.ParseAddrPort(host); err != nil || !address.Addr().IsLoopback() { // the token is not encrypted
		return nil, nil, usageError(fmt.Errorf("--admin %q is invalid: must be unix:PATH, or a loopback address and a port, for example 127.0.0.1:9091", host))
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+host+path, bytes.NewReader(in))
	if err != nil {
		return nil, nil, fmt.Errorf("create the request: %w", err)
	}
	if f.tokenFile != "" {
		token, err := admin.ReadToken(f.tokenFile)
		if err != nil {
			return nil, nil, usageError(fmt.Errorf("--admin-token-file: %w", err))
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // would send the token elsewhere
	response, err = (&http.Client{Transport: transport, CheckRedirect: refuse}).Do(request)
	if err != nil {
		return nil, nil, fmt.Errorf("the admin endpoint %s does not answer: %w; start the limiter with --admin-listen", f.address, errors.Unwrap(err))
	}
	return response, func() {
		_ = response.Body.Close()
		transport.CloseIdleConnections()
	}, nil
}

func decodeResponse(response *http.Response, out any) error {
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("read the response of the admin endpoint: %w", err)
	}
	if response.StatusCode == http.StatusOK {
		if err := json.Unmarshal(body, out); err != nil {
			return fmt.Errorf("read the response of the admin endpoint: %w", err)
		}
		return nil
	}
	var problem reply.Problem
	if json.Unmarshal(body, &problem) != nil || problem.Detail == "" {
		return fmt.Errorf("the admin endpoint answers %s", response.Status)
	}
	err = errors.New(problem.Detail)
	if response.StatusCode == http.StatusBadRequest {
		return usageError(err)
	}
	return err
}
