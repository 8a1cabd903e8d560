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
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/reply"
)

// adminTimeout bounds a call of the admin endpoint.
const adminTimeout = 30 * time.Second

// adminClientFlags select the limiters that a command asks: one process by its admin endpoint, or the replicas of a Limiter in a cluster.
type adminClientFlags struct {
	address   string
	tokenFile string
	cluster   clusterFlags
}

func (f *adminClientFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.address, "admin", "",
		"admin endpoint of a limiter without Kubernetes, as in its --admin-listen: unix:PATH, or a loopback address and a port;\n"+
			"empty calls the replicas of --limiter in the cluster")
	flags.StringVar(&f.tokenFile, "admin-token-file", "", "file with the token of --admin; required on a loopback address")
	f.cluster.add(flags)
}

// replicaAnswer is the answer of one replica. The name is empty with --admin.
type replicaAnswer[T any] struct {
	replica string
	value   T
}

// ask sends in, unless it is nil, to the limiters that f selects, and returns at least one answer. It reports replicas without an answer to notes.
func ask[T any](ctx context.Context, f *adminClientFlags, method, path string, in []byte, notes io.Writer) ([]replicaAnswer[T], error) {
	answers, _, err := askAll[T](ctx, f, method, path, in, notes)
	return answers, err
}

// askAll is ask, and also returns the names of the replicas without an answer, or whose answer is an error.
func askAll[T any](
	ctx context.Context, f *adminClientFlags, method, path string, in []byte, notes io.Writer,
) (answers []replicaAnswer[T], missing []string, err error) {
	if f.address == "" {
		return askCluster[T](ctx, &f.cluster, method, path, in, notes)
	}
	var out T
	defer waiting(notes, "the admin endpoint "+f.address)()
	if err := f.call(ctx, method, path, in, &out); err != nil {
		return nil, nil, err
	}
	return []replicaAnswer[T]{{value: out}}, nil, nil
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
	response, err = (&http.Client{Transport: transport, CheckRedirect: refuseRedirects}).Do(request)
	if err != nil {
		return nil, nil, fmt.Errorf("the admin endpoint %s does not answer: %w; start the limiter with --admin-listen", f.address, errors.Unwrap(err))
	}
	return response, func() {
		_ = response.Body.Close()
		transport.CloseIdleConnections()
	}, nil
}

// refuseRedirects returns a redirection as the response: following it would send the credentials elsewhere.
func refuseRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func decodeResponse(response *http.Response, out any) error {
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("read the response of the admin endpoint: %w", err)
	}
	return decodeAnswer(response.StatusCode, body, out)
}

// decodeAnswer decodes an answer into out, or a problem into an error.
func decodeAnswer(status int, body []byte, out any) error {
	if status == http.StatusOK {
		if err := json.Unmarshal(body, out); err != nil {
			return fmt.Errorf("read the response of the admin endpoint: %w", err)
		}
		return nil
	}
	var problem reply.Problem
	if json.Unmarshal(body, &problem) != nil || problem.Detail == "" {
		return fmt.Errorf("the admin endpoint answers %d %s", status, http.StatusText(status))
	}
	err := errors.New(escaped(problem.Detail))
	if status == http.StatusBadRequest {
		return usageError(err)
	}
	return err
}

// escaped returns text, quoted if it could control the terminal: a limiter can be compromised.
func escaped(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}
